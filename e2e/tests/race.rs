//! `whatif race`: the ways to say what is raced, and what becomes of it.

use serde_json::json;
use whatif_e2e::racing::{Race, runs_anywhere};
use whatif_e2e::{Detail, Tree, World, as_root_and_user, eventually};

as_root_and_user!(
    each_word_is_an_attempt,
    attempts_can_have_names,
    a_command_after_two_dashes_needs_no_shell,
    a_matrix_is_an_attempt_for_every_combination,
    prompts_go_to_an_agent,
    a_prompt_that_is_not_placed_comes_last,
    the_same_command_can_be_tried_often,
    setup_runs_once_for_all,
    a_setup_that_fails_ends_it,
    what_the_set_up_did_is_nobodys_merit,
    all_start_from_the_same_dirty_state,
    attempts_do_not_see_each_other,
    checks_leave_nothing_in_what_is_applied,
    what_an_attempt_leaves_running_is_gone_when_it_is_checked,
    an_attempt_that_fails_is_not_checked,
    who_changes_what_is_protected_does_not_win,
    who_changes_nothing_does_not_win,
    optional_checks_do_not_decide_who_passes,
    nobody_passing_is_exit_code_one,
    without_json_it_is_told_to_people,
);

/// Adds wrongly, and has a test that says so.
fn broken_adder(w: &World) {
    w.write("add.sh", "echo $(($1 - $2))\n");
    w.write("test.sh", "test \"$(sh add.sh 2 3)\" = 5 && test \"$(sh add.sh 1 1)\" = 2\n");
}

const TEST: &str = "--check=test=sh test.sh";
const RIGHT: &str = "sed -i 's/-/+/' add.sh";
const WRONG: &str = "sed -i 's/-/*/' add.sh";

#[track_caller]
fn names(race: &Race) -> Vec<&str> {
    race.only("began")["attempts"].as_array().expect("a list").iter().filter_map(|name| name.as_str()).collect()
}

/// What the first run of a check printed, of those that end with it.
#[track_caller]
fn printed<'a>(race: &'a Race, attempt: &str, check: &str) -> &'a str {
    race.check(attempt, check)["runs"][0]["tail"].as_str().expect("it is kept").trim_end()
}

fn each_word_is_an_attempt(w: &World) {
    broken_adder(w);
    let before = Tree::of(&w.project, Detail::Times);
    let race = w.race([TEST, WRONG, RIGHT]).exits(0);
    race.assert_makes_sense();
    assert_eq!(names(&race), ["1", "2"]);
    assert_eq!((race.winner(), race.order()), (Some("2"), vec!["2", "1"]));
    assert_eq!((race.verdict("2"), race.verdict("1")), ("passed", "failed_checks"));
    assert_eq!((race.changed("2"), race.changed("1")), (vec!["add.sh"], vec!["add.sh"]));
    assert!(race.why("1").contains("test"), "{}", race.why("1"));
    Tree::of(&w.project, Detail::Times).assert_is(&before, "a race changes nothing");
}

fn attempts_can_have_names(w: &World) {
    broken_adder(w);
    let race = w.race([TEST, "--attempt", &format!("wrong={WRONG}"), "--attempt", &format!("right={RIGHT}"), "--name", "adder"]);
    let race = race.exits(0);
    assert_eq!((names(&race), race.winner()), (vec!["wrong", "right"], Some("right")));
    assert_eq!(race.only("began")["race"], "adder");
    assert_eq!(w.json(["race", "ls"])[0]["race"], "adder");
}

fn a_command_after_two_dashes_needs_no_shell(w: &World) {
    broken_adder(w);
    let race = w.race([TEST, "--attempt", &format!("wrong={WRONG}"), "--", "sed", "-i", "s/ - / + /", "add.sh"]).exits(0);
    assert_eq!(names(&race).len(), 2);
    assert_eq!(race.verdict("wrong"), "failed_checks");
    assert_ne!(race.winner(), Some("wrong"));
}

fn a_matrix_is_an_attempt_for_every_combination(w: &World) {
    broken_adder(w);
    let command = "sed -i \"s/-/$(printf '\\{CODE}')/\" add.sh; echo $CODE $TAIL > chosen; echo '# {TAIL}' >> add.sh";
    let matrix = ["--matrix", "CODE=053,052", "--matrix", "TAIL=x,y"];
    let race = w.race([&[TEST, "--check=cat chosen"], matrix.as_slice(), &["--", "sh", "-c", command]].concat()).exits(0);
    race.assert_makes_sense();
    assert_eq!(names(&race), ["053-x", "053-y", "052-x", "052-y"]);
    assert_eq!(race.winner(), Some("053-x"));
    assert_eq!(race.standing("053-y")["place"], 1, "nothing sets them apart: {:#}", race.ranking());
    assert_eq!(race.verdict("052-y"), "failed_checks");
    assert_eq!(printed(&race, "053-y", "cat chosen"), "053 y", "also in the environment");
}

/// A stand-in for an agent that does what it is told.
const AGENT: &str = r#"#!/bin/sh
test "$1" = -p || exit 3
case "$2" in
    *plus*) sed -i 's/-/+/' add.sh ;;
    *times*) sed -i 's/-/*/' add.sh ;;
    *) echo "I do not understand: $2" >&2; exit 4 ;;
esac
echo "done: $2"
"#;

fn prompts_go_to_an_agent(w: &World) {
    broken_adder(w);
    let agent = w.write(w.home.join("agent"), AGENT).display().to_string();
    let prompts = ["--prompt", "use times", "--prompt", "good=use plus; \"quotes\", $HOME and {braces} stay", "--prompt", "sing"];
    let race = w.race([&[TEST], prompts.as_slice(), &["--", "sh", &agent, "-p", "{prompt}"]].concat()).exits(0);
    race.assert_makes_sense();
    assert_eq!((race.winner(), names(&race).len()), (Some("good"), 3));
    let tail = race.outcome("good")["ended"]["tail"].as_str().expect("it is kept");
    assert_eq!(tail.trim_end(), "done: use plus; \"quotes\", $HOME and {braces} stay");
    let lost = race.order()[2];
    assert_eq!(race.verdict(lost), "failed");
    assert_eq!(race.outcome(lost)["ended"]["exit_code"], 4);
}

fn a_prompt_that_is_not_placed_comes_last(w: &World) {
    broken_adder(w);
    let agent = w.write(w.home.join("agent"), AGENT).display().to_string();
    let race = w.race([TEST, "--prompt", "a=use plus", "--", "sh", &agent, "-p"]).exits(0);
    assert_eq!(race.winner(), Some("a"));
}

fn the_same_command_can_be_tried_often(w: &World) {
    broken_adder(w);
    let race = w.race([TEST, "--count", "3", "--", "sh", "-c", RIGHT]).exits(0);
    race.assert_makes_sense();
    assert_eq!((names(&race), race.winner()), (vec!["1", "2", "3"], Some("1")));
    let places: Vec<_> = ["1", "2", "3"].map(|name| race.standing(name)["place"].clone()).to_vec();
    assert_eq!(places, [json!(1), json!(1), json!(1)], "all did the same");
    assert!(race.why("2").contains("level"), "{}", race.why("2"));
}

/// What it made is there for everybody, and each has it for itself.
fn setup_runs_once_for_all(w: &World) {
    broken_adder(w);
    let setup = "mkdir deps; tr -dc a-z < /dev/urandom | head -c 20 > deps/mark";
    let touch = "cat deps/mark > seen; echo >> seen; echo mine >> deps/mark; sed -i s/-/+/ add.sh";
    let race =
        w.race([TEST, "--check=cat seen; cat deps/mark", "--setup", setup, "--count", "3", "--", "sh", "-c", touch]).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.only("setup_ended")["ended"]["exit_code"], 0);
    assert_eq!(race.all("setup_began").len(), 1);
    let seen: Vec<_> = ["1", "2", "3"].map(|name| printed(&race, name, "cat seen; cat deps/mark")).to_vec();
    assert!(seen.iter().all(|s| s == &seen[0] && s.len() > 40), "the same mark, and one's own line only: {seen:?}");
    assert!(!w.project.join("deps").exists());
}

fn a_setup_that_fails_ends_it(w: &World) {
    broken_adder(w);
    let before = w.inventory();
    let race = w.race([TEST, "--setup", "echo no such luck; exit 7", RIGHT, WRONG]);
    assert_ne!(race.code, 0);
    assert!(race.all("attempt_began").is_empty(), "{:#?}", race.events);
    let people = w.whatif(["race", TEST, "--setup", "echo no such luck; exit 7", RIGHT]).go();
    let said = format!("{}{}", people.stdout, people.stderr);
    assert!(people.code != 0 && said.contains("set-up") && said.contains("no such luck"), "{said}");
    w.whatif(["race", "rm", "--all"]).go().ok();
    w.assert_inventory_is(&before, "of a race that never began");
}

/// Nor anybody's fault. But it comes along with what is applied, which would not work without.
fn what_the_set_up_did_is_nobodys_merit(w: &World) {
    broken_adder(w);
    let setup = ["--setup", "echo prepared > prepared", "--protect", "prepared", "--check=true"];
    let race = w.race([setup.as_slice(), &["--attempt=idle=true", "--attempt=real=sed -i s/-/+/ add.sh"]].concat()).exits(0);
    assert_eq!(
        (race.winner(), race.verdict("idle"), race.verdict("real")),
        (Some("real"), "passed", "passed"),
        "{:#}",
        race.ranking()
    );
    assert_eq!((race.changed("idle"), race.changed("real")), (Vec::<&str>::new(), vec!["add.sh"]));
    w.whatif(["race", "apply", "best", "--yes"]).go().ok();
    assert_eq!((w.read("add.sh"), w.read("prepared")), ("echo $(($1 + $2))\n".to_owned(), "prepared\n".to_owned()));
}

/// What is not committed counts as well, and what is not even followed.
fn all_start_from_the_same_dirty_state(w: &World) {
    broken_adder(w);
    w.commit("Add");
    w.outside("echo edited >> test.sh; sed -i '$d' test.sh; echo new > new; mkdir -p d; ln -s ../new d/link; echo '*.log' > .gitignore; echo l > x.log")
        .ok();
    w.outside("git rm -q --cached add.sh; printf x >> new").ok();
    let print = "git status --short > state; cat new d/link x.log test.sh add.sh >> state; sed -i s/-/+/ add.sh";
    let race = w.race([TEST, "--check=cat state", "--count", "2", "--jobs", "1", "--", "sh", "-c", print]).exits(0);
    let here = w.outside("git status --short; echo ?? state; cat new d/link x.log test.sh add.sh").ok().stdout;
    let (first, second) = (printed(&race, "1", "cat state"), printed(&race, "2", "cat state"));
    assert_eq!(first, second);
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(first), sorted(here.trim_end()));
}

/// Both run at once, look for each other for a while, and find nothing.
fn attempts_do_not_see_each_other(w: &World) {
    broken_adder(w);
    let look = "echo $0 > mine-$0; echo $0 > /tmp/mine-$0; n=0; \
                while [ $n -lt 40 ]; do n=$((n+1)); ls | grep mine-; ls /tmp | grep mine-; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'spy-[a-z][a-z]*'; sleep 0.05; done | sort -u > /tmp/seen; \
                cp /tmp/seen seen; sed -i s/-/+/ add.sh";
    let one = format!("one=sh -c '{}' 1 spy-one", look.replace('\'', "'\\''"));
    let two = format!("two=sh -c '{}' 2 spy-two", look.replace('\'', "'\\''"));
    let race = w.race([TEST, "--check=cat seen", "--jobs", "2", "--attempt", &one, "--attempt", &two]).exits(0);
    assert_eq!(printed(&race, "one", "cat seen"), "mine-1\nspy-one");
    assert_eq!(printed(&race, "two", "cat seen"), "mine-2\nspy-two");
    let kinds: Vec<_> = race.events.iter().map(|e| e["event"].as_str().unwrap_or_default()).collect();
    let last_begin = kinds.iter().rposition(|k| *k == "attempt_began");
    assert!(last_begin < kinds.iter().position(|k| *k == "attempt_ended"), "they ran at once: {kinds:?}");
}

/// A check may write what it likes, where it likes: it is a fork that it writes to.
fn checks_leave_nothing_in_what_is_applied(w: &World) {
    broken_adder(w);
    let dirty = "mkdir -p __pycache__ && echo cached > __pycache__/x && echo tampered > add.sh && rm -f test.sh";
    let race = w.race([TEST, "--check", dirty, "--check=last=test ! -e test.sh", "--repeats", "2", RIGHT]).exits(0);
    assert_eq!((race.verdict("1"), race.changed("1")), ("passed", vec!["add.sh"]));
    w.whatif(["race", "apply", "best", "--yes"]).go().ok();
    assert_eq!(w.outside("cat add.sh; ls").ok().stdout, "echo $(($1 + $2))\nadd.sh\ntest.sh\n");
}

/// Otherwise it could do later what nobody looks at.
fn what_an_attempt_leaves_running_is_gone_when_it_is_checked(w: &World) {
    broken_adder(w);
    let stay = "sed -i s/-/+/ add.sh; (setsid sh -c 'while :; do echo late >> late; sleep 0.01; done' spy-left >/dev/null 2>&1 &); until test -s late; do sleep 0.01; done";
    let check = "--check=quiet=! cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep 'spy-[l]eft' && wc -l < late > a && sleep 0.3 && wc -l < late | cmp - a";
    let race = w.race([TEST, check, stay]).exits(0);
    assert_eq!(race.verdict("1"), "passed", "{:#}", race.outcome("1"));
    eventually("nothing runs", || !runs_anywhere("spy-left"));
}

fn an_attempt_that_fails_is_not_checked(w: &World) {
    broken_adder(w);
    let race = w.race([TEST, &format!("{RIGHT}; echo changed my mind; exit 9"), RIGHT]).exits(0);
    race.assert_makes_sense();
    assert_eq!((race.verdict("1"), race.winner()), ("failed", Some("2")));
    assert_eq!(race.outcome("1")["ended"]["exit_code"], 9);
    assert!(race.outcome("1")["ended"]["tail"].to_string().contains("changed my mind"));
    assert_eq!(race.outcome("1")["checks"], json!([]));
    assert!(!race.all("check_began").iter().any(|e| e["attempt"] == "1"));
}

fn who_changes_what_is_protected_does_not_win(w: &World) {
    broken_adder(w);
    w.write("tests/deep/more.sh", "true\n");
    let protect = ["--protect", "test.sh", "--protect", "tests/**"];
    let attempts = [
        "echo true > test.sh",
        "rm -r tests; sed -i s/-/+/ add.sh",
        "echo x > tests/deep/new",
        RIGHT,
        "chmod +x test.sh; sed -i s/-/+/ add.sh",
    ];
    let race = w.race([&[TEST], protect.as_slice(), attempts.as_slice()].concat()).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.winner(), Some("4"), "{:#}", race.ranking());
    for (name, path) in [("1", "test.sh"), ("2", "tests"), ("3", "tests/deep/new"), ("5", "test.sh")] {
        assert_eq!(race.verdict(name), "forbidden", "{:#}", race.outcome(name));
        assert!(race.outcome(name)["verdict"]["because"].to_string().contains(path), "{:#}", race.outcome(name));
        assert!(race.why(name).contains(path), "{}", race.why(name));
    }
}

fn who_changes_nothing_does_not_win(w: &World) {
    w.outside("echo f > f").ok();
    let race = w.race(["--check", "true", "true"]).exits(1);
    assert_eq!((race.verdict("1"), race.winner()), ("passed", None), "there is nothing to keep");
    let race = w.race(["--check", "true", "true", "cat f", "echo g > g"]).exits(0);
    assert_eq!((race.winner(), race.order()[0]), (Some("3"), "3"));
}

fn optional_checks_do_not_decide_who_passes(w: &World) {
    broken_adder(w);
    let more = format!("{RIGHT}; echo documented > README");
    let optional = ["--optional-check", "docs=test -e README", "--optional-check", "never=false"];
    let race = w.race([&[TEST], optional.as_slice(), &[RIGHT, &more]].concat()).exits(0);
    assert_eq!((race.verdict("1"), race.verdict("2")), ("passed", "passed"));
    assert_eq!(race.winner(), Some("2"), "more optional checks pass, although it is the larger change");
    assert_eq!(race.check("1", "docs")["required"], false);
    assert!(race.why("1").contains("optional"), "{}", race.why("1"));
}

fn nobody_passing_is_exit_code_one(w: &World) {
    broken_adder(w);
    let race = w.race([TEST, WRONG, "false"]).exits(1);
    race.assert_makes_sense();
    assert_eq!((race.winner(), race.order()), (None, vec!["1", "2"]));
    w.whatif(["race", "apply", "best", "--yes"]).go().fails_with_hint(125);
}

fn without_json_it_is_told_to_people(w: &World) {
    broken_adder(w);
    let outcome =
        w.whatif(["race", TEST, "--attempt", &format!("wrong={WRONG}"), "--attempt", &format!("right={RIGHT}")]).go().ok();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    for part in ["right", "wrong", "test", "whatif race apply"] {
        assert!(said.contains(part), "{part} is missing:\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "there is no terminal: {said}");
    assert!(said.find("right") < said.rfind("wrong"), "{said}");
}
