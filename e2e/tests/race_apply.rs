//! What becomes of attempts afterwards: they are looked at, compared, made real whole or in parts, run again, thrown away.

use serde_json::json;
use whatif_e2e::{Detail, Terminal, Tree, World, as_root_and_user, change, needs};

as_root_and_user!(
    the_best_becomes_real_and_the_rest_goes,
    what_is_left_of_a_winner_is_kept_and_that_is_told,
    any_attempt_can_be_applied,
    the_rest_can_be_kept,
    losers_that_were_worked_in_stay,
    without_checks_losers_that_were_worked_in_stay,
    a_rerun_keeps_what_was_worked_in,
    an_apply_of_nothing_keeps_the_rest,
    who_does_not_pass_can_be_applied_and_that_is_told,
    a_part_of_an_attempt_keeps_everything,
    what_needs_its_own_approval_is_left_out_and_said,
    what_was_changed_since_it_was_judged_is_told,
    what_was_applied_already_is_told,
    what_was_applied_has_no_diff_any_more,
    a_conflict_with_reality_writes_nothing,
    an_apply_of_a_race_is_undone_as_any_other,
    patches_and_reverts_are_called_that,
    a_race_is_listed_and_shown,
    attempts_are_compared_with_reality_and_each_other,
    attempts_can_be_run_again,
    a_race_can_be_thrown_away,
    a_person_is_asked_before_a_race_goes,
    races_of_other_projects_are_not_meant,
    sandboxes_of_a_race_are_sandboxes,
    what_was_made_from_an_attempt_outlives_the_race,
);

/// Two attempts that change different files and one that changes nothing good.
fn race(w: &World, name: &str) {
    w.outside("seq 20 > f; echo g > g").ok();
    let attempts =
        ["--attempt=one=sed -i s/^2$/two/ f", "--attempt=two=sed -i s/^19$/nineteen/ f; echo G > g", "--attempt=bad=exit 1"];
    w.race([&["--check", "test -e f", "--name", name], attempts.as_slice()].concat()).exits(0);
}

#[track_caller]
fn sandboxes(w: &World) -> usize {
    w.json(["ls"]).as_array().map_or(0, Vec::len)
}

fn the_best_becomes_real_and_the_rest_goes(w: &World) {
    race(w, "r");
    let before = Tree::of(&w.project, Detail::Times);
    w.whatif(["race", "apply", "best"]).go().fails_with_hint(2).says("--yes");
    w.whatif(["race", "apply", "best", "--dry-run"]).go().ok();
    Tree::of(&w.project, Detail::Times).assert_is(&before, "nobody has said yes");
    assert!(sandboxes(w) >= 2);
    w.whatif(["race", "apply", "best", "--yes"]).go().ok();
    assert!(w.read("f").contains("\ntwo\n") && w.read("g") == "g\n");
    assert!(sandboxes(w) <= 1, "{:#}", w.json(["ls"]));
    assert_eq!(w.json(["race", "show"])["applied"], json!(["one"]));
    w.whatif(["race", "apply", "two", "--yes"]).go().fails_with_hint(125);
}

fn what_is_left_of_a_winner_is_kept_and_that_is_told(w: &World) {
    // Nothing is closed to root.
    let (outside, why) = match w.is_root() {
        true => ("echo more > ~/more", "has changes that were not applied"),
        false => ("mkdir ~/more; touch ~/more/in; chmod 0 ~/more", "has something that cannot be read"),
    };
    w.outside("echo f > f").ok();
    let attempts = [&*format!("--attempt=one=echo one >> f; {outside}"), "--attempt=bad=exit 1"];
    w.race([&["--check", "grep one f", "--name", "r"], attempts.as_slice()].concat()).exits(0);
    let applied = w.whatif(["race", "apply", "best", "--yes"]).go().ok();
    assert_eq!(w.read("f"), "f\none\n");
    let kept = names(w);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(applied.stderr.contains(&format!("{} {why} and was kept; to remove it: whatif rm {0}", kept[0])), "{applied:?}");
}

fn any_attempt_can_be_applied(w: &World) {
    race(w, "r");
    w.whatif(["race", "apply", "nobody", "--yes"]).go().fails_with_hint(125).says("nobody");
    w.whatif(["race", "apply", "two", "--yes"]).go().ok();
    assert_eq!(w.read("g"), "G\n");
}

fn the_rest_can_be_kept(w: &World) {
    race(w, "r");
    let before = sandboxes(w);
    w.whatif(["race", "apply", "one", "--keep", "--yes"]).go().ok();
    assert_eq!(sandboxes(w), before);
    w.whatif(["race", "apply", "two", "--keep", "--yes"]).go().ok();
    let f = w.read("f");
    assert!(f.contains("\ntwo\n") && f.contains("\nnineteen\n"), "both, one after the other: {f}");
}

#[track_caller]
fn names(w: &World) -> Vec<String> {
    let all = w.json(["ls"]);
    let mut names: Vec<String> =
        all.as_array().expect("a list").iter().map(|s| s["name"].as_str().expect("a name").to_owned()).collect();
    names.sort();
    names
}

/// Work that was done in an attempt after the race is not thrown away with it.
fn losers_that_were_worked_in_stay(w: &World) {
    let attempts = ["small", "edited", "idle", "named", "running", "stopped"].map(|name| {
        // The fewest files win.
        let more = if name == "small" { "" } else { "; echo more > more" };
        format!("--attempt={name}=echo {name} > f{more}")
    });
    w.race([&["--check=test -e f", "--name=r"], attempts.each_ref().map(String::as_str).as_slice()].concat()).exits(0);
    for name in ["r.edited", "r.running", "r.stopped"] {
        w.whatif(["start", name]).go().ok();
    }
    w.exec("r.edited", "echo mine > mine").ok();
    w.whatif(["stop", "r.edited"]).go().ok();
    w.whatif(["stop", "r.stopped"]).go().ok();
    w.whatif(["snapshot", "r.named", "mark"]).go().ok();
    let applied = w.whatif(["race", "apply", "best", "--yes"]).go().ok();
    assert_eq!(w.read("f"), "small\n");
    assert_eq!(names(w), ["r.edited", "r.named", "r.running"], "{applied:?}");
    let applied = applied.says("r.edited was changed").says("r.named has snapshots");
    applied.says("r.running is running").says("whatif rm r.edited");
    w.whatif(["start", "r.edited"]).go().ok();
    assert_eq!(w.exec("r.edited", "cat mine").ok().text(), "mine");
}

fn without_checks_losers_that_were_worked_in_stay(w: &World) {
    w.race(["--name=r", "--attempt=a=echo a > a", "--attempt=b=echo b > b; echo c > c", "--attempt=c=echo c > c; echo d > d"])
        .exits(0);
    w.whatif(["start", "r.b"]).go().ok();
    w.exec("r.b", "echo mine >> b").ok();
    w.whatif(["stop", "r.b"]).go().ok();
    w.whatif(["race", "apply", "a", "--yes"]).go().ok().says("r.b was changed");
    assert_eq!(names(w), ["r.b"]);
}

fn a_rerun_keeps_what_was_worked_in(w: &World) {
    w.race(["--name=r", "--check=true", "--attempt=a=echo a > a", "--attempt=b=echo b > b"]).exits(0);
    w.whatif(["start", "r.b"]).go().ok();
    w.exec("r.b", "echo mine > mine").ok();
    w.whatif(["stop", "r.b"]).go().ok();
    w.race(["rerun"]).exits(0);
    w.whatif(["start", "r.b"]).go().ok();
    assert_eq!(w.exec("r.b", "cat mine").ok().text(), "mine");
    assert_eq!(names(w).len(), 3, "and both attempts have new sandboxes: {:?}", names(w));
    w.whatif(["race", "rm", "--all"]).go().ok();
    assert_eq!(names(w), ["r.b"], "it belongs to the race no more");
}

fn an_apply_of_nothing_keeps_the_rest(w: &World) {
    w.race(["--check=true", "--attempt=idle=true", "--attempt=real=echo x > x"]).exits(0);
    let before = sandboxes(w);
    let _ = w.whatif(["race", "apply", "idle", "--yes"]).go();
    assert_eq!(sandboxes(w), before, "nothing became real, so nothing is settled");
    w.whatif(["race", "apply", "real", "--yes"]).go().ok();
    assert_eq!(w.read("x"), "x\n");
}

/// One may know better than the checks, but not without being told.
fn who_does_not_pass_can_be_applied_and_that_is_told(w: &World) {
    w.race(["--check=right=test -e right", "--attempt=wrong=echo x > x", "--attempt=right=touch right"]).exits(0);
    let before = sandboxes(w);
    w.whatif(["race", "apply", "wrong", "--yes"]).go().ok().says("'wrong' does not pass");
    assert_eq!(w.read("x"), "x\n");
    assert_eq!(sandboxes(w), before, "those that pass may still be wanted");
}

fn a_part_of_an_attempt_keeps_everything(w: &World) {
    race(w, "r");
    let before = sandboxes(w);
    w.whatif(["race", "apply", "two", "--files", "g", "--yes"]).go().ok();
    assert!(w.read("g") == "G\n" && !w.read("f").contains("nineteen"));
    assert_eq!(sandboxes(w), before, "there is more to take");
    w.whatif(["race", "apply", "two", "--yes"]).go().ok();
    assert!(w.read("f").contains("nineteen"));
}

fn what_needs_its_own_approval_is_left_out_and_said(w: &World) {
    w.write("f", "f\n");
    let script = "echo F > f; printf 'all:\\n\\tid\\n' > Makefile; echo x > .envrc; echo outside > ~/outside";
    w.race(["--check", "true", "--name", "risky", script]).exits(0);
    let applied = w.whatif(["race", "apply", "best", "--yes"]).go().ok();
    let said = format!("{}{}", applied.stdout, applied.stderr);
    for path in ["Makefile", ".envrc", "outside"] {
        assert!(said.contains(path), "{path} is not said:\n{said}");
    }
    assert_eq!(w.read("f"), "F\n");
    assert!(!w.project.join("Makefile").exists() && !w.project.join(".envrc").exists() && !w.home.join("outside").exists());
    assert!(sandboxes(w) >= 1, "there is more to take");
    w.whatif(["race", "apply", "1", "--risky", "--yes"]).go().ok();
    assert!(w.project.join("Makefile").exists() && w.project.join(".envrc").exists());
}

/// Its sandbox is one like others, so anybody can do something in it before it is applied.
fn what_was_changed_since_it_was_judged_is_told(w: &World) {
    w.race(["--name=r", "--check=grep good f", "--attempt=a=echo good > f", "--attempt=b=echo good > f; echo more > g"]).exits(0);
    let before = sandboxes(w);
    w.whatif(["start", "r.a"]).go().ok();
    w.exec("r.a", "echo bad > f").ok();
    w.whatif(["race", "apply", "best", "--yes"]).go().fails_with_hint(125).says("judged");
    assert!(!w.project.join("f").exists());
    w.whatif(["race", "apply", "a", "--yes"]).go().ok().says("judged");
    assert_eq!((w.read("f"), sandboxes(w)), ("bad\n".to_owned(), before), "it was wanted, and the one that passes may still be");
}

fn what_was_applied_already_is_told(w: &World) {
    race(w, "r");
    w.whatif(["race", "apply", "one", "--yes"]).go().ok();
    let before = Tree::of(&w.project, Detail::Times);
    let again = w.whatif(["race", "apply", "one", "--yes"]).go();
    assert!(format!("{}{}", again.stdout, again.stderr).contains("applied"), "{again:?}");
    Tree::of(&w.project, Detail::Times).assert_is(&before, "once is enough");
}

fn a_conflict_with_reality_writes_nothing(w: &World) {
    race(w, "r");
    w.outside("sed -i s/^2$/mine/ f").ok();
    let before = Tree::of(&w.project, Detail::Times);
    let refused = w.whatif(["race", "apply", "one", "--yes"]).go().exits(1);
    assert!(format!("{}{}", refused.stdout, refused.stderr).contains('f'), "{refused:?}");
    Tree::of(&w.project, Detail::Times).assert_is(&before, "nothing at all");
    assert!(sandboxes(w) >= 2, "nothing is lost");
    w.whatif(["race", "apply", "one", "--theirs", "f", "--yes"]).go().ok();
    assert!(w.read("f").contains("\ntwo\n"));
}

fn an_apply_of_a_race_is_undone_as_any_other(w: &World) {
    race(w, "r");
    let before = Tree::of(&w.project, Detail::Times);
    assert!(w.whatif(["race", "apply", "two", "--yes"]).go().ok().stdout.contains("whatif undo"));
    assert_ne!(Tree::of(&w.project, Detail::Times), before);
    w.whatif(["undo", "--yes"]).go().ok();
    Tree::of(&w.project, Detail::Times).assert_is(&before, "undone, although the losers are gone");
}

fn a_race_is_listed_and_shown(w: &World) {
    assert_eq!(w.json(["race", "ls"]), json!([]));
    w.whatif(["race", "show"]).go().fails_with_hint(125);
    race(w, "first");
    race(w, "second");
    let listed = w.json(["race", "ls"]);
    assert_eq!((&listed[0]["race"], &listed[1]["race"]), (&json!("second"), &json!("first")), "newest first");
    let text = w.whatif(["race", "ls"]).go().ok().stdout;
    assert!(text.contains("first") && text.contains("second"), "{text}");
    for quiet in ["-q", "--quiet"] {
        assert_eq!(w.whatif(["race", "ls", quiet]).go().ok().stdout, "second\nfirst\n");
    }
    for arguments in [vec!["race", "show"], vec!["race", "show", "second"], vec!["race", "show", "--race", "second"]] {
        let shown = w.json(arguments.clone());
        assert_eq!((&shown["race"], &shown["winner"]), (&json!("second"), &json!("one")), "{arguments:?}: {shown:#}");
    }
    assert_eq!(w.json(["race", "show", "first"])["race"], "first");
    let text = w.whatif(["race", "show"]).go().ok();
    let text = format!("{}{}", text.stdout, text.stderr);
    assert!(["one", "two", "bad"].iter().all(|name| text.contains(name)), "{text}");
    w.whatif(["race", "show", "third"]).go().fails_with_hint(125).says("third");
}

fn attempts_are_compared_with_reality_and_each_other(w: &World) {
    race(w, "r");
    let one = w.whatif(["race", "diff", "--patch", "one"]).go().ok().stdout;
    assert!(one.contains("+two") && !one.contains("nineteen"), "{one}");
    let both = w.whatif(["race", "diff", "--patch", "one", "two"]).go().ok().stdout;
    assert!(both.contains("two") && both.contains("nineteen") && both.contains('G'), "{both}");
    let document = w.json(["race", "diff", "two"]);
    assert_eq!(change(&document, "g")["kind"], "modify", "{document:#}");
    w.whatif(["race", "diff", "one", "nobody"]).go().fails_with_hint(125);
}

/// With what reality is then, and the ranking is made anew.
fn attempts_can_be_run_again(w: &World) {
    w.outside("echo 1 > want").ok();
    let attempts = ["--attempt=one=echo 1 > got", "--attempt=two=echo 2 > got"];
    let first = w.race([&["--check=cmp want got", "--name", "r"], attempts.as_slice()].concat()).exits(0);
    assert_eq!(first.winner(), Some("one"));
    w.outside("echo 2 > want").ok();
    let again = w.race(["rerun"]).exits(0);
    assert_eq!(again.winner(), Some("two"), "{:#}", again.ranking());
    w.outside("echo 1 > want").ok();
    let part = w.race(["rerun", "one"]);
    assert!(part.all("attempt_began").iter().all(|e| e["attempt"] == "one"), "only this one: {:#?}", part.events);
    assert_eq!(part.verdict("one"), "passed");
    let stays: Vec<_> = part.order();
    assert!(stays.contains(&"two"), "the other one stays what it was: {stays:?}");
    w.whatif(["race", "rerun", "nobody"]).go().fails_with_hint(125);
}

fn a_race_can_be_thrown_away(w: &World) {
    let nothing = w.inventory();
    for name in ["a", "b", "c"] {
        race(w, name);
    }
    w.whatif(["race", "rm", "a"]).go().ok();
    assert_eq!(w.json(["race", "ls"]).as_array().map(Vec::len), Some(2));
    w.whatif(["race", "show", "a"]).go().fails_with_hint(125);
    w.whatif(["race", "rm", "nobody"]).go().fails_with_hint(125);
    w.whatif(["race", "rm", "--all"]).go().ok();
    assert_eq!((w.json(["race", "ls"]), w.json(["ls"])), (json!([]), json!([])));
    w.assert_inventory_is(&nothing, "of three races");
}

fn races_of_other_projects_are_not_meant(w: &World) {
    race(w, "here");
    let other = w.home.join("other");
    w.mkdir(&other);
    w.whatif(["race", "show"]).cwd(&other).go().fails_with_hint(125);
    w.whatif(["race", "apply", "best", "--yes"]).cwd(&other).go().fails_with_hint(125);
    w.whatif(["race", "--check", "true", "--name", "there", "echo x > x"]).cwd(&other).go().ok();
    assert_eq!(w.json(["race", "show"])["race"], "here");
    w.whatif(["race", "apply", "best", "--yes"]).cwd(&other).go().ok();
    assert!(other.join("x").exists() && !w.project.join("x").exists());
}

/// They can be looked into like any other.
fn sandboxes_of_a_race_are_sandboxes(w: &World) {
    race(w, "r");
    let all = w.json(["ls"]);
    let all = all.as_array().expect("a list");
    assert!(all.iter().all(|s| s["status"] == "stopped"), "nothing runs: {all:#?}");
    let labelled = w.json(["ls", "--label", "whatif.race"]);
    assert_eq!(labelled.as_array().map(Vec::len), Some(all.len()), "{labelled:#}");
    let name = all[0]["name"].as_str().expect("a name");
    w.whatif(["start", name]).go().ok();
    assert_eq!(w.exec(name, "test -e f && echo there").ok().text(), "there");
    w.whatif(["rm", "--yes", name]).go().ok();
    w.whatif(["race", "show"]).go().ok();
    w.whatif(["race", "rm", "--all"]).go().ok();
}

fn what_was_made_from_an_attempt_outlives_the_race(w: &World) {
    race(w, "r");
    w.fork("r.one", "mine");
    w.json(["template", "save", "r.two", "start"]);
    let archive = w.dir.join("archive").display().to_string();
    w.whatif(["export", "r.two", "-o", &archive]).go().ok();
    w.whatif(["race", "rm", "--all"]).go().ok();
    w.whatif(["import", &archive, "--name", "imported"]).go().ok();
    w.whatif(["race", "rm", "--all"]).go().ok();
    w.whatif(["gc"]).go().ok();
    assert_eq!(w.exec("mine", "sed -n 2p f").ok().text(), "two");
    assert_eq!(w.exec("imported", "cat g").ok().text(), "G");
    w.json(["new", "from-start", "--template", "start"]);
    assert_eq!(w.exec("from-start", "cat g").ok().text(), "G");
}

fn what_was_applied_has_no_diff_any_more(w: &World) {
    race(w, "r");
    w.whatif(["race", "apply", "one", "--yes"]).go().ok();
    w.whatif(["race", "diff", "one"]).go().fails_with_hint(125).says("its sandbox is gone").says("whatif race show");
}

/// In commits, in the history and wherever else a command is shown: not by the script that carries them out.
fn patches_and_reverts_are_called_that(w: &World) {
    needs!(w, "git");
    w.outside("git init -q . && git config user.name me && git config user.email me@example.com && seq 20 > f && git add f").ok();
    w.outside("git commit -q -m first && sed -i s/^19$/nineteen/ f && git commit -q -a -m second").ok();
    w.outside("sed -i s/^2$/two/ f && git diff > ../fix.patch && git checkout -q f").ok();
    w.race(["--name=r", "--patch=fix=../fix.patch", "--revert=back=HEAD"]).exits(0);
    let shown = |name: &str| w.json(["show", name])["details"]["command"].clone();
    let head = w.outside("git rev-parse HEAD").ok().text().chars().take(8).collect::<String>();
    assert_eq!(shown("r.fix"), json!(["Apply patch ../fix.patch"]), "{:#}", w.json(["show", "r.fix"]));
    assert_eq!(shown("r.back"), json!([format!("Revert HEAD ({head})")]));
    w.whatif(["race", "apply", "fix", "--commit", "--yes"]).go().ok();
    let message = w.outside("git log -1 --format=%B").ok();
    assert!(message.stdout.starts_with("Apply patch ../fix.patch\n\n"), "{}", message.stdout);
    assert!(message.stdout.contains("\nWhatif-Command: Apply patch ../fix.patch\n"), "{}", message.stdout);
    assert_eq!(w.json(["history"])[0]["command"], json!(["Apply patch ../fix.patch"]));
}

fn a_person_is_asked_before_a_race_goes(w: &World) {
    race(w, "r");
    w.whatif(["race", "rm"]).go().exits(2).says("RACE");
    for arguments in [&["race", "rm", "r"][..], &["race", "rm", "--all"]] {
        let mut terminal = Terminal::with_whatif(w, arguments);
        terminal.expect("Remove 1 race with the sandboxes of all attempts (r)?");
        terminal.type_in("\n");
        terminal.expect("nothing was removed");
        assert_eq!(terminal.ends(), 1);
    }
    let mut terminal = Terminal::with_whatif(w, &["race", "rm", "nobody"]);
    terminal.expect("there is no race called 'nobody'");
    assert_eq!(terminal.ends(), 125);
    assert_eq!(w.json(["race", "ls"]).as_array().map(Vec::len), Some(1));
    assert_eq!(Terminal::with_whatif(w, &["race", "rm", "--yes", "r"]).ends(), 0);
    assert_eq!(w.json(["race", "ls"]), json!([]));
}
