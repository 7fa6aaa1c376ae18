//! Races that are stopped in the middle: by a person, a signal, a closed terminal, a reader that went away, a reboot. What finished is
//! kept, nothing runs on, and it can be gone on with.

use rustix::process::Signal;
use serde_json::json;
use whatif_e2e::racing::Running;
use whatif_e2e::{Terminal, World, as_root_and_user, eventually, skip};

as_root_and_user!(
    an_interrupt_stops_all_and_keeps_what_finished,
    an_interrupt_is_heard_while_it_is_set_up_and_judged,
    a_budget_ends_set_up_and_judge_too,
    what_was_done_is_not_done_again_if_only_its_checks_are_missing,
    a_terminal_that_is_closed_is_an_interrupt,
    a_reader_that_goes_away_ends_it,
    a_reboot_in_the_middle_is_gone_on_with,
    two_cannot_resume_at_the_same_time,
    who_resumes_too_late_harms_nothing,
    what_is_over_needs_no_resuming,
    a_sandbox_that_vanishes_is_survived,
);

fn an_interrupt_stops_all_and_keeps_what_finished(w: &World) {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let running = w.begin_stuck_race();
        running.signal(signal);
        let race = running.ends().exits(130);
        let ended = race.only("ended");
        assert_eq!((&ended["interrupted"], race.order()[0]), (&json!(true), "quick"), "{ended:#}");
        assert_eq!(race.verdict("quick"), "passed");
        w.assert_nothing_runs();
        w.outside("touch go").ok();
        let resumed = w.race(["resume"]).exits(0);
        assert_eq!(resumed.only("began")["resumed"], true);
        assert_eq!((resumed.winner(), resumed.order()), (Some("quick"), vec!["quick", "slow", "last"]), "{:#}", resumed.ranking());
        assert!(!resumed.all("attempt_began").iter().any(|e| e["attempt"] == "quick"), "what finished is not done again");
        w.whatif(["race", "rm", "--all"]).go().ok();
        w.outside("rm go").ok();
    }
    // People are told how to go on.
    let mut terminal = in_a_terminal(w);
    terminal.type_in("\u{3}");
    terminal.expect("whatif race resume");
    assert_eq!(terminal.ends(), 130);
    w.assert_nothing_runs();
}

/// As a person would start it, waiting for the one that does not end.
#[track_caller]
fn in_a_terminal(w: &World) -> Terminal {
    let arguments = w.stuck_race();
    let arguments: Vec<&str> = ["race"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let terminal = Terminal::with_whatif(w, &arguments);
    eventually("it runs", || w.is_stuck());
    terminal
}

fn a_terminal_that_is_closed_is_an_interrupt(w: &World) {
    drop(in_a_terminal(w));
    w.assert_nothing_runs();
    assert_eq!(w.recorded_order("stuck"), ["quick"]);
}

fn two_cannot_resume_at_the_same_time(w: &World) {
    let running = w.begin_stuck_race();
    for arguments in
        [vec!["race", "resume"], vec!["race", "resume", "--race", "stuck"], vec!["race", "rerun"], vec!["race", "rm", "stuck"]]
    {
        let refused = w.whatif(arguments.clone()).go().fails_with_hint(125);
        assert!(refused.stderr.contains("stuck"), "{arguments:?}: {}", refused.stderr);
    }
    assert_eq!(w.json(["race", "ls"])[0]["race"], "stuck");
    running.signal(Signal::KILL);
    drop(running);
    w.outside("touch go").ok();
    // Of many who try at once, one does it.
    let all: Vec<_> = (0..4).map(|_| w.begin_race(["resume"])).collect();
    let ended: Vec<_> = all.into_iter().map(Running::ends).collect();
    assert!(ended.iter().any(|race| race.code == 0), "{ended:#?}");
    for race in ended.iter().filter(|race| race.code != 0) {
        assert_eq!(race.code, 125, "{race:#?}");
        assert!(race.stderr.contains("stuck"), "{}", race.stderr);
    }
    assert_eq!(w.recorded_order("stuck").len(), 3);
    w.whatif(["race", "rm", "--all"]).go().ok();
    assert_eq!(w.json(["ls"]), json!([]));
}

/// What they knew when they asked is not what is true when they are let in.
fn who_resumes_too_late_harms_nothing(w: &World) {
    let mut running = w.begin_race(["--name=r", "--check=true", "--attempt=one=sleep 0.7; echo 1 > x"]);
    running.has_said("attempt_began", 1);
    let late: Vec<_> = (0..6)
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(150));
            w.begin_race(["resume", "r"])
        })
        .collect();
    let race = running.ends().exits(0);
    for late in late {
        let late = late.ends();
        assert!(late.all("attempt_began").is_empty(), "it is done already: {late:#?}");
    }
    assert_eq!(race.winner(), Some("one"));
    w.whatif(["race", "apply", "best", "--yes"]).go().ok();
    assert_eq!(w.read("x"), "1\n");
}

fn what_is_over_needs_no_resuming(w: &World) {
    w.whatif(["race", "resume"]).go().fails_with_hint(125);
    let race = w.race(["--check", "true", "echo x > x"]).exits(0);
    let again = w.race(["resume"]);
    assert!(again.all("attempt_began").is_empty(), "{again:#?}");
    assert!(again.code == 0 || again.stderr.contains("hint") || again.stderr.contains("\"hint"), "{again:#?}");
    assert_eq!(w.json(["race", "show"])["winner"], race.winner().unwrap_or_default());
}

/// Neither is run by an attempt, and both can take for ever.
fn an_interrupt_is_heard_while_it_is_set_up_and_judged(w: &World) {
    let wait = format!("{}; echo 1", w.endless());
    let attempts = ["--check=true", "echo 1 > f", "echo 2 > f"];
    for (option, event) in [("--setup", "setup_began"), ("--judge", "judge_began")] {
        let mut running = w.begin_race([&[option, &wait], attempts.as_slice()].concat());
        running.has_said(event, 1);
        eventually("it runs", || w.is_stuck());
        running.signal(Signal::INT);
        let race = running.ends().exits(130);
        assert_eq!(race.only("ended")["interrupted"], true, "{option}");
        w.assert_nothing_runs();
        w.outside("touch go").ok();
        let resumed = w.race(["resume"]).exits(0);
        assert_eq!(resumed.winner(), Some("1"), "{option}: {:#}", resumed.ranking());
        w.outside("rm go").ok();
        w.whatif(["race", "rm", "--all"]).go().ok();
    }
}

/// An agent may have worked for an hour.
fn what_was_done_is_not_done_again_if_only_its_checks_are_missing(w: &World) {
    let check = format!("--check={}", w.endless());
    for signal in [Signal::INT, Signal::KILL] {
        let mut running = w.begin_race(["--name=r", &check, "--attempt=work=date +%s%N > made"]);
        running.has_said("check_began", 1);
        eventually("it is stuck", || w.is_stuck());
        running.signal(signal);
        let _ = running.ends();
        w.assert_nothing_runs();
        w.outside("touch go").ok();
        let made = || w.whatif(["diff", "--patch", "r.work"]).go().ok().stdout;
        let before = made();
        let resumed = w.race(["resume"]).exits(0);
        assert_eq!(resumed.verdict("work"), "passed");
        assert_eq!(made(), before, "it is what was made before");
        w.whatif(["race", "rm", "--all"]).go().ok();
        w.outside("rm go").ok();
    }
}

fn a_budget_ends_set_up_and_judge_too(w: &World) {
    let wait = w.endless();
    let attempts = ["--check=true", "echo 1 > f", "echo 2 > f"];
    let setup = w.race([&["--setup", &wait, "--budget=2s"], attempts.as_slice()].concat());
    assert_ne!(setup.code, 0, "nothing was tried: {:#?}", setup.events);
    w.assert_nothing_runs();
    let judged = w.race([&["--judge", &wait, "--budget=10s"], attempts.as_slice()].concat()).exits(0);
    assert_eq!(judged.winner(), Some("1"), "without a word from the judge: {:#}", judged.ranking());
    w.assert_nothing_runs();
}

/// As with `| head`: nobody would ever hear of what goes on.
fn a_reader_that_goes_away_ends_it(w: &World) {
    let arguments = w.stuck_race();
    let quoted: Vec<String> = arguments.iter().map(|a| format!("'{a}'")).collect();
    w.outside(&format!("{} --json race {} | head -1", w.bin.display(), quoted.join(" "))).ok();
    w.assert_nothing_runs();
    w.outside("touch go").ok();
    let race = w.race(["resume"]).exits(0);
    assert_eq!(race.order().len(), 3);
}

fn a_reboot_in_the_middle_is_gone_on_with(w: &World) {
    if !rustix::process::geteuid().is_root() {
        skip("only root can arrange another boot");
        return;
    }
    let running = w.begin_stuck_race();
    w.reboot();
    drop(running);
    w.outside("touch go").ok();
    let shown = w.in_next_boot("$W --json race show").ok().json();
    assert_eq!(shown["state"], "interrupted", "{shown:#}");
    let resumed = w.in_next_boot("$W --json race resume").ok().stdout;
    assert!(!resumed.contains("\"attempt_began\",\"attempt\":\"quick\""), "what finished is not done again: {resumed}");
    assert_eq!(w.recorded_order("stuck"), ["quick", "slow", "last"]);
    w.in_next_boot("$W race apply best --yes && $W race rm --all").ok();
    assert_eq!(w.read("f"), "quick\n");
}

/// Somebody tidies up with a broad brush while it runs, and somebody else has no memory left.
fn a_sandbox_that_vanishes_is_survived(w: &World) {
    let running = w.begin_stuck_race();
    let tidied = w.whatif(["rm", "--all", "--yes"]).go();
    assert!(
        tidied.code == 125 && tidied.stderr.contains("stuck.slow") && tidied.stderr.contains("hint:"),
        "it is in use: {tidied:?}"
    );
    let keeper = rustix::process::Pid::from_raw(w.keeper_pid("stuck.slow")).expect("a pid");
    rustix::process::kill_process(keeper, Signal::KILL).expect("it is ours");
    let race = running.ends();
    assert_eq!(race.order().len(), 3, "{:#?}\n{}", race.events, race.stderr);
    assert!(["failed", "broken"].contains(&race.verdict("slow")), "{:#}", race.outcome("slow"));
    assert_eq!(race.verdict("last"), "passed");
    w.whatif(["race", "apply", "quick", "--yes"]).go().fails_with_hint(125);
    w.whatif(["race", "rm", "--all"]).go().ok();
    assert_eq!(w.json(["ls"]), json!([]));
}
