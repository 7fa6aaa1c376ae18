//! Without a terminal: a line for each attempt that ended, and for what must be known.

use whatif_types::experiment::{Event, Outcome};

use super::brush::{Brush, Charset, Colours};
use super::line::Line;
use super::words;
use crate::output::{Output, Style, counted};

/// So many paths are named.
const MOST_NAMED: usize = 3;

pub fn told(event: &Event, output: &Output) {
    if let Some(line) = line(event) {
        let brush = Brush { charset: Charset::of_terminal(), colours: Colours::OfNotes(output) };
        output.note(format!("{} {}", output.paint_note(Style::Dim, "whatif:"), line.render(brush)));
    }
}

fn line(event: &Event) -> Option<Line> {
    match event {
        Event::AttemptEnded { attempt, outcome } => Some(ended(attempt, outcome)),
        Event::RealityMoved { paths } => {
            let named: Vec<_> = paths.iter().take(MOST_NAMED).map(|p| p.to_path().to_string_lossy().into_owned()).collect();
            let more = if paths.len() > MOST_NAMED { ", …" } else { "" };
            let count = counted(paths.len() as u64, "path");
            Some(Line::plain(format!(
                "reality moved: {count} changed ({}{more}); attempts that begin now start from that",
                named.join(", ")
            )))
        }
        _ => None,
    }
}

fn ended(attempt: &str, outcome: &Outcome) -> Line {
    let result = words::result(outcome);
    let mut line = Line::painted(result.style, result.mark).plus(format!(" {attempt}: {}", result.words));
    let tests = words::tests(outcome.checks.iter().filter_map(|c| c.tests.as_ref()));
    if !tests.is_empty() {
        line = line.plus(", tests ").then(tests);
    }
    if words::was_run(outcome) {
        if !outcome.changes.is_empty() {
            line = line.plus(", ").then(words::change(&outcome.changes, usize::MAX));
        }
        line = line.plus(format!(", {}", words::time(words::used(outcome).0)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use whatif_types::text::Text;

    fn said(event: &Event) -> Option<String> {
        line(event).map(|l| l.render(sample::PLAIN))
    }

    fn said_of(name: &str) -> String {
        let outcome = Box::new(sample::outcome(name));
        said(&Event::AttemptEnded { attempt: name.to_owned(), outcome }).unwrap()
    }

    #[test]
    fn an_attempt_that_ended_is_one_line() {
        assert_eq!(said_of("good"), "✔ good: passed, tests 6/6, 1 file +1 −1, 2.4s");
        assert_eq!(said_of("bad"), "✘ bad: fails test (exit 1), tests 5/6, 1 file +1, 1.9s");
        assert_eq!(said_of("late"), "– late: cancelled: another one won");
        assert_eq!(said_of("idle"), "– idle: changed nothing, tests 6/6, 2.1s");
        assert_eq!(
            said_of("rude"),
            "✔ rude: passed, denied blocked.test:80 +1, tests 6/6, 1 file +1 −1, 2 outside, 52 ignored, 2.4s"
        );
    }

    #[test]
    fn what_must_be_known_is_said_and_nothing_else() {
        let paths = ["a", "b", "c\n", "d"].map(Text::from).to_vec();
        assert_eq!(
            said(&Event::RealityMoved { paths }).unwrap(),
            "reality moved: 4 paths changed (a, b, c\\n, …); attempts that begin now start from that"
        );
        assert_eq!(said(&Event::SetupEnded { ended: sample::ended(3, 10) }), None);
        assert_eq!(said(&Event::SetupBegan), None);
    }
}
