use proptest::prelude::*;

use super::*;

fn masks(values: &[&str]) -> Masks {
    let known = |value: &&str| Known {
        name: "TOKEN".to_owned(),
        placeholder: b"placeholder".to_vec(),
        value: Zeroizing::new(value.as_bytes().to_vec()),
        fields: Vec::new(),
    };
    Masks::of(&values.iter().map(known).collect::<Vec<_>>())
}

/// What comes out if it comes in these pieces; what is ready is taken after each.
fn masked(values: &[&str], pieces: &[(Part, &str)]) -> String {
    let masks = masks(values);
    let mut masker = Masker::new(&masks);
    let mut out = Vec::new();
    let mut take = |masker: &mut Masker<'_>| {
        let ready = masker.ready().to_vec();
        masker.pass(ready.len());
        out.extend(ready);
    };
    for (part, piece) in pieces {
        masker.push(*part, piece.as_bytes());
        take(&mut masker);
    }
    masker.finish();
    take(&mut masker);
    assert_eq!(masker.held(), 0);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_value_is_crossed_out_and_nothing_else() {
    for (given, expected) in [
        ("hunter22", "********"),
        ("a hunter22, hunter22!", "a ********, ********!"),
        ("hunter2", "hunter2"),
        ("hunthunter22", "hunt********"),
        ("HUNTER22", "HUNTER22"),
    ] {
        assert_eq!(masked(&["hunter22"], &[(Part::Text, given)]), expected);
    }
    assert_eq!(masked(&["hunter22", "ter22-more"], &[(Part::Text, "hunter22-more")]), "*************");
    assert_eq!(masked(&["abcabcabd"], &[(Part::Text, "abcabcabcabd")]), "abc*********");
}

#[test]
fn the_forms_that_servers_write_are_crossed_out() {
    let value = "ab/cd+ef\"gh";
    for form in [value, "ab/cd+ef\\\"gh", "ab\\/cd+ef\\\"gh", "ab%2Fcd%2Bef%22gh"] {
        assert_eq!(masked(&[value], &[(Part::Text, form)]), "*".repeat(form.len()), "{form}");
    }
}

#[test]
fn what_turns_up_by_chance_is_left() {
    assert_eq!(masked(&["short"], &[(Part::Text, "a short one")]), "a short one");
}

#[test]
fn a_value_is_found_across_chunks() {
    let pieces =
        [(Part::Text, "x hun"), (Part::Frame, "\r\n4"), (Part::Aside, ";a=b\r\n"), (Part::Text, "ter2"), (Part::Text, "2 y")];
    assert_eq!(masked(&["hunter22"], &pieces), "x ***\r\n4;a=b\r\n***** y");
    let pieces = [(Part::Text, "hun"), (Part::Aside, "hunter22"), (Part::Text, "ter22")];
    assert_eq!(masked(&["hunter22"], &pieces), "*".repeat(16));
}

/// How much is passed on at once if this is all that has come.
fn passed_at_once(text: &str) -> usize {
    let masks = masks(&["hunter22"]);
    let mut masker = Masker::new(&masks);
    masker.push(Part::Text, text.as_bytes());
    masker.ready().len()
}

#[test]
fn what_is_held_back_does_not_tell_a_right_guess_from_a_wrong_one() {
    for before in [String::new(), "x".repeat(1000), "data: \n".to_owned()] {
        for (right, wrong) in [("h", "x"), ("hunt", "hunx"), ("hunter2", "hunterx"), ("xhunter2", "xhunterx")] {
            let [right, wrong] = [right, wrong].map(|guess| passed_at_once(&format!("{before}{guess}")));
            assert_eq!(right, wrong);
        }
    }
}

#[test]
fn whole_lines_are_not_held_back() {
    for text in ["data: x\n\n", "{}\r\n", "data: hunter2\n"] {
        assert_eq!(passed_at_once(text), text.len(), "{text}");
    }
    assert_eq!(passed_at_once("data: x\n\nhun"), 9);
    assert_eq!(passed_at_once(&"x".repeat(10_000)), 10_000 - LEAST_HELD);
}

#[test]
fn what_was_held_back_for_long_is_passed_on() {
    let masks = masks(&["hunter22"]);
    let mut masker = Masker::new(&masks);
    masker.push(Part::Text, b"x hun");
    assert_eq!(masker.ready(), b"");
    masker.release();
    assert_eq!(masker.ready(), b"x hun");
    masker.pass(5);
    masker.push(Part::Text, b"ter22!");
    assert_eq!(masker.ready(), b"");
    masker.release();
    assert_eq!(masker.ready(), b"*****!", "the rest of it is still known");
}

proptest! {
    /// However it is cut, the outcome is the same, and as long.
    #[test]
    fn cuts_do_not_matter(text in "[ab]{0,60}", cuts in proptest::collection::vec(1usize..6, 0..30)) {
        let values = ["abaababa", "bbabbabb"];
        let whole = masked(&values, &[(Part::Text, &text)]);
        prop_assert_eq!(whole.len(), text.len());
        for value in values {
            prop_assert!(!whole.contains(value));
        }
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        for cut in cuts {
            let (piece, others) = rest.split_at(cut.min(rest.len()));
            pieces.push((Part::Text, piece));
            rest = others;
        }
        pieces.push((Part::Text, rest));
        prop_assert_eq!(masked(&values, &pieces), whole);
    }
}
