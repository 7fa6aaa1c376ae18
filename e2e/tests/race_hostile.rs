//! What an attempt may try in order to win without being better, or to harm those beside it and what is outside.
//!
//! Checks run in the attempt's own world, so whoever controls that can make a check say anything: a race finds the best of honest
//! attempts, `--protect` and the review of what is applied find the others. What must hold is that none gets further than that.

use serde_json::json;
use whatif_e2e::racing::runs_anywhere;
use whatif_e2e::{Detail, Terminal, Tree, World, as_root_and_user, assert_same, canary, eventually};

as_root_and_user!(
    an_endless_printer_can_be_stopped,
    a_printer_that_is_left_behind_ends_with_its_attempt,
    an_attempt_cannot_reach_the_records,
    an_attempt_that_kills_everything_it_sees_kills_itself_only,
    numbers_that_are_none_win_nothing,
    counts_beyond_all_bounds_are_survived,
    a_report_that_is_no_file_is_told,
    a_report_that_was_there_before_is_not_the_checks,
    what_cannot_be_looked_into_is_protected_as_well,
    a_file_that_was_only_found_brings_nothing_hidden_inside,
    strange_file_names_are_shown_harmlessly,
    thousands_of_changes_are_counted_and_not_listed,
    what_is_ignored_is_protected_as_well,
    a_terminal_is_out_of_reach,
    names_that_are_taken_are_left_alone,
    patches_stay_inside,
    commits_are_no_options,
    naming_a_commit_runs_nothing_outside,
    a_file_that_is_no_file_is_refused,
    a_process_that_will_not_end_does_not_reach_the_checks,
    secrets_of_a_check_do_not_outlive_it,
    secrets_in_the_environment_are_not_written_down,
);

fn an_endless_printer_can_be_stopped(w: &World) {
    let race = w.race(["--check=true", "--budget=10s", "--jobs=2", "--attempt=loud=yes", "--attempt=quiet=echo x > x"]).exits(0);
    assert_eq!((race.winner(), race.verdict("loud")), (Some("quiet"), "cancelled"));
    let mut running = w.begin_race(["--check=yes", "--metric=m=([0-9]+)", "echo x > x"]);
    running.has_said("check_began", 1);
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.ends().exits(130).order(), Vec::<&str>::new());
}

fn a_printer_that_is_left_behind_ends_with_its_attempt(w: &World) {
    let race = w.race(["--check=echo fine; yes & exit 0", "yes & yes >&2 & echo x > x; exit 0"]).exits(0);
    assert_eq!(race.verdict("1"), "passed");
}

/// They are not there, or not to be written, and whatever is done about that stays inside.
fn an_attempt_cannot_reach_the_records(w: &World) {
    let state = w.state.display();
    let vandal = format!(
        "--attempt=vandal=find {state} -type f 2>/dev/null | head -50 > found; for f in {state}/state.db* {state}/*; do rm -rf $f; echo broken > $f; done 2>/dev/null; \
         mkdir -p {state}/races; rm -rf {state}; echo x > x"
    );
    let slow = "--attempt=slow=sleep 0.5; echo y > y";
    let race = w.race(["--check=true", "--jobs=2", &vandal, slow, "--attempt=later=cat found 2>/dev/null; echo z > z"]).exits(0);
    race.assert_makes_sense();
    assert_eq!((race.verdict("slow"), race.verdict("later")), ("passed", "passed"));
    assert_eq!(race.outcome("later")["ended"]["tail"], "");
    let found = w.whatif(["race", "diff", "vandal"]).go().ok().stdout;
    assert!(!found.contains("state.db"), "it saw the records: {found}");
    w.whatif(["race", "show"]).go().ok();
    w.whatif(["race", "apply", "slow", "--yes"]).go().ok();
    assert_eq!(w.read("y"), "y\n");
}

fn an_attempt_that_kills_everything_it_sees_kills_itself_only(w: &World) {
    let attempts =
        ["--attempt=killer=echo x > x; kill -9 -1; kill -9 1; kill -STOP 1; kill -9 $$", "--attempt=other=sleep 0.3; echo y > y"];
    let race = w.race([&["--check=kill -9 -1; kill -9 1; true", "--check=second=true", "--jobs=2"], attempts.as_slice()].concat());
    race.assert_makes_sense();
    assert_eq!(race.verdict("killer"), "failed", "{:#}", race.outcome("killer"));
    assert_eq!(race.check("other", "second")["runs"][0]["exit_code"], 0, "{:#}", race.outcome("other"));
}

fn numbers_that_are_none_win_nothing(w: &World) {
    let values = ["inf", "NaN", "-inf", "1e999", "100", "0x7fffffff", "-5", "infinity"];
    let attempts: Vec<String> = values.iter().enumerate().map(|(n, v)| format!("--attempt=a{n}=echo speed {v} > out")).collect();
    let arguments =
        ["--check=cat out", "--metric=speed:higher=speed ([^ ]+)"].into_iter().chain(attempts.iter().map(String::as_str));
    let race = w.race(arguments).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.winner(), Some("a4"), "{:#}", race.ranking());
    for place in race.ranking()["places"].as_array().expect("places") {
        let score = place["score"].as_f64().unwrap_or_else(|| panic!("no score: {place}"));
        assert!((0.0..=100.0).contains(&score), "{place}");
    }
}

fn counts_beyond_all_bounds_are_survived(w: &World) {
    let attempts = [
        "--attempt=huge=echo 'test result: ok. 99999999999999999999999 passed; 0 failed; 0 ignored' > out",
        "--attempt=most=i=0; while [ $i -lt 4 ]; do echo 'test result: ok. 18446744073709551615 passed; 0 failed; 0 ignored'; i=$((i+1)); done > out",
        "--attempt=plan=printf '1..99999999999999999999\\nok 18446744073709551615\\nok -1\\n' > out",
        "--attempt=long=head -c 3000000 /dev/zero | tr '\\0' x > out; echo ' passed' >> out",
    ];
    let race = w.race([&["--check=cat out"], attempts.as_slice()].concat()).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.order().len(), 4);
    assert!(race.order().iter().all(|name| race.verdict(name) == "passed"), "{:#}", race.ranking());
}

/// It is opened for the check by somebody who must not wait for it, nor read without end.
fn a_report_that_is_no_file_is_told(w: &World) {
    let reports = [
        ("pipe", "rm -f junit.xml; mkfifo junit.xml"),
        ("zero", "ln -sf /dev/zero junit.xml"),
        ("directory", "mkdir junit.xml"),
        ("loop", "ln -sf junit.xml junit.xml"),
        ("terminal", "ln -sf /dev/tty junit.xml"),
        ("sparse", "truncate -s 100G junit.xml"),
        ("nonsense", "head -c 100000 /dev/urandom > junit.xml"),
        ("deep", "yes '<a>' | head -200000 > junit.xml"),
        (
            "bomb",
            "printf '<!DOCTYPE a [<!ENTITY a \"x\"><!ENTITY b \"&a;&a;\">]><testsuite><testcase name=\"&b;\"/></testsuite>' > junit.xml",
        ),
        ("missing", "true"),
    ];
    let attempts: String = reports
        .iter()
        .map(|(name, run)| {
            format!("[[attempt]]\nname = \"{name}\"\nrun = '''echo '{}' > make; echo x > x'''\n", run.replace('\'', "'\\''"))
        })
        .collect();
    w.write("experiment.toml", format!("{attempts}[[check]]\nname = \"test\"\nrun = \"sh make\"\nreport = \"junit.xml\"\n"));
    let race = w.race([]).exits(0);
    race.assert_makes_sense();
    for (name, _) in reports {
        assert_eq!(race.verdict(name), "passed", "{name}: {:#}", race.outcome(name));
        let remarks = race.outcome(name)["remarks"].to_string();
        assert!(remarks.contains("junit.xml") || name == "bomb", "{name}: {remarks}");
        assert!(remarks.len() < 2000, "{name}: {remarks}");
    }
}

/// Or else an attempt could bring the report along.
fn a_report_that_was_there_before_is_not_the_checks(w: &World) {
    let fake = "<testsuite><testcase name=\"a\"/><testcase name=\"b\"/><testcase name=\"c\"/></testsuite>";
    w.write("fake.xml", fake);
    w.write(
        "experiment.toml",
        "[[attempt]]\nname = \"fake\"\nrun = \"cp fake.xml junit.xml\"\n\
         [[attempt]]\nname = \"link\"\nrun = \"cp fake.xml other.xml; ln -s other.xml junit.xml\"\n\
         [[check]]\nname = \"test\"\nrun = \"true\"\nreport = \"junit.xml\"\n",
    );
    let race = w.race([]).exits(0);
    for name in ["fake", "link"] {
        assert_eq!(race.check(name, "test")["tests"], json!(null), "{:#}", race.outcome(name));
    }
}

/// A directory that can be used but not listed hides what was done in it.
fn what_cannot_be_looked_into_is_protected_as_well(w: &World) {
    w.write("tests/add.sh", "exit 1\n");
    let cheat = "--attempt=cheat=echo exit 0 > tests/add.sh; chmod 311 tests; echo 1 > f";
    let race = w.race(["--check=sh tests/add.sh", "--protect=tests/**", cheat]).exits(1);
    assert_eq!(race.verdict("cheat"), "forbidden", "{:#}", race.outcome("cheat"));
}

/// It can name any path, but that is read with our rights only where we have named the file ourselves.
fn a_file_that_was_only_found_brings_nothing_hidden_inside(w: &World) {
    let key = w.write(w.home.join(".ssh/id_ed25519"), "not-to-be-found-0815\n");
    w.outside(&format!("ln -s {} link.patch", key.display())).ok();
    for patch in ["../.ssh/id_ed25519", &key.display().to_string(), "link.patch"] {
        let file = format!("[[attempt]]\npatch = \"{patch}\"\n[[attempt]]\nrun = \"echo x > x\"\n[[check]]\nrun = \"true\"\n");
        w.write("experiment.toml", file);
        let outcome = w.whatif(["--json", "race"]).go();
        assert!(!outcome.stdout.contains("not-to-be-found-0815"), "{patch}: {}", outcome.stdout);
        let found = w.outside(&format!("grep -rlaF not-to-be-found-0815 {}", w.state.display())).stdout;
        assert_eq!(found, "", "{patch}");
    }
}

fn strange_file_names_are_shown_harmlessly(w: &World) {
    let make = "printf x > \"$(printf 'a\\033[31m\\nb')\"; printf x > \"$(printf '\\377\\376')\"; printf x > \"$(printf 'r\\342\\200\\256l')\"; touch -- --all";
    let race = w.race(["--check=true", "--protect=nothing", make]).exits(0);
    assert_eq!(race.outcome("1")["changes"]["files"], 4, "{:#}", race.outcome("1"));
    for arguments in [vec!["race", "show"], vec!["race", "diff", "1"], vec!["race", "ls"]] {
        let shown = w.whatif(arguments.clone()).go().ok();
        let hostile = |text: &str| text.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}');
        assert!(!hostile(&shown.stdout) && !hostile(&shown.stderr), "{arguments:?}: {:?}", shown.stdout);
    }
    let forbidden = w.race(["--check=true", "--protect=a*", make]).exits(1);
    assert_eq!(forbidden.verdict("1"), "forbidden");
    let shown = w.whatif(["race", "show"]).go().ok().stdout;
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

fn thousands_of_changes_are_counted_and_not_listed(w: &World) {
    w.outside("mkdir kept; cd kept; seq 3000 | xargs touch").ok();
    let attempts = ["--attempt=many=mkdir d; cd d; seq 3000 | xargs touch", "--attempt=forbidden=rm -r kept"];
    let race = w.race([&["--check=true", "--protect=kept/**"], attempts.as_slice()].concat()).exits(0);
    let changes = &race.outcome("many")["changes"];
    assert_eq!((&changes["files"], changes["list"].as_array().map(Vec::len)), (&json!(3000), Some(200)));
    let because = race.outcome("forbidden")["verdict"]["because"].as_str().unwrap_or_default();
    assert!(because.contains("kept") && because.len() < 2000, "{} bytes: {because}", because.len());
    assert!(race.why("forbidden").len() < 2000);
}

fn what_is_ignored_is_protected_as_well(w: &World) {
    w.write("tools/check.sh", "test -e good\n");
    w.write(".gitignore", "tools/\n");
    w.commit("Ignore tools");
    let home = w.home.join("settings").display().to_string();
    w.write(&home, "strict\n");
    let protect = format!("--protect={home}");
    let attempts =
        ["--attempt=inside=echo true > tools/check.sh; echo x > x", "--attempt=outside=echo lax > ~/settings; touch good"];
    // Outside the project a copy can change nothing, so there is nothing to forbid.
    let (code, outside) = if w.backend() == "copy" { (0, "passed") } else { (1, "forbidden") };
    let race = w.race([&["--check=sh tools/check.sh", "--protect=tools/**", &protect], attempts.as_slice()].concat()).exits(code);
    assert_eq!((race.verdict("inside"), race.verdict("outside")), ("forbidden", outside), "{:#}", race.ranking());
    assert_eq!(w.read(&home), "strict\n");
}

/// Of the terminal it is started from it has nothing: not to write to, and not to type into.
fn a_terminal_is_out_of_reach(w: &World) {
    let reach = "--attempt=reach=echo owned-$((40+2)) > /dev/tty; for t in /dev/pts/* /proc/1/fd/*; do echo owned-$((40+2)) > $t; done 2>/dev/null; test -t 0 || test -t 1 || test -t 2 || echo x > x";
    let mut terminal = Terminal::with_whatif(w, &["race", "--check=test -e x; echo owned-$((40+2)) > /dev/tty; true", reach]);
    terminal.expect("wins");
    terminal.expect("whatif race apply");
    assert!(!terminal.screen().contains("owned-42"), "{}", terminal.screen());
    assert_eq!(terminal.ends(), 0);
}

fn names_that_are_taken_are_left_alone(w: &World) {
    for reserved in ["best", "setup", "judge"] {
        w.whatif(["race", "--check=true", "--attempt", &format!("{reserved}=true")]).go().fails_with_hint(2).says(reserved);
    }
    w.new_sandbox("r.one");
    w.exec("r.one", "echo precious > precious").ok();
    let race =
        w.race(["--name=r", "--check=true", "--judge=echo one", "--attempt=one=echo 1 > f", "--attempt=other=echo 2 > f"]).exits(0);
    assert_eq!(
        (race.verdict("one"), race.verdict("other"), race.winner()),
        ("passed", "passed", Some("one")),
        "{:#}",
        race.ranking()
    );
    assert_eq!(w.exec("r.one", "cat precious").ok().text(), "precious");
    let (long, attempt) = ("r".repeat(50), format!("{}=echo 1 > f", "a".repeat(60)));
    let race = w
        .race([
            "--name",
            &long,
            "--check=true",
            "--setup=true",
            "--judge=echo 1",
            "--attempt",
            &attempt,
            "--attempt",
            "1=echo 2 > f",
        ])
        .exits(0);
    assert!(race.order().iter().all(|name| race.verdict(name) == "passed"), "{:#?}", race.events);
    let longest = "n".repeat(63);
    let race = w.race(["--name", &longest, "--check=true", "--setup=true", "--judge=echo 1", "echo 1 > f", "echo 2 > f"]).exits(0);
    assert_eq!(race.winner(), Some("1"), "{:#?}", race.events);
    w.whatif(["race", "rm", "--all"]).go().ok();
    assert_eq!(w.exec("r.one", "cat precious").ok().text(), "precious");
}

fn patches_stay_inside(w: &World) {
    w.outside("echo f > f; ln -s .. up; git init -q . 2>/dev/null").ok();
    let patch = |name: &str, path: &str| {
        let text = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+owned\n");
        format!("--patch={name}={}", w.write(w.dir.join(format!("{name}.patch")), text).display())
    };
    let (up, link, absolute, good) =
        (patch("up", "../owned"), patch("link", "up/owned"), patch("absolute", "/var/tmp/owned"), patch("good", "new"));
    let garbage = format!("--patch=garbage={}", w.write(w.dir.join("garbage.patch"), [0xff, 0, b'\n', b'-']).display());
    let before = (Tree::of(&w.project, Detail::Times), canary(&[&w.home]));
    let race = w.race(["--check=true", &up, &link, &absolute, &good, &garbage]).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.winner(), Some("good"), "{:#}", race.ranking());
    assert_eq!(race.verdict("garbage"), "failed");
    for name in ["up", "link", "absolute"] {
        assert_ne!(race.verdict(name), "broken", "{:#}", race.outcome(name));
    }
    Tree::of(&w.project, Detail::Times).assert_is(&before.0, "nothing is applied");
    assert_same(&before.1, &canary(&[&w.home]));
}

fn commits_are_no_options(w: &World) {
    w.write("f", "one\n");
    w.commit("One");
    w.write("f", "two\n");
    w.commit("Two");
    for commit in ["--abort", "--strategy=x", "", "nowhere", "HEAD; echo owned > owned", "HEAD:f"] {
        w.whatif(["race", "--check=true", &format!("--revert=x={commit}")]).go().fails_with_hint(2);
    }
    let race = w.race(["--check=grep one f", "--revert=good=HEAD"]).exits(0);
    assert_eq!((race.winner(), race.changed("good")), (Some("good"), vec!["f"]));
    assert_eq!(w.outside("git status --short; git log --format=%s").ok().stdout, "Two\nOne\n", "reality is as it was");
    // What is not committed is not lost for it: where it is in the way, the attempt fails.
    w.outside("echo mine >> f").ok();
    let race = w.race(["--check=true", "--revert=good=HEAD"]).exits(1);
    assert_eq!(race.verdict("good"), "failed");
}

/// Where objects can be missing, git fetches them with whatever the repository says; so it must not be let to.
fn naming_a_commit_runs_nothing_outside(w: &World) {
    w.write("f", "one\n");
    w.commit("One");
    let owned = w.home.join("owned");
    let settings = [
        ("core.repositoryformatversion", "1".to_owned()),
        ("extensions.partialClone", "origin".to_owned()),
        ("remote.origin.promisor", "true".to_owned()),
        ("remote.origin.url", "ssh://nowhere.invalid/x".to_owned()),
        ("core.sshCommand", format!("touch {}; false", owned.display())),
    ];
    for (name, value) in settings {
        w.program("/usr/bin/git").args(["config", name, &value]).go().ok();
    }
    let missing = "1234567890123456789012345678901234567890";
    w.whatif(["race", "--check=true", &format!("--revert={missing}")]).go().fails_with_hint(2);
    assert!(!owned.exists(), "the repository's own command was run");
}

/// It is read without being named, so it must not be able to hold anybody up.
fn a_file_that_is_no_file_is_refused(w: &World) {
    for make in
        ["mkfifo experiment.toml", "ln -s /dev/zero experiment.toml", "mkdir experiment.toml", "truncate -s 10G experiment.toml"]
    {
        w.outside(&format!("rm -rf experiment.toml; {make}")).ok();
        let refused = w.whatif(["race"]).go();
        assert!([2, 125].contains(&refused.code) && refused.stderr.contains("experiment.toml"), "{make}: {refused:?}");
    }
    w.outside("rm -rf experiment.toml; mkfifo p.patch").ok();
    let refused = w.whatif(["race", "--check=true", "--patch=p=p.patch"]).go();
    assert!([2, 125].contains(&refused.code) && refused.stderr.contains("p.patch"), "{refused:?}");
    let refused = w.whatif(["race", "--check=true", "--patch=p=/dev/zero"]).go();
    assert!([2, 125].contains(&refused.code), "{refused:?}");
}

/// It ignores what asks it to end, and would write into what is checked.
fn a_process_that_will_not_end_does_not_reach_the_checks(w: &World) {
    let stay = "echo bad > f; (trap '' TERM HUP INT QUIT; setsid sh -c \"trap '' TERM HUP INT QUIT; while :; do echo good > f; echo good > /tmp/f; done\" >/dev/null 2>&1 &); sleep 0.2; echo bad > f";
    let check = "--check=same=is=$(cat f); for i in 1 2 3 4 5 6 7 8; do test \"$(cat f)\" = \"$is\" || exit 1; sleep 0.05; done";
    let race = w.race([check, "--repeats=2", stay]).exits(0);
    assert_eq!(race.verdict("1"), "passed", "{:#}", race.outcome("1"));
    eventually("nothing runs", || !runs_anywhere("echo good > /tmp/f"));
}

/// A trial is gone when it is over: its files, its processes, and what it listened to.
fn secrets_of_a_check_do_not_outlive_it(w: &World) {
    let check = "--check=echo secret > secret; mkdir -p /tmp/d; echo secret > /tmp/d/s; (sleep 98764 &) ; true";
    let _ = w.race([check, "--repeats=3", "echo x > x", "echo y > y"]).exits(0);
    let kept = w.json(["ls"]);
    assert_eq!(kept.as_array().map(Vec::len), Some(2), "only the attempts: {kept:#}");
    let found = || w.outside(&format!("find {} -name secret -o -path '*/d/s'", w.state.display())).stdout;
    eventually("trials are deleted", || found().is_empty() && w.transient().is_empty());
    eventually("nothing runs", || !runs_anywhere("sleep 98764"));
}

/// Neither in the records nor anywhere else; so whoever goes on with a race has to give them again.
fn secrets_in_the_environment_are_not_written_down(w: &World) {
    let attempt = format!("--attempt=slow={}; test $TOKEN = hunter2 && echo x > x", w.endless());
    let mut running = w.begin_race(["--check=test $TOKEN = hunter2", "--env", "TOKEN=hunter2", &attempt]);
    running.has_said("attempt_began", 1);
    running.signal(rustix::process::Signal::INT);
    let _ = running.ends().exits(130);
    w.outside("touch go").ok();
    w.whatif(["race", "resume"]).go().fails_with_hint(2).says("TOKEN");
    let race = w.race(["resume", "--env", "TOKEN=hunter2"]).exits(0);
    assert_eq!(race.verdict("slow"), "passed", "{:#}", race.outcome("slow"));
    w.race(["--check=true", "--env", "OTHER=not-to-be-found-4711", "echo x > x"]).exits(0);
    let found = w.outside(&format!("grep -rlaF not-to-be-found-4711 {}", w.state.display())).stdout;
    assert_eq!(found, "");
}
