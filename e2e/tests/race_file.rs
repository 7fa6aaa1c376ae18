//! `experiment.toml`: everything a race is can be written down. And what is wrong with a race is said before it begins.

use std::path::Path;

use serde_json::{Value, json};
use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    a_file_says_everything,
    the_file_of_the_project_is_used_by_itself,
    attempts_on_the_command_line_replace_those_of_a_file,
    an_agent_is_named_once,
    a_file_can_be_raced_again_and_again,
    a_file_that_was_only_found_does_not_open_the_network,
    an_assignment_is_no_name,
    a_report_is_read,
    a_file_can_be_wrong_in_many_ways,
    options_can_be_wrong_in_many_ways,
    names_that_could_mislead_are_refused,
    a_race_is_resumed_without_its_files,
);

const COMPLETE: &str = r#"
name = "fix-add"
setup = "echo prepared > prepared"
protect = ["tests/**"]
repeats = 2
jobs = 2
budget = "5m"
check_timeout = "1m"
timeout = "1m"
net = ["none"]
agent = ["sh", "agent.sh", "-p", "{prompt}"]

[limits]
pids = 200

[[attempt]]
name = "replace"
run = "sed -i \"s/-/$(printf '\\{code}')/\" add.sh; cat prepared"
matrix = { code = ["170", "053"] }

[[attempt]]
name = "list"
run = ["sed", "-i", "s/-/+ 0 +/", "add.sh"]

[[attempt]]
patch = "fixes/a.patch"

[[attempt]]
name = "back"
revert = "HEAD"

[[attempt]]
name = "ask"
prompt = "make the test pass without touching it"

[[attempt]]
name = "cheat"
run = "echo true > tests/add.sh"

[[check]]
name = "test"
run = "sh tests/add.sh && echo 'speed 7 req/s'"
timeout = "30s"

[[check]]
name = "style"
run = "! grep -q '0' add.sh"
required = false

[[metric]]
name = "speed"
regex = "([0-9.]+) req/s"
better = "higher"
weight = 2
check = "test"

[weights]
lines = 1
"#;

/// A repository whose last commit broke it.
fn broken_adder(w: &World) {
    w.write("add.sh", "echo $(($1 + $2))\n");
    w.write("tests/add.sh", "test \"$(sh add.sh 2 3)\" = 5\n");
    w.write("agent.sh", "test \"$2\" = 'make the test pass without touching it' && sed -i 's/-/+/' add.sh\n");
    w.write("fixes/a.patch", "--- a/add.sh\n+++ b/add.sh\n@@ -1 +1 @@\n-echo $(($1 - $2))\n+echo $(($1 + $2))\n");
    w.commit("Add");
    w.write("add.sh", "echo $(($1 - $2))\n");
    w.commit("Subtract");
}

fn a_file_says_everything(w: &World) {
    needs!(w, "git");
    broken_adder(w);
    // Paths in it are relative to it, wherever one stands.
    w.write("experiment.toml", COMPLETE);
    let race = w.race(["-f", "experiment.toml"]).exits(0);
    race.assert_makes_sense();
    let began = race.only("began");
    assert_eq!(
        (&began["race"], &began["jobs"], &began["checks"]),
        (&json!("fix-add"), &json!(2), &json!(["test", "style"])),
        "{began:#}"
    );
    let names: Vec<_> = began["attempts"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(names.len(), 7, "{names:?}");
    assert_eq!(
        (names[0], names[1], names[2], names[4], names[5], names[6]),
        ("replace-170", "replace-053", "list", "back", "ask", "cheat")
    );
    for name in ["replace-053", names[3], "back", "ask"] {
        assert_eq!((race.verdict(name), race.changed(name)), ("passed", vec!["add.sh"]), "{name}: {:#}", race.outcome(name));
        assert_eq!(race.standing(name)["place"], 1, "{name}: {:#}", race.ranking());
    }
    assert_eq!(
        (race.verdict("replace-170"), race.verdict("cheat"), race.verdict("list")),
        ("failed_checks", "forbidden", "passed")
    );
    assert!(race.why("list").contains("optional"), "{}", race.why("list"));
    assert_eq!(race.outcome("ask")["metrics"]["speed"]["value"], 7.0);
    assert_eq!(race.check("ask", "test")["runs"].as_array().map(Vec::len), Some(2));
    assert!(race.outcome("replace-053")["ended"]["tail"].to_string().contains("prepared"));
}

fn the_file_of_the_project_is_used_by_itself(w: &World) {
    needs!(w, "git");
    broken_adder(w);
    w.write("experiment.toml", COMPLETE);
    w.mkdir(&w.project.join("deep/er"));
    let events = w.whatif(["--json", "race"]).cwd(&w.project.join("deep/er")).go().ok().stdout;
    assert!(events.lines().next().is_some_and(|line| line.contains("fix-add")), "{events}");
    assert!(!Path::new(&w.project).join("prepared").exists());
    w.outside("rm experiment.toml").ok();
    w.whatif(["race"]).go().fails_with_hint(2);
}

fn attempts_on_the_command_line_replace_those_of_a_file(w: &World) {
    needs!(w, "git");
    broken_adder(w);
    w.write("experiment.toml", COMPLETE);
    let race = w.race(["--check", "sh tests/add.sh", "sed -i 's/-/+/' add.sh"]).exits(0);
    assert_eq!(race.only("began")["attempts"], json!(["1"]), "a file is used only if it is named or nothing else is said");
    assert_eq!(race.only("began")["checks"], json!(["sh tests/add.sh"]));
}

/// As words with a place for the prompt, or for a shell with the prompt in a variable.
fn an_agent_is_named_once(w: &World) {
    let file = |agent: &str| {
        format!(
            "agent = {agent}\n[[attempt]]\nname = \"a\"\nprompt = \"it's; $HOME\"\n[[check]]\nname = \"said\"\nrun = \"cat said\"\n"
        )
    };
    for agent in ["'printf %s \"$PROMPT\" > said'", "[\"sh\", \"-c\", \"printf %s \\\"$1\\\" > said\", \"agent\", \"{prompt}\"]"] {
        w.write("experiment.toml", file(agent));
        let race = w.race([]).exits(0);
        assert_eq!(race.check("a", "said")["runs"][0]["tail"].as_str().map(str::trim_end), Some("it's; $HOME"), "{agent}");
    }
    w.write("experiment.toml", file("'true'").replace("agent = 'true'\n", ""));
    w.whatif(["race"]).go().fails_with_hint(2).says("agent");
}

/// The name in it is a beginning.
fn a_file_can_be_raced_again_and_again(w: &World) {
    w.write("experiment.toml", "name = \"numbers\"\n[[attempt]]\nrun = \"echo x > x\"\n[[check]]\nrun = \"true\"\n");
    let names: Vec<_> = (0..3).map(|_| w.race([]).exits(0).only("began")["race"].clone()).collect();
    assert_eq!(names, [json!("numbers"), json!("numbers-2"), json!("numbers-3")]);
}

/// Whatever runs in a project can write such a file.
fn a_file_that_was_only_found_does_not_open_the_network(w: &World) {
    for net in ["host", "allow=example.com"] {
        let file = format!("net = [\"{net}\"]\n[[attempt]]\nrun = \"echo x > x\"\n[[check]]\nrun = \"true\"\n");
        w.write("experiment.toml", file);
        w.whatif(["race"]).go().fails_with_hint(2).says(net);
        w.whatif(["race", "-f", "experiment.toml"]).go().ok();
    }
}

fn an_assignment_is_no_name(w: &World) {
    let race = w.race(["--check", "CI=1 sh -c 'test \"$CI\" = 1'", "echo x > x"]).exits(0);
    assert_eq!(race.only("began")["checks"], json!(["CI=1 sh -c 'test \"$CI\" = 1'"]));
}

fn a_report_is_read(w: &World) {
    let report = "<testsuites><testsuite name=\"s\" tests=\"4\"><testcase name=\"a\"/><testcase name=\"b\"><failure message=\"no\"/></testcase><testcase name=\"c\"><skipped/></testcase><testcase name=\"d\"/></testsuite></testsuites>";
    w.write("report.xml", report);
    w.write(
        "experiment.toml",
        "[[attempt]]\nname = \"a\"\nrun = \"echo x > x\"\n[[check]]\nname = \"test\"\nrun = \"cp report.xml junit.xml; echo quiet\"\nreport = \"junit.xml\"\n",
    );
    let race = w.race([]).exits(0);
    let tests = &race.check("a", "test")["tests"];
    assert_eq!(
        (&tests["format"], &tests["passed"], &tests["failed"], &tests["skipped"]),
        (&json!("junit"), &json!(2), &json!(1), &json!(1))
    );
    assert_eq!(tests["failures"].as_array().map(Vec::len), Some(1), "{tests:#}");
}

const GOOD: &str = "[[attempt]]\nname = \"a\"\nrun = \"true\"\n[[check]]\nname = \"c\"\nrun = \"true\"\n";

/// Nothing is begun, and the message names what is wrong.
fn a_file_can_be_wrong_in_many_ways(w: &World) {
    let before = w.inventory();
    let wrong = [
        ("this is not toml", "experiment.toml"),
        ("[[check]]\nrun = \"true\"\n", "attempt"),
        (&format!("{GOOD}[[attempt]]\nname = \"a\"\nrun = \"false\"\n"), "a"),
        (&format!("{GOOD}[[check]]\nname = \"c\"\nrun = \"false\"\n"), "c"),
        (&format!("colour = \"red\"\n{GOOD}"), "colour"),
        (&format!("repeats = 0\n{GOOD}"), "repeats"),
        (&format!("jobs = 0\n{GOOD}"), "jobs"),
        (&format!("budget = \"soon\"\n{GOOD}"), "soon"),
        (&format!("net = [\"everything\"]\n{GOOD}"), "everything"),
        (&format!("{GOOD}[[attempt]]\nname = \"b\"\n"), "line 7"),
        (&format!("{GOOD}[[attempt]]\nname = \"b\"\nrun = \"true\"\npatch = \"x\"\n"), "line 7"),
        (&format!("{GOOD}[[attempt]]\nname = \"b\"\npatch = \"missing.patch\"\n"), "missing.patch"),
        (&format!("{GOOD}[[attempt]]\nname = \"b\"\nrun = [7]\n"), "line 9"),
        (&format!("{GOOD}[[metric]]\nname = \"m\"\nregex = \"(\"\n"), "m"),
        (&format!("{GOOD}[[metric]]\nname = \"m\"\njson = \"no path\"\n"), "m"),
        (&format!("{GOOD}[[metric]]\nname = \"m\"\n"), "m"),
        (&format!("{GOOD}[[metric]]\nname = \"m\"\nregex = \"x\"\ncheck = \"nobody\"\n"), "nobody"),
        (&format!("{GOOD}[[metric]]\nname = \"m\"\nregex = \"x\"\nweight = -1\n"), "weight"),
        (&format!("{GOOD}[[metric]]\nname = \"duration\"\nregex = \"x\"\n"), "duration"),
        (&format!("{GOOD}[weights]\nnothing = 1\n"), "nothing"),
        (&format!("{GOOD}[weights]\nduration = nan\n"), "duration"),
        (&format!("{GOOD}[[attempt]]\nname = \"b\"\nrun = \"true\"\nmatrix = {{ v = [] }}\n"), "v"),
        (&format!("{GOOD}[[attempt]]\nname = \"b\"\nprompt = \"p\"\n"), "agent"),
    ];
    for (text, named) in wrong {
        w.write("experiment.toml", text);
        let refused = w.whatif(["race", "-f", "experiment.toml"]).go();
        assert!([2, 125].contains(&refused.code), "{text}\n{} {}", refused.code, refused.stderr);
        assert!(refused.stderr.contains(named), "'{named}' is not named:\n{text}\n{}", refused.stderr);
        assert!(refused.stderr.contains("hint:"), "no hint:\n{text}\n{}", refused.stderr);
    }
    w.whatif(["race", "-f", "nowhere.toml"]).go().fails_with_hint(2).says("nowhere.toml");
    w.assert_inventory_is(&before, "nothing was begun");
    assert_eq!(w.json(["race", "ls"]), json!([]));
}

fn options_can_be_wrong_in_many_ways(w: &World) {
    let before = w.inventory();
    let wrong: [&[&str]; 23] = [
        &["--check", "true"],
        &["--check", "", "true"],
        &["--check", "true", ""],
        &["--check", "c=true", "--check", "c=false", "true"],
        &["--check", "true", "--attempt", "a=true", "--attempt", "a=false"],
        &["--check", "true", "--attempt", "no name"],
        &["--check", "true", "--attempt", "=true"],
        &["--check", "true", "--repeats", "0", "true"],
        &["--check", "true", "--jobs", "0", "true"],
        &["--check", "true", "--count", "0", "--", "true"],
        &["--check", "true", "--count", "3"],
        &["--check", "true", "--matrix", "V=1,2"],
        &["--check", "true", "--matrix", "V", "--", "echo", "{V}"],
        &["--check", "true", "--matrix", "V=1,1", "--", "echo", "{V}"],
        &["--check", "true", "--prompt", "p"],
        &["--check", "true", "--metric", "m", "true"],
        &["--check", "true", "--metric", "m=(", "true"],
        &["--check", "true", "--metric", "m:sideways=x", "true"],
        &["--check", "true", "--weight", "nobody=1", "true"],
        &["--check", "true", "--weight", "duration=much", "true"],
        &["--check", "true", "--patch", "p=missing.patch"],
        &["--check", "true", "--budget", "soon", "true"],
        &["--check", "true", "--publish", "80", "true"],
    ];
    for arguments in wrong {
        let refused = w.whatif(["race"]).args(arguments).go().exits(2);
        assert!(refused.stderr.contains("hint:") || refused.stderr.contains("--help"), "{arguments:?}\n{}", refused.stderr);
    }
    w.assert_inventory_is(&before, "nothing was begun");
    assert_eq!(w.json(["race", "ls"]), json!([]));
}

/// A name is shown on a terminal, is part of sandboxes' names, and is told from options and numbers.
fn names_that_could_mislead_are_refused(w: &World) {
    let long = "x".repeat(300);
    let names = [
        "",
        " ",
        "a b",
        "../up",
        "/etc",
        "a/b",
        "-x",
        "--all",
        "best",
        "a\u{1b}[31m",
        "a\nb",
        "a\u{202e}b",
        "a\tb",
        ".",
        "..",
        &long,
    ];
    for name in names {
        let refused = w.whatif(["race", "--check", "true", "--attempt", &format!("{name}=true")]).go().exits(2);
        assert!(!refused.stderr.contains('\u{1b}') && !refused.stderr.contains('\u{202e}'), "{name:?}: {}", refused.stderr);
        assert!(refused.stderr.len() < 2000, "{name:?}");
        let race = w.whatif(["race", "--check", "true", "--name", name, "true"]).go();
        // For a race, `best` is as good as any.
        assert!(race.code == 2 || name == "best", "{name:?}: {} {}", race.code, race.stderr);
    }
    // What a check prints as its name is the command, whatever that is.
    let odd = w.race(["--check", "true # \u{1b}[31m\u{202e}", "echo x > x"]).exits(0);
    assert_eq!(odd.verdict("1"), "passed");
    let people = w.whatif(["race", "show"]).go().ok();
    assert!(!people.stdout.contains('\u{1b}') && !people.stdout.contains('\u{202e}'), "{}", people.stdout);
}

/// What was asked for is recorded, so the files it came from are not needed any more.
fn a_race_is_resumed_without_its_files(w: &World) {
    needs!(w, "git");
    broken_adder(w);
    w.write("experiment.toml", COMPLETE);
    let mut running = w.begin_race(["-f", "experiment.toml"]);
    running.has_said("attempt_began", 1);
    running.signal(rustix::process::Signal::KILL);
    drop(running);
    w.outside("rm -r experiment.toml fixes").ok();
    let race = w.race(["resume"]).exits(0);
    assert_eq!(race.order().len(), 7);
}
