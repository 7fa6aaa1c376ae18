use std::path::Path;

use ratatui::crossterm::event::{KeyCode, KeyEvent};
use whatif_engine::changes::review::Verdict;
use whatif_engine::{Blocked, Flag, Packages};

use super::super::keys::action;
use super::super::sample;
use super::*;

fn subject(words: &[&str]) -> Subject {
    let mut changes = sample::changes(words);
    for change in &mut changes {
        if change.path.ends_with("build.rs") {
            change.flags.push(Flag::HostExecuted);
        }
        if change.kind == whatif_engine::ChangeKind::Special {
            change.blocked = Some(Blocked::Special);
        }
    }
    Subject {
        name: "otter".to_owned(),
        project: sample::PROJECT.into(),
        is_alive: false,
        changes,
        packages: Packages::default(),
        conflicts: HashMap::new(),
    }
}

fn app(words: &[&str]) -> App {
    let mut app = App::new(subject(words), Review::default(), sample::content);
    app.list.resize(20);
    app.viewer.resize(60, 20);
    app
}

fn press(app: &mut App, keys: &str) -> Effect {
    let mut effect = Effect::Nothing;
    for c in keys.chars() {
        let key = match c {
            '\t' => KeyEvent::from(KeyCode::Tab),
            '\n' => KeyEvent::from(KeyCode::Enter),
            '\x1b' => KeyEvent::from(KeyCode::Esc),
            c => KeyEvent::from(KeyCode::Char(c)),
        };
        if app.prompt.is_some() {
            app.type_in(key);
        } else if let Some(action) = action(key) {
            effect = app.act(action);
        }
        while app.hunt.is_some() {
            app.hunt_on();
        }
    }
    effect
}

fn verdict(app: &App, path: &str) -> Option<Verdict> {
    app.decisions.review().verdict(&Path::new(sample::PROJECT).join(path)).cloned()
}

#[test]
fn files_are_decided_one_after_the_other() {
    let mut app = app(&["M a", "M b", "M c"]);
    press(&mut app, "ax");
    assert_eq!((verdict(&app, "a"), verdict(&app, "b")), (Some(Verdict::Accepted), Some(Verdict::Rejected)));
    assert_eq!(app.title(), "c");
    press(&mut app, "ku");
    assert_eq!(verdict(&app, "b"), None);
    assert_eq!(press(&mut app, "w"), Effect::Apply, "a is accepted");
    assert_eq!(press(&mut app, "kuw"), Effect::Nothing, "nothing is accepted any more");
    assert_eq!(press(&mut app, "q"), Effect::Quit);
}

#[test]
fn hunks_are_decided_one_after_the_other() {
    let mut app = app(&["M a", "M b"]);
    press(&mut app, "\na");
    assert_eq!((app.pane, app.viewer.hunk), (Pane::Hunks, 1));
    assert_eq!(verdict(&app, "a"), Some(Verdict::Hunks(vec![1])));
    press(&mut app, "x");
    assert_eq!(verdict(&app, "a"), Some(Verdict::Hunks(vec![1])));
    press(&mut app, "a");
    assert_eq!(verdict(&app, "a"), Some(Verdict::Accepted));
    press(&mut app, "px");
    assert_eq!(verdict(&app, "a"), Some(Verdict::Hunks(vec![2])));
    press(&mut app, "u");
    assert_eq!(verdict(&app, "a"), None);
}

#[test]
fn directories_decide_for_what_is_in_them() {
    let mut app = app(&["M d/a", "M d/b", "M e"]);
    press(&mut app, "ha");
    assert_eq!((verdict(&app, "d/a"), verdict(&app, "e")), (Some(Verdict::Accepted), None));
    assert_eq!(verdict(&app, "d/b"), Some(Verdict::Accepted));
}

#[test]
fn what_is_flagged_is_approved_one_by_one() {
    let mut app = app(&["A build.rs", "M plain"]);
    press(&mut app, "gaA");
    assert_eq!((verdict(&app, "build.rs"), verdict(&app, "plain")), (None, Some(Verdict::Accepted)));
    press(&mut app, "ja");
    assert_eq!(verdict(&app, "build.rs"), Some(Verdict::Accepted));
}

#[test]
fn what_is_blocked_stays_undecided() {
    let mut app = app(&["S pipe"]);
    press(&mut app, "a\ta");
    assert_eq!(verdict(&app, "pipe"), None);
    assert!(app.message.is_some());
}

#[test]
fn the_next_undecided_file() {
    let mut app = app(&["M a", "M b", "M c"]);
    press(&mut app, "ja");
    press(&mut app, "gn");
    assert_eq!(app.title(), "a");
    press(&mut app, "n");
    assert_eq!(app.title(), "c");
    press(&mut app, "A");
    press(&mut app, "n");
    assert_eq!(app.message.as_ref().unwrap().1, "everything is decided");
}

#[test]
fn searching_names_and_text() {
    let mut app = app(&["M a", "M d/b", "M d/c"]);
    press(&mut app, "/d/c\n");
    assert_eq!(app.title(), "d/c");
    press(&mut app, "g/three\n");
    assert_eq!(app.title(), "a", "in the text of the first file");
    press(&mut app, "n");
    assert_eq!(app.title(), "d/b");
    press(&mut app, "N");
    assert_eq!(app.title(), "a");
    press(&mut app, "/nothing like it\n");
    assert_eq!(app.message.as_ref().unwrap().1, "not found");
    press(&mut app, "\x1b");
    assert!(app.query.is_none());
}

#[test]
fn a_second_look_keeps_the_place_and_shows_what_lapsed() {
    let mut app = app(&["M a", "M b", "M c"]);
    press(&mut app, "jja");
    let lapsed = sample::lapsed("c");
    press(&mut app, "k");
    app.reload(subject(&["A 0", "M a", "M b", "M c"]), lapsed);
    assert_eq!(app.title(), "b");
    assert!(app.message.as_ref().unwrap().1.contains("1 decision lapsed"));
    app.reload(subject(&["M a", "M b", "M c"]), Review::default());
    assert_eq!(app.decisions.mark(2), super::super::decisions::Mark::Lapsed, "until it is decided again");
}

#[test]
fn help_closes_with_any_key() {
    let mut app = app(&["M a"]);
    press(&mut app, "?");
    assert!(app.help);
    press(&mut app, "a");
    assert!(!app.help);
    assert_eq!(verdict(&app, "a"), None, "that key did nothing else");
    press(&mut app, "?");
    assert_eq!(app.act(Action::Quit), Effect::Nothing, "not even this one");
    assert!(!app.help);
}

#[test]
fn fifty_thousand_changes_are_no_trouble() {
    let words: Vec<String> = (0..50_000).map(|n| format!("M d{:02}/e{:02}/f{n:05}", n / 2500, n / 250 % 10)).collect();
    let mut app = app(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let start = std::time::Instant::now();
    press(&mut app, "jjjGgaAx");
    assert_eq!(app.decisions.tally().all(), 50_000);
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn nothing_to_review_is_no_trouble() {
    let mut app = app(&[]);
    press(&mut app, "jkGgaxuAnp\t\njknpax/x\n");
    assert!(!app.decisions.is_unsaved);
}
