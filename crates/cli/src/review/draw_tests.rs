use whatif_engine::Flag;
use whatif_engine::review::Review;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

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
    let subject = Subject { name: "swift-otter".to_owned(), project: sample::PROJECT.into(), is_alive: true, changes };
    let mut app = App::new(subject, Review::default(), sample::content);
    for index in 0..app.subject.changes.len() {
        app.counts.learn(index, &app.subject.changes[index], sample::content);
    }
    app
}

/// The screen, line by line, without blanks at the ends.
fn screen(app: &mut App, width: u16, height: u16, colour: bool) -> (Vec<String>, ratatui::buffer::Buffer) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let frame = terminal
        .draw(|frame| {
            let areas = fit(app, frame.area());
            draw(frame, app, areas, Theme { colour });
        })
        .unwrap();
    let buffer = frame.buffer.clone();
    let lines = (0..height).map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned());
    (lines.collect(), buffer)
}

#[test]
fn a_small_terminal() {
    let mut app = app();
    app.act(Action::Accept);
    let (lines, _) = screen(&mut app, 80, 24, true);
    let expected =
        ["╭ swift-otter ────── ● running ╮╭ src/a/ ──────────────────────────────────────╮", "│▾ to be approved on their o 1/1│"];
    assert_eq!(lines[0].chars().count(), 80, "{lines:#?}");
    assert_eq!(lines[0].contains(expected[0].split_at(10).0), true, "{lines:#?}");
    panic!("{lines:#?}");
}
