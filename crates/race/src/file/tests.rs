use whatif_types::experiment::{Better, Kind};
use whatif_types::{Explain, Remedy};

use super::*;

/// The example of the documentation, nearly all keys there are.
const FULL: &str = r#"
name = "fix-add"
setup = "npm ci"
judge = "my-judge"
protect = ["tests/**"]
repeats = 3
jobs = 2
budget = "20m"
first_success = true
cancel_losers = true
check_timeout = "2m"
timeout = "5m"
net = ["registries"]
agent = ["my-agent", "-p", "{prompt}"]

[limits]
memory = "2G"
cpus = 1.5
pids = 100
disk = "1G"
inodes = 1000

[[attempt]]
name = "bump"
run = "npm i left-pad@{version}"
matrix = { version = ["1.3.0", "2.0.0"] }

[[attempt]]
patch = "fixes/a.patch"

[[attempt]]
revert = "HEAD"

[[attempt]]
prompt = "make the test pass without touching it"

[[attempt]]
name = "list"
run = ["make", "all of it"]

[[check]]
name = "test"
run = "npm test"
timeout = "1m"
report = "junit.xml"

[[check]]
run = "npm run lint"
required = false

[[metric]]
name = "speed"
regex = "([0-9.]+) req/s"
better = "higher"
weight = 2
check = "test"

[[metric]]
name = "size"
json = "$.a.b[0]"

[weights]
duration = 1
"#;

fn plan(text: &str) -> Result<ExperimentPlan, FileError> {
    File::parse(text)?.into_plan(&mut |path| match path {
        "missing.patch" => Err("there is no such file".to_owned()),
        path => Ok(Text::from(&format!("the content of {path}"))),
    })
}

#[test]
fn a_file_says_everything_that_the_command_line_can() {
    let file = File::parse(FULL).unwrap();
    assert_eq!((file.name.as_deref(), file.net.as_slice()), (Some("fix-add"), ["registries".to_owned()].as_slice()));
    assert_eq!(file.timeout, Some(Span::from_secs(300)));
    let limits: Vec<_> = file.limits.resources().map(|(what, how_much)| format!("{what} {how_much}")).collect();
    assert_eq!(limits, ["cpus 1.5", "memory 2 GiB", "pids 100", "disk 1 GiB", "inodes 1000"]);

    let plan = plan(FULL).unwrap();
    let attempts: Vec<_> = plan.attempts.iter().map(|one| (one.name.as_str(), one.kind, one.about.as_str())).collect();
    let expected = [
        ("bump-1.3.0", Kind::Command, "npm i left-pad@1.3.0"),
        ("bump-2.0.0", Kind::Command, "npm i left-pad@2.0.0"),
        ("3", Kind::Patch, "fixes/a.patch"),
        ("4", Kind::Revert, "revert HEAD"),
        ("5", Kind::Prompt, "make the test pass without touching it"),
        ("list", Kind::Command, "make 'all of it'"),
    ];
    assert_eq!(attempts, expected);
    assert_eq!(plan.attempts[0].parameters.get("version").map(String::as_str), Some("1.3.0"));
    assert_eq!(plan.attempts[2].input, Some(Text::from("the content of fixes/a.patch")));
    assert_eq!(plan.attempts[4].arguments, ["my-agent", "-p", "make the test pass without touching it"].map(Text::from));

    let checks: Vec<_> =
        plan.checks.iter().map(|one| (one.name.as_str(), one.required, one.timeout, one.report.as_deref())).collect();
    let expected =
        [("test", true, Some(Span::from_secs(60)), Some("junit.xml")), ("npm run lint", false, Some(Span::from_secs(120)), None)];
    assert_eq!(checks, expected);
    let metrics: Vec<_> = plan.metrics.iter().map(|one| (one.name.as_str(), one.better, one.check.as_deref())).collect();
    assert_eq!(metrics, [("speed", Better::Higher, Some("test")), ("size", Better::Lower, None)]);
    assert_eq!(plan.weights, BTreeMap::from([("duration".to_owned(), 1.0), ("speed".to_owned(), 2.0)]));
    assert_eq!((plan.repeats, plan.jobs, plan.budget), (3, Some(2), Some(Span::from_secs(1200))));
    assert_eq!((plan.setup.as_deref(), plan.judge.as_deref()), (Some("npm ci"), Some("my-judge")));
    assert!(plan.first_success && plan.cancel_losers && plan.protect == ["tests/**"]);
}

#[test]
fn little_needs_to_be_said() {
    let plan = plan("net = 'none'\n[[attempt]]\nrun = 'true'\n").unwrap();
    assert_eq!((plan.attempts.len(), plan.repeats, plan.attempts[0].name.as_str()), (1, 1, "1"));
    assert!(super::tests::plan("").unwrap().attempts.is_empty());
}

#[test]
fn an_agent_that_is_a_script_finds_the_prompt_in_its_environment() {
    let plan =
        plan("agent = 'my-agent -p \"$PROMPT\" --model {M}'\n[[attempt]]\nprompt = '''it's; rm -rf {M}'''\nmatrix.M = ['big']\n")
            .unwrap();
    let attempt = &plan.attempts[0];
    assert_eq!(attempt.arguments, ["/bin/sh", "-c", "my-agent -p \"$PROMPT\" --model big"].map(Text::from));
    assert_eq!(attempt.parameters.get("PROMPT").map(String::as_str), Some("it's; rm -rf {M}"));
    assert_eq!((attempt.name.as_str(), attempt.kind), ("big", Kind::Prompt));
}

#[test]
fn a_matrix_keeps_the_order_it_is_written_in() {
    let text = "[[attempt]]\nrun = 'x {z} {a}'\nmatrix = { z = [1, true], a = ['p', 'q'] }\n";
    let names: Vec<_> = plan(text).unwrap().attempts.into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["1-p", "1-q", "true-p", "true-q"]);
}

/// Text, and what is said about it.
#[test]
fn what_is_wrong_is_said_with_its_line() {
    let table = [
        ("name = 'a b'", "'a b' is not a usable name: 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit"),
        ("repeats = 0", "'repeats' is 0, which would leave nothing to run"),
        ("timeout = '0s'", "'timeout' is 0, which would leave nothing to run"),
        ("[limits]\nmemory = 0", "a limit of 0 on memory would leave nothing to run"),
        ("\n[[attempt]]\n", "line 2: an attempt has exactly one of 'run', 'patch', 'revert' and 'prompt'"),
        ("[[attempt]]\nrun = 'x'\npatch = 'y'", "line 1: an attempt has exactly one of 'run', 'patch', 'revert' and 'prompt'"),
        ("[[attempt]]\nrun = 'x'\n[[attempt]]\nprompt = 'x'", "line 3: an attempt with a prompt needs an agent"),
        ("agent = 'x'\n[[attempt]]\nprompt = ' '", "line 2: a prompt has no text"),
        (
            "[[attempt]]\npatch = 'x'\nmatrix = { a = ['1'] }",
            "line 1: an attempt with 'patch' has nothing that a matrix could vary",
        ),
        ("[[attempt]]\npatch = 'missing.patch'", "line 1: failed to read the patch 'missing.patch': there is no such file"),
        ("[[attempt]]\nrevert = '-x'", "line 1: '-x' cannot be a commit"),
        ("[[attempt]]\nname = 'a'\nrun = 'x'\n[[attempt]]\nname = 'a'\nrun = 'y'", "line 4: two attempts are called 'a'"),
        ("[[attempt]]\nrun = ''", "attempt '1' has nothing to run"),
        ("[[attempt]]\nrun = []", "attempt '1' has nothing to run"),
        (
            "[[attempt]]\nrun = 'x {Version}'\nmatrix = { version = ['1'] }",
            "line 1: the command has {Version}, but no variable is called so; known: version",
        ),
        ("agent = 'x {prompt}'\n[[attempt]]\nprompt = 'x'", "line 2: the agent's script has {prompt}, which a shell would split"),
        ("[[check]]\nrun = ' '", "line 1: a check has nothing to run"),
        ("[[check]]\nrun = 'x'\n[[check]]\nname = 'x'\nrun = 'y'", "line 3: two checks are called 'x'"),
        ("[[check]]\nrun = 'x'\nreport = '../junit.xml'", "line 1: the report '../junit.xml' is not in the project"),
        ("[[check]]\nrun = 'x'\nreport = '/junit.xml'", "line 1: the report '/junit.xml' is not in the project"),
        ("[[check]]\nrun = 'x'\ntimeout = 0", "line 1: 'timeout' is 0, which would leave nothing to run"),
        ("[[metric]]\nname = 'a'", "line 1: a metric has exactly one of 'regex' and 'json'"),
        ("[[metric]]\nname = 'cpu'\nregex = 'x'", "line 1: 'cpu' is a built-in metric; choose another name"),
        ("[[metric]]\nname = 'a'\nregex = 'x'\ncheck = 'y'", "line 1: there is no check called 'y'; known: none"),
        ("[[metric]]\nname = 'a'\nregex = 'x'\nweight = -1", "line 1: the weight of 'a' must be a number of 0 or more"),
        ("[[metric]]\nname = 'a'\nregex = 'x'\nweight = 1\n[weights]\na = 1", "line 1: 'a' has two weights"),
        ("[weights]\ncpu = nan", "the weight of 'cpu' must be a number of 0 or more"),
        (
            "[weights]\nspeed = 1",
            "there is no metric called 'speed' that could have a weight; known: duration, cpu, memory, attempt_duration, lines, files, bytes, tests",
        ),
    ];
    for (text, message) in table {
        let error = plan(text).unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
        assert_eq!(error.kind(), whatif_types::Kind::Invalid);
        assert!(error.remedies().iter().all(Remedy::is_plain), "{message}: remedies are about the file");
    }
}

#[test]
fn what_is_not_understood_is_said_with_what_is_expected() {
    let table: [(&str, usize, &[&str]); 8] = [
        ("a = 1", 1, &["unknown field `a`", "expected one of", "`first_success`"]),
        ("\n\n[[attempt]]\ncommand = 'x'", 4, &["unknown field `command`", "`run`", "`revert`"]),
        ("[[check]]\nname = 'x'", 1, &["missing field `run`"]),
        ("jobs = 'many'", 1, &["invalid type", "u32"]),
        ("budget = '5 minutes'", 1, &["is not a unit of time"]),
        ("\n[[attempt]]\nrun = 5", 3, &["a string for the shell, or a list of a program and its arguments"]),
        ("[[attempt]]\nrun = 'x'\nmatrix = { v = [1.10] }", 3, &["put it in quotes"]),
        ("name = 'a'\nname = 'b'", 2, &["duplicate key"]),
    ];
    for (text, line, parts) in table {
        let error = plan(text).unwrap_err();
        assert_eq!((error.line, error.code()), (Some(line), "invalid_experiment"), "{text}: {error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
