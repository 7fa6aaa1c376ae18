//! The live table and the report on a real terminal: that of tmux, whose screen can be looked at.

use whatif_e2e::{Tmux, World, as_root_and_user, needs};

as_root_and_user!(
    a_small_terminal_shows_every_attempt_once,
    a_large_terminal_shows_more,
    an_interrupt_leaves_a_clean_terminal,
    without_colours_there_are_none,
    a_terminal_that_changes_its_size_keeps_no_ghosts,
    more_attempts_than_lines_are_summed_up,
    what_was_on_the_screen_before_stays,
);

/// Two of them wait until they are told to go on, so that there is time to look.
const RACE: &str = "race --name tour --jobs 2 --check 'test=test ! -e bad' \
    --attempt 'quick=echo quick > f' --attempt 'slow=until test -e /tmp/go; do sleep 0.05; done; seq 5 > f' \
    --attempt 'wrong=touch bad' --attempt 'last=until test -e /tmp/go; do sleep 0.05; done; seq 9 > f'";

/// Attempts run in sandboxes like any other, so one can reach into them.
fn go_on(w: &World, attempt: &str) {
    // Whatever it says: the race may be done with the sandbox before this command is.
    w.whatif(["exec", "-d", &format!("tour.{attempt}"), "--", "touch", "/tmp/go"]).go();
}

/// The line about an attempt, of the table: a mark, then the name.
fn rows<'a>(screen: &'a [String], name: &str) -> Vec<&'a String> {
    screen.iter().filter(|line| line.split_whitespace().nth(1) == Some(name) && !line.contains("race --name")).collect()
}

/// Every column begins at the same place in every line, below its heading.
#[track_caller]
fn assert_aligned(screen: &[String], names: &[&str], heading: &str) {
    let head = screen.iter().find(|line| line.contains("ATTEMPT") && line.contains(heading));
    let head = head.unwrap_or_else(|| panic!("no headings:\n{}", screen.join("\n")));
    let place = |line: &str, text: &str| line.find(text).map(|byte| line[..byte].chars().count());
    let column = place(head, heading).expect("it was found");
    for name in names {
        let row = rows(screen, name)[0];
        let before: String = row.chars().skip(column.saturating_sub(2)).take(2).collect();
        let first = row.chars().nth(column);
        assert!(
            before.trim().is_empty() && first.is_some_and(|c| c != ' '),
            "{heading} is not aligned in '{row}':\n{}",
            screen.join("\n")
        );
    }
}

const NAMES: [&str; 4] = ["quick", "slow", "wrong", "last"];

/// Those that wait to be told run, the others are done; the whole table is there.
fn is_under_way(screen: &[String]) -> bool {
    let is = |name: &str, state: &str| rows(screen, name).first().is_some_and(|row| row.contains(state));
    is("quick", "passed") && is("wrong", "fails") && is("slow", "running") && is("last", "running")
}

fn a_small_terminal_shows_every_attempt_once(w: &World) {
    needs!(w, "tmux");
    let tmux = Tmux::start(w, 80, 24);
    tmux.run("send-keys -l clear");
    tmux.run("send-keys Enter");
    tmux.type_in(RACE);
    let screen = tmux.until("all attempts, some of them running", is_under_way);
    let text = screen.join("\n");
    for name in NAMES {
        assert_eq!(rows(&screen, name).len(), 1, "{name}:\n{text}");
    }
    assert!(screen.iter().all(|line| line.chars().count() <= 80), "{text}");
    assert!(screen.iter().any(|line| line.contains("tour") && line.contains("4 attempts")), "a headline:\n{text}");
    assert_aligned(&screen, &NAMES, "STATE");
    go_on(w, "slow");
    go_on(w, "last");
    let done = tmux.shows("code-0");
    let text = done.join("\n");
    assert!(text.contains("quick wins"), "{text}");
    assert!(text.contains("whatif race apply best"), "{text}");
    assert!(!text.contains("running") && !text.contains("waiting"), "nothing of the live table is left:\n{text}");
    for name in NAMES {
        assert!(text.contains(name), "{name}:\n{text}");
    }
    assert_eq!(tmux.run("display-message -p '#{cursor_flag}'").trim(), "1", "the cursor is back");
}

fn a_large_terminal_shows_more(w: &World) {
    needs!(w, "tmux");
    let tmux = Tmux::start(w, 200, 50);
    tmux.type_in(RACE);
    let screen = tmux.until("all attempts, some of them running", is_under_way);
    let head = screen.iter().find(|line| line.contains("ATTEMPT")).cloned().unwrap_or_default();
    for heading in ["STATE", "CHANGE", "TIME", "CPU", "MEMORY", "WHAT"] {
        assert!(head.contains(heading), "{heading}:\n{}", screen.join("\n"));
    }
    assert_aligned(&screen, &NAMES, "STATE");
    assert_aligned(&screen, &NAMES, "WHAT");
    go_on(w, "slow");
    go_on(w, "last");
    let done = tmux.shows("code-0").join("\n");
    assert!(done.contains("quick wins") && done.contains("MEMORY"), "{done}");
}

fn an_interrupt_leaves_a_clean_terminal(w: &World) {
    needs!(w, "tmux");
    let tmux = Tmux::start(w, 80, 24);
    tmux.type_in("race --check true 'echo x > f' 'exec sleep 1000'");
    tmux.until("it runs", |screen| {
        screen.iter().any(|line| line.contains("running")) && screen.iter().any(|line| line.contains("passed"))
    });
    tmux.run("send-keys C-c");
    let screen = tmux.shows("code-130");
    let text = screen.join("\n");
    assert!(text.contains("whatif race resume"), "{text}");
    assert!(!text.contains("running") && !text.contains("^C^C"), "{text}");
    assert_eq!(tmux.run("display-message -p '#{cursor_flag}'").trim(), "1", "the cursor is back");
    tmux.type_in("echo still-$((40+2))");
    tmux.shows("still-42");
    tmux.type_in("stty -a | grep -o ' echo ' | head -1; stty -a | grep -o ' icanon'");
    tmux.shows("icanon");
}

fn without_colours_there_are_none(w: &World) {
    needs!(w, "tmux");
    let tmux = Tmux::start(w, 100, 30);
    let run = "race --check 'test ! -e bad' 'sleep 0.5; echo x > x' 'touch bad'";
    tmux.type_in(&format!("NO_COLOR=1 {run}"));
    tmux.shows("code-0");
    let colours = |text: &str| text.contains("\u{1b}[3") || text.contains("\u{1b}[9");
    assert!(!colours(&tmux.painted()), "{:?}", tmux.painted());
    tmux.type_in(run);
    tmux.until("the second one", |screen| screen.iter().filter(|line| line.contains("code-0")).count() == 2);
    assert!(colours(&tmux.painted()), "otherwise there are some: {:?}", tmux.painted());
}

/// A terminal that becomes narrower breaks lines by itself, and tmux then moves the first of them out of sight, where nobody can
/// reach them any more. So the window grows first, and it is the window that is looked at.
fn a_terminal_that_changes_its_size_keeps_no_ghosts(w: &World) {
    needs!(w, "tmux");
    let tmux = Tmux::start(w, 60, 16);
    tmux.type_in("clear; race --name tour --jobs 1 --check true 'echo one > f; until test -e /tmp/go; do sleep 0.05; done' 'echo two > f' 'echo three > f'");
    tmux.until("it runs", |screen| screen.iter().any(|line| line.contains("running")));
    for (columns, rows) in [(90, 24), (140, 40), (80, 30), (50, 12), (40, 10)] {
        tmux.run(&format!("resize-window -x {columns} -y {rows}"));
        let screen = tmux.until("the table, once", |screen| {
            let heads = screen.iter().filter(|line| line.starts_with("tour ·")).count();
            let rows = |state: &str| screen.iter().filter(|line| line.contains(state)).count();
            heads == 1 && rows("waiting") == 2 && rows("running") == 1
        });
        let text = screen.join("\n");
        assert!(screen.iter().all(|line| line.chars().count() <= columns), "{columns}x{rows}:\n{text}");
    }
    go_on(w, "1");
    let text = tmux.shows("code-0").join("\n");
    assert!(!text.contains("waiting") && !text.contains("running") && !text.contains("tour ·"), "{text}");
}

fn more_attempts_than_lines_are_summed_up(w: &World) {
    needs!(w, "tmux");
    let tmux = Tmux::start(w, 80, 12);
    tmux.type_in("clear; race --jobs 2 --check true --count 30 -- sh -c 'echo x > x; sleep 0.2'");
    let screen =
        tmux.until("the rest in one line", |screen| screen.iter().any(|line| line.contains('…') && line.contains("waiting")));
    let text = screen.join("\n");
    assert!(screen.len() <= 12 && screen.iter().any(|line| line.contains("30 attempts")), "{text}");
    tmux.shows("code-0");
    let everything = tmux.everything();
    assert!(!everything.contains("running"), "nothing of the live table scrolled away:\n{everything}");
}

fn what_was_on_the_screen_before_stays(w: &World) {
    needs!(w, "tmux");
    let tmux = Tmux::start(w, 80, 15);
    tmux.type_in("clear; for i in 1 2 3 4 5 6 7 8 9 10; do echo before-$((i*11)); done; race --check true 'sleep 0.5; echo x > x' 'echo y > y'");
    tmux.shows("code-0");
    let everything = tmux.everything();
    for i in 1..=10 {
        let line = format!("before-{}", i * 11);
        assert_eq!(everything.matches(&format!("{line}\n")).count(), 1, "{line}:\n{everything}");
    }
}
