use std::collections::HashMap;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Modifier;
use whatif_engine::changes::review::Review;
use whatif_engine::{Flag, Packages};

use super::super::app::Subject;
use super::super::keys::Action;
use super::super::layout::fit;
use super::super::sample;
use super::*;

fn app() -> App {
    let mut changes = sample::changes(&[
        "M /home/me/.bashrc",
        "A build.rs",
        "M src/a/one.rs",
        "D src/a/two.rs",
        "M src/main.rs",
        "A target/debug/x",
        "A target/debug/y",
    ]);
    changes[1].flags.push(Flag::HostExecuted);
    changes[5].ignored = true;
    changes[6].ignored = true;
    let subject = Subject {
        name: "swift-otter".to_owned(),
        project: sample::PROJECT.into(),
        is_alive: true,
        changes,
        packages: Packages::default(),
        conflicts: HashMap::new(),
    };
    let mut app = App::new(subject, Review::default(), sample::content);
    for index in 0..app.subject.changes.len() {
        app.counts.learn(index, &app.subject.changes[index], sample::content);
    }
    app
}

fn buffer(app: &mut App, width: u16, height: u16, colour: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let drawn = terminal.draw(|frame| {
        let areas = fit(app, frame.area());
        draw(frame, app, areas, Theme { colour });
    });
    drawn.unwrap().buffer.clone()
}

/// The screen, line by line, without blanks at the ends.
fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let buffer = buffer(app, width, height, true);
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn files_on_a_small_terminal() {
    let mut app = app();
    app.act(Action::Accept);
    let expected = [
        "╭ swift-otter ─────────● running ╮╭ src/a/one.rs ──────────────────────────────╮",
        "│▾ needs your approval          ✓││modified file                               ┃",
        "│✓ A build.rs               +3 -2││! 1 hidden character, shown as \\u{…} or \\x… ┃",
        "│▾ changes                      3││                                            ┃",
        "│·   ▾ src/                   0/3││▏@@ -1,6 +1,6 @@ hunk 1 of 2                ┃",
        "│·     ▾ a/                   0/2││▏ 1   line 1 of the file                    ┃",
        "│· M     one.rs             +3 -2││▏ 2   line 2 of the file                    ┃",
        "│· D     two.rs             +3 -2││▏ 3 - line 3 of the file                    ┃",
        "│· M   main.rs              +3 -2││▏ 3 + line three of the file                ┃",
        "│▸ ignored           2 files, 0 B││▏ 4   line 4 of the file                    ┃",
        "│▾ outside the project          1││▏ 5   line 5 of the file                    ┃",
        "│· M /home/me/.bashrc       +3 -2││▏ 6   line 6 of the file                    ┃",
        "│                                ││                                            ┃",
        "│                                ││ @@ -22,7 +22,8 @@ hunk 2 of 2              ┃",
        "│                                ││ 22   line 22 of the file                   ┃",
        "│                                ││ 23   line 23 of the file                   ┃",
        "│                                ││ 24   line 24 of the file                   ┃",
        "│                                ││ 25 - line 25 of the file                   ┃",
        "│                                ││ 25 + line 25 of\\u{202e} the file           ┃",
        "│                                ││ 26 +     and one more                      │",
        "│                                ││ 27   line 26 of the file                   │",
        "╰────────────────────────────────╯╰────────────────────────────────────────────╯",
        " a accept  x reject  u clear  A all safe  w apply  / search  ? help  q quit",
        " ✓ 1 accepted  ✗ 0 rejected  · 6 undecided       next: whatif apply swift-otter",
    ];
    assert_eq!(screen(&mut app, 80, 24), expected);
}

#[test]
fn hunks_on_a_small_terminal() {
    let mut app = app();
    for action in [Action::Down, Action::Down, Action::Down, Action::Down, Action::Open, Action::Accept] {
        app.act(action);
    }
    let lines = screen(&mut app, 80, 24);
    assert_eq!(lines[0], "╭ swift-otter ───────● ╮╭ src/a/one.rs ──────────────────── ◐ accepted in part ╮", "{lines:#?}");
    assert!(lines.iter().any(|l| l.contains(" @@ -1,6 +1,6 @@ hunk 1 of 2               ✓ accepted ")), "{lines:#?}");
    assert!(lines.iter().any(|l| l.contains("▌@@ -22,7 +22,8 @@ hunk 2 of 2            ✗ stays out ")), "{lines:#?}");
    assert!(lines.iter().any(|l| l.contains("▌25 + line 25 of\\u{202e} the file")), "{lines:#?}");
    assert_eq!(lines[22], " hunks that are not accepted stay out");
    assert_eq!(lines[23], " ✓ 0  ✗ 0  ◐ 1  · 6 undecided                    next: whatif apply swift-otter");
}

#[test]
fn a_large_terminal_has_both_line_numbers() {
    let mut app = app();
    app.act(Action::Down);
    app.act(Action::Down);
    app.act(Action::Down);
    app.act(Action::Down);
    let lines = screen(&mut app, 200, 50);
    assert_eq!(lines.len(), 50);
    assert!(lines[0].starts_with(&format!("╭ swift-otter {}● running ╮╭ src/a/one.rs ─", "─".repeat(39))), "{}", lines[0]);
    let text = |part: &str| lines.iter().any(|l| l.contains(part));
    assert!(text("▏ 3    - line 3 of the file") && text("▏    3 + line three of the file"), "{lines:#?}");
    assert!(text("  25 25 ") || text("    26 +     and one more"), "{lines:#?}");
    assert_eq!(lines[47], format!("╰{}╯╰{}╯", "─".repeat(62), "─".repeat(134)));
    assert_eq!(lines[49], " ✓ 0 accepted  ✗ 0 rejected  · 7 undecided");
}

#[test]
fn colours_tell_lines_and_words_apart() {
    use ratatui::style::Color;
    let mut app = app();
    let buffer = buffer(&mut app, 80, 24, true);
    let cell = |text: &str| {
        let found = (0..24).find_map(|y| {
            let line: Vec<&str> = (0..80).map(|x| buffer[(x, y)].symbol()).collect();
            line.concat().find(text).map(|at| (line.concat()[..at].chars().count() as u16, y))
        });
        buffer[found.unwrap_or_else(|| panic!("no {text}"))].clone()
    };
    assert_eq!(cell("line 3 of").fg, Color::Red);
    assert!(cell("three of").fg == Color::Green && cell("three of").modifier.contains(Modifier::REVERSED));
    assert_eq!(cell("\\u{202e}").fg, Color::Magenta);
    assert!(cell("A build.rs").modifier.contains(Modifier::REVERSED), "the chosen line");
}

#[test]
fn without_colours_there_are_only_weights() {
    use ratatui::style::Color;
    let mut app = app();
    app.act(Action::Accept);
    for help in [false, true] {
        app.help = help;
        for cell in buffer(&mut app, 80, 24, false).content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{cell:?}");
        }
    }
}

#[test]
fn the_help_fits_a_small_terminal() {
    let mut app = app();
    app.act(Action::Help);
    let lines = screen(&mut app, 80, 24);
    for (keys, words) in super::super::keys::HELP {
        assert!(lines.iter().any(|l| l.contains(keys) && l.contains(words)), "{words}: {lines:#?}");
    }
}

#[test]
fn a_search_is_typed_at_the_bottom() {
    let mut app = app();
    app.act(Action::Search);
    for c in "main".chars() {
        app.type_in(ratatui::crossterm::event::KeyCode::Char(c).into());
    }
    assert_eq!(screen(&mut app, 80, 24)[22], " /main");
}

#[test]
fn no_size_is_too_small() {
    for (width, height) in [(1, 1), (2, 2), (8, 3), (20, 5), (40, 10), (59, 24), (60, 4), (300, 100)] {
        let mut app = app();
        screen(&mut app, width, height);
        for action in [Action::Bottom, Action::SwitchPane, Action::PageDown, Action::Down, Action::Help] {
            app.act(action);
            screen(&mut app, width, height);
        }
    }
}
