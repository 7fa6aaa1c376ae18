use proptest::prelude::*;

use super::*;

fn extracted(metric: &str, output: &str) -> Option<f64> {
    let mut extractor = Extractor::new(&parse(metric).unwrap()).unwrap();
    extractor.feed(output.as_bytes());
    extractor.finish()
}

#[test]
fn metrics_as_people_write_them() {
    let table = [
        ("speed=([0-9.]+) req/s", "speed", Better::Lower, Extract::Regex("([0-9.]+) req/s".to_owned())),
        ("speed:higher=a=([0-9]+)", "speed", Better::Higher, Extract::Regex("a=([0-9]+)".to_owned())),
        ("size:lower=$.assets[0].bytes", "size", Better::Lower, Extract::Json("$.assets[0].bytes".to_owned())),
        ("all=$", "all", Better::Lower, Extract::Json("$".to_owned())),
    ];
    for (text, name, better, extract) in table {
        let expected = MetricPlan { name: name.to_owned(), extract, better, check: None };
        assert_eq!(parse(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn what_is_no_metric_is_refused_with_an_example() {
    let table = [
        ("speed", "'speed' is not a metric; use NAME=REGEX or NAME=$.path"),
        ("speed:fast=x", "'fast' is no direction; use higher or lower"),
        ("=x", "'' cannot be the name of a metric: use letters, digits, '-', '_' and '.', beginning with a letter"),
        ("a b=x", "'a b' cannot be the name of a metric: use letters, digits, '-', '_' and '.', beginning with a letter"),
        ("duration=x", "'duration' is a built-in metric; choose another name"),
        ("a=$.", "'$.' is not a path: a name is missing after '.'"),
        ("a=$.b[", "'$.b[' is not a path: ']' is missing"),
        ("a=$.b[x]", "'$.b[x]' is not a path: 'x' is not a number; names are in quotes"),
        ("a=$.b['x", "'$.b['x' is not a path: ' is missing at the end of a name"),
        ("a=$.*", "'$.*' is not a path: '*' is not supported; name one thing"),
        ("a=$.b[0]c", "'$.b[0]c' is not a path: '.' or '[' is missing before 'c'"),
    ];
    for (text, message) in table {
        let error = parse(text).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!((error.code(), error.remedies().len(), error.kind()), ("invalid_metric", 1, Kind::Invalid));
    }
    for pattern in ["a=(", "a=[z-a]", "a=x{99999}{99999}", "a="] {
        let error = parse(pattern).unwrap_err().to_string();
        assert!(error.contains("is not a regular expression"), "{error}");
    }
}

#[test]
fn the_last_match_counts() {
    assert_eq!(extracted("a=([0-9.]+) req/s", "10.5 req/s\nthen 12.25 req/s and 13 req/s\nthe end"), Some(13.0));
    assert_eq!(extracted("a=[0-9]+", "1 2\n3"), Some(3.0), "all of it, without a group");
    assert_eq!(extracted("a=x=([0-9]+)|y=([0-9]+)", "x=1\ny=2"), Some(2.0), "the group that is there");
    assert_eq!(extracted("a=score (.*)", "score 7\nscore unknown"), Some(7.0), "the last that is a number");
    assert_eq!(extracted("a=score (.*)", "nothing"), None);
    assert_eq!(extracted("a=^total (.*)$", "\x1b[32mtotal\x1b[0m 5\r\ntotals 6"), Some(5.0), "lines without colours");
}

#[test]
fn numbers_as_tools_print_them() {
    let numbers = [
        ("12", 12.0),
        ("-3.5", -3.5),
        ("+3", 3.0),
        (" 1e3 ", 1000.0),
        (".5", 0.5),
        ("1,234", 1234.0),
        ("-1,234,567.25", -1_234_567.25),
    ];
    for (text, expected) in numbers {
        assert_eq!(number(text), Some(expected), "{text}");
    }
    for text in ["", "NaN", "inf", "-Infinity", "1e999", "1,2", "1,23", "12,3456", ",123", "1,,234", "1.5,000", "12 ms", "0x10"] {
        assert_eq!(number(text), None, "{text}");
    }
}

#[test]
fn a_number_in_json_is_in_the_last_line_that_has_it() {
    let lines = "starting\n{\"a\":{\"b\":[1,2]}}\n{\"a\":{\"b\":[3,4]}}\n{\"other\":1}\n[9]\ndone";
    assert_eq!(extracted("m=$.a.b[1]", lines), Some(4.0));
    assert_eq!(extracted("m=$['a'][\"b\"][0]", lines), Some(3.0));
    assert_eq!(extracted("m=$[0]", lines), Some(9.0));
    assert_eq!(extracted("m=$.a.b[2]", lines), None);
    assert_eq!(extracted("m=$.a", lines), None, "not a number");
    assert_eq!(extracted("m=$['c d'].é['it\\'s']", r#"{"c d":{"é":{"it's":7}}}"#), Some(7.0));
    assert_eq!(extracted("m=$", "5\n"), Some(5.0));
}

#[test]
fn or_in_a_document_over_several_lines() {
    let document = "{\n  \"results\": [\n    {\n      \"mean\": 0.25\n    }\n  ]\n}\n";
    assert_eq!(extracted("m=$.results[0].mean", document), Some(0.25));
    assert_eq!(extracted("m=$.results[0].mean", &format!("> bench\n\n{document}done in 3 s\n")), Some(0.25));
    assert_eq!(extracted("m=$.results[0].mean", &format!("{document}{}", document.replace("0.25", "0.5"))), Some(0.5));
    assert_eq!(extracted("m=$.results[0].mean", &document[..40]), None);
}

#[test]
fn too_much_output_is_not_kept() {
    let mut extractor = Extractor::new(&parse("m=$.a").unwrap()).unwrap();
    let line = [b"x".repeat(1 << 16), b"\n".to_vec()].concat();
    for _ in 0..200 {
        extractor.feed(&line);
    }
    extractor.feed(b"{\"a\": 1}\n");
    assert_eq!(extractor.finish(), Some(1.0));
    assert_eq!(extracted("m=$.a", &"[".repeat(1 << 20)), None, "deep documents are not followed");
}

#[test]
fn an_expression_that_looks_far_ahead_ends_on_a_hostile_line() {
    assert_eq!(extracted("m=([0-9])(?: ms.*end)?", &format!("{}\n7", "1 ms ".repeat(1 << 20))), Some(7.0));
}

proptest! {
    #[test]
    fn what_is_found_is_a_number_whatever_the_chunks(
        output in "([0-9.,+-]{0,6}| |\n|\r|\\{\"a\":|\\}|NaN|inf|1e999|\u{1b}\\[31m){0,40}",
        at: prop::sample::Index,
    ) {
        for metric in ["m=([0-9.,eNainf+-]+)", "m=$.a", "m=$"] {
            let whole = extracted(metric, &output);
            prop_assert!(whole.is_none_or(f64::is_finite));
            let mut extractor = Extractor::new(&parse(metric).unwrap()).unwrap();
            let (front, back) = output.as_bytes().split_at(if output.is_empty() { 0 } else { at.index(output.len()) });
            extractor.feed(front);
            extractor.feed(back);
            prop_assert_eq!(extractor.finish(), whole);
        }
    }

    #[test]
    fn no_text_is_too_strange_for_a_metric(text in ".{0,40}", path in "[$.\\[\\]'\"\\\\a-c0-9é*]{0,12}") {
        let _ = parse(&text);
        let _ = parse(&format!("m={path}"));
        let _ = parse(&format!("m=${path}"));
    }
}
