use std::collections::BTreeMap;

use proptest::prelude::*;
use whatif_types::Explain;
use whatif_types::experiment::Kind;

use super::*;

fn texts(words: &[&str]) -> Vec<Text> {
    words.iter().map(|word| Text::from(*word)).collect()
}

fn row(name: &str, values: &[&str]) -> (String, Vec<String>) {
    (name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
}

fn prompt(name: Option<&str>, text: &str) -> (Option<String>, String) {
    (name.map(str::to_owned), text.to_owned())
}

/// Name and arguments of each.
#[track_caller]
fn attempts(wanted: Wanted) -> Vec<(String, Vec<String>)> {
    let plans = wanted.into_attempts().unwrap();
    let arguments =
        |plan: &AttemptPlan| plan.arguments.iter().map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned()).collect();
    plans.iter().map(|plan| (plan.name.clone(), arguments(plan))).collect()
}

fn names(wanted: Wanted) -> Vec<String> {
    attempts(wanted).into_iter().map(|(name, _)| name).collect()
}

fn called(name: &str, arguments: &[&str]) -> (String, Vec<String>) {
    (name.to_owned(), arguments.iter().map(|argument| (*argument).to_owned()).collect())
}

#[test]
fn scripts_are_numbered_and_run_by_the_shell() {
    let wanted = Wanted { scripts: vec!["echo a".to_owned(), "echo b | cat".to_owned()], ..Wanted::default() };
    assert_eq!(attempts(wanted), [called("1", &["/bin/sh", "-c", "echo a"]), called("2", &["/bin/sh", "-c", "echo b | cat"])]);
}

#[test]
fn everything_can_be_raced_together() {
    let wanted = Wanted {
        scripts: vec!["one".to_owned()],
        named: vec![("bump".to_owned(), "two".to_owned())],
        patches: vec![Patch { name: None, path: "fixes/a.patch".to_owned(), content: Text::from("--- a\n") }],
        reverts: vec![(Some("back".to_owned()), "HEAD".to_owned()), (None, "v1.0".to_owned())],
        command: texts(&["make", "it work"]),
        ..Wanted::default()
    };
    let plans = wanted.into_attempts().unwrap();
    let seen: Vec<_> = plans.iter().map(|plan| (plan.name.as_str(), plan.kind, plan.about.as_str())).collect();
    let expected = [
        ("1", Kind::Command, "one"),
        ("bump", Kind::Command, "two"),
        ("a", Kind::Patch, "fixes/a.patch"),
        ("back", Kind::Revert, "revert HEAD"),
        ("revert-v1.0", Kind::Revert, "revert v1.0"),
        ("6", Kind::Command, "make 'it work'"),
    ];
    assert_eq!(seen, expected);
    assert_eq!(plans[2].input, Some(Text::from("--- a\n")));
    assert_eq!(plans[4].arguments.last(), Some(&Text::from("v1.0")));
}

#[test]
fn a_value_does_not_take_a_name_that_means_something_else() {
    let wanted = Wanted {
        matrix: vec![("STEP".to_owned(), vec!["setup".to_owned(), "best".to_owned()])],
        command: vec![Text::from("make"), Text::from("{STEP}")],
        ..Wanted::default()
    };
    let names: Vec<String> = wanted.into_attempts().unwrap().into_iter().map(|attempt| attempt.name).collect();
    assert_eq!(names, ["setup-2", "best-2"]);
}

#[test]
fn a_matrix_fills_the_command_and_names_the_attempts() {
    let wanted = Wanted {
        matrix: vec![row("V", &["1.3.0", "2.0.0"]), row("OS", &["a b", "c"])],
        command: texts(&["npm", "i", "x@{V}", "{OS}{V}", "${V}", "{other}", "{}"]),
        ..Wanted::default()
    };
    let all = attempts(wanted.clone());
    assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["1.3.0-a-b", "1.3.0-c", "2.0.0-a-b", "2.0.0-c"]);
    assert_eq!(all[2].1, ["npm", "i", "x@2.0.0", "a b2.0.0", "${V}", "{other}", "{}"]);
    let parameters = BTreeMap::from([("V".to_owned(), "1.3.0".to_owned()), ("OS".to_owned(), "a b".to_owned())]);
    assert_eq!(wanted.into_attempts().unwrap()[0].parameters, parameters);
}

#[test]
fn what_is_filled_in_is_not_filled_again() {
    let wanted = Wanted {
        matrix: vec![row("A", &["{B}"]), row("B", &["{A}"])],
        prompts: vec![prompt(None, "use {A} and {prompt}")],
        command: texts(&["x", "{A}{B}", "{prompt}"]),
        ..Wanted::default()
    };
    assert_eq!(attempts(wanted)[0].1, ["x", "{B}{A}", "use {A} and {prompt}"]);
}

#[test]
fn arguments_that_are_no_text_are_filled_too() {
    let command = vec![Text::from("x"), Text::Bytes(b"\xff{V}".to_vec())];
    let wanted = Wanted { matrix: vec![row("V", &["1"])], command, ..Wanted::default() };
    assert_eq!(wanted.into_attempts().unwrap()[0].arguments[1], Text::Bytes(b"\xff1".to_vec()));
}

#[test]
fn each_prompt_is_an_attempt() {
    let wanted = |command: &[&str]| Wanted {
        prompts: vec![prompt(Some("short"), "be brief"), prompt(None, "be thorough")],
        command: texts(command),
        ..Wanted::default()
    };
    let expected = [called("short", &["agent", "-p", "be brief"]), called("2", &["agent", "-p", "be thorough"])];
    assert_eq!(attempts(wanted(&["agent", "-p", "{prompt}"])), expected);
    assert_eq!(attempts(wanted(&["agent", "-p"])), expected, "without a place it is the last argument");
    let plans = wanted(&["agent"]).into_attempts().unwrap();
    assert_eq!((plans[0].kind, plans[0].about.as_str()), (Kind::Prompt, "be brief"));
}

#[test]
fn prompts_values_and_repeats_are_combined() {
    let models = || vec![row("M", &["big", "small"])];
    let agent = || texts(&["agent", "--model", "{M}", "{prompt}"]);
    let one = Wanted { prompts: vec![prompt(None, "x")], matrix: models(), command: agent(), ..Wanted::default() };
    assert_eq!(names(one), ["big", "small"]);
    let named = Wanted { prompts: vec![prompt(Some("fix"), "x")], matrix: models(), command: agent(), ..Wanted::default() };
    assert_eq!(names(named), ["fix-big", "fix-small"]);
    let two =
        Wanted { prompts: vec![prompt(None, "x"), prompt(None, "y")], matrix: models(), command: agent(), ..Wanted::default() };
    assert_eq!(names(two), ["1-big", "1-small", "2-big", "2-small"]);
    let repeated =
        Wanted { prompts: vec![prompt(Some("fix"), "x")], count: Some(2), command: texts(&["agent"]), ..Wanted::default() };
    assert_eq!(names(repeated), ["fix-1", "fix-2"]);
    let only = Wanted { count: Some(3), command: texts(&["agent"]), ..Wanted::default() };
    assert_eq!(names(only), ["1", "2", "3"]);
    let values = Wanted { matrix: models(), count: Some(2), command: texts(&["x", "{M}"]), ..Wanted::default() };
    assert_eq!(names(values), ["big-1", "big-2", "small-1", "small-2"]);
}

#[test]
fn numbers_and_values_never_take_a_name_that_was_given() {
    let wanted = Wanted {
        scripts: vec!["x".to_owned(), "y".to_owned()],
        named: vec![("2".to_owned(), "z".to_owned())],
        ..Wanted::default()
    };
    assert_eq!(names(wanted), ["1", "3", "2"]);
    let values = ["a/b", "a:b", "best", "", "..", "-x-", &"y".repeat(100)];
    let wanted = Wanted { matrix: vec![row("V", &values)], command: texts(&["x", "{V}"]), ..Wanted::default() };
    assert_eq!(names(wanted), ["a-b", "a-b-2", "best-2", "4", "5", "x", &"y".repeat(56)]);
}

/// What is wrong, and what is said about it.
#[test]
fn what_cannot_be_raced_is_refused_with_a_hint() {
    let command = |words: &[&str]| Wanted { command: texts(words), ..Wanted::default() };
    let named = |names: &[&str]| Wanted {
        named: names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect(),
        ..Wanted::default()
    };
    let matrix = |rows: &[(&str, &[&str])], words: &[&str]| Wanted {
        matrix: rows.iter().map(|(name, values)| row(name, values)).collect(),
        ..command(words)
    };
    let many: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let table = [
        (Wanted::default(), "nothing_to_race", "there is nothing to race"),
        (named(&["a", "a"]), "duplicate_name", "two attempts are called 'a'"),
        (named(&["best"]), "invalid_name", "no attempt can be called 'best': that is how whatif calls the one that won"),
        (
            named(&["a b"]),
            "invalid_name",
            "'a b' is not a usable name: 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit",
        ),
        (Wanted { scripts: vec![" \n".to_owned()], ..Wanted::default() }, "no_command", "attempt '1' has nothing to run"),
        (command(&[""]), "no_command", "attempt '1' has nothing to run"),
        (
            command(&["x", "a\0b"]),
            "invalid_command",
            "attempt '1' has an argument with a zero byte in it, which no program can be given",
        ),
        (
            command(&["x", &"y".repeat(200_000)]),
            "invalid_command",
            "attempt '1' has an argument of 200000 bytes, more than a program can be given",
        ),
        (matrix(&[("V", &["1"])], &[]), "no_command", "a matrix needs a command"),
        (Wanted { prompts: vec![prompt(None, "x")], ..Wanted::default() }, "no_command", "a prompt needs a command"),
        (Wanted { count: Some(2), ..Wanted::default() }, "no_command", "a count needs a command"),
        (Wanted { count: Some(0), ..command(&["x"]) }, "no_command", "a count of 0 would leave nothing to race"),
        (
            Wanted { count: Some(1001), ..command(&["x"]) },
            "too_many_attempts",
            "1001 attempts are too many; at most 1000 can be raced",
        ),
        (
            matrix(&[("A", &many), ("B", &many)], &["x", "{A}{B}"]),
            "too_many_attempts",
            "1600 attempts are too many; at most 1000 can be raced",
        ),
        (
            matrix(&[("A-B", &["1"])], &["x"]),
            "invalid_matrix",
            "'A-B' cannot be a variable: use letters, digits and '_', not beginning with a digit",
        ),
        (matrix(&[("A", &["1"]), ("A", &["2"])], &["x"]), "invalid_matrix", "'A' is given twice as a variable"),
        (matrix(&[("A", &[])], &["x"]), "invalid_matrix", "variable 'A' has no values"),
        (matrix(&[("A", &["1", "1"])], &["x"]), "invalid_matrix", "variable 'A' has the value '1' twice"),
        (
            matrix(&[("VERSION", &["1"])], &["x", "$VERSION", "{version}"]),
            "unknown_placeholder",
            "the command has {version}, but no variable is called so; known: VERSION",
        ),
        (
            matrix(&[("V", &["1"]), ("W", &["1"])], &["x", "{V}", "{X}"]),
            "unknown_placeholder",
            "the command has {X}, but no variable is called so; known: V, W",
        ),
        (command(&["agent", "{prompt}"]), "invalid_prompt", "the command has {prompt}, but there is no prompt"),
        (Wanted { prompts: vec![prompt(None, " ")], ..command(&["x"]) }, "invalid_prompt", "a prompt has no text"),
        (Wanted { reverts: vec![(None, "--all".to_owned())], ..Wanted::default() }, "invalid_commit", "'--all' cannot be a commit"),
        (
            Wanted {
                patches: vec![Patch { name: None, path: "a.patch".to_owned(), content: Text::from("\n") }],
                ..Wanted::default()
            },
            "invalid_patch",
            "the patch 'a.patch' is empty",
        ),
    ];
    for (wanted, code, message) in table {
        let error = wanted.into_attempts().unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, message));
        assert_eq!((error.remedies().len(), error.kind()), (1, whatif_types::Kind::Invalid), "{message}");
    }
}

#[test]
fn braces_of_other_languages_are_left_alone() {
    let wanted = Wanted { command: texts(&["awk", "{print}", "{a,b}"]), ..Wanted::default() };
    assert_eq!(attempts(wanted)[0].1, ["awk", "{print}", "{a,b}"]);
    let command = texts(&["sh", "-c", "echo $V | awk '{print}'"]);
    let wanted = Wanted { matrix: vec![row("V", &["1"])], command, ..Wanted::default() };
    assert_eq!(attempts(wanted)[0].1[2], "echo $V | awk '{print}'");
}

#[test]
fn what_is_shown_of_an_attempt_is_one_line() {
    let wanted = Wanted { scripts: vec![format!("echo a\n\techo b\x1b[31m{}", "é".repeat(300))], ..Wanted::default() };
    let about = wanted.into_attempts().unwrap().remove(0).about;
    assert!(about.starts_with("echo a  echo b [31mé") && about.ends_with('…') && about.chars().count() == 201, "{about}");
}

proptest! {
    #[test]
    fn whatever_is_wanted_all_have_good_names_of_their_own(
        scripts in prop::collection::vec(".{0,5}", 0..4),
        named in prop::collection::vec(("[a-z0-9.-]{1,3}", "[a-z]{1,3}"), 0..4),
        values in prop::collection::btree_set(".{0,70}", 0..5),
        count in prop::option::of(0..4_u32),
    ) {
        let matrix = if values.is_empty() { Vec::new() } else { vec![("V".to_owned(), values.into_iter().collect())] };
        let wanted = Wanted { scripts, named, matrix, count, command: texts(&["x", "{V}", "{prompt"]), ..Wanted::default() };
        if let Ok(plans) = wanted.into_attempts() {
            let mut names: Vec<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
            prop_assert!(names.iter().all(|name| whatif_types::name::validate(name).is_ok()), "{:?}", names);
            names.sort_unstable();
            prop_assert!(names.is_sorted_by(|one, next| one < next), "{:?}", names);
        }
    }
}
