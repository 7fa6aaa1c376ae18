//! Draws the live table in place on a terminal, without the alternate screen: what was there before stays, and so does the report.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use rustix::stdio::stderr;
use rustix::termios::tcgetwinsize;

use super::Board;
use super::brush::{Brush, Charset, Colours};
use super::frame::frame;
use crate::output::Output;

const INTERVAL: Duration = Duration::from_millis(100);
const USUAL_SIZE: (u16, u16) = (80, 24);

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// Until a signal to ourselves has stopped all our threads.
const MOMENT: Duration = Duration::from_millis(20);

/// The cursor is hidden while it is there, and on the line below the table.
#[derive(Debug)]
pub struct Live {
    output: Output,
    charset: Charset,
    narrowing: Narrowing,
    last: Option<Instant>,
    /// How wide each line is that stands on the terminal.
    drawn: Vec<usize>,
    /// Ctrl-Z, if it can be watched for.
    stops: Option<OwnedFd>,
}

/// What a terminal makes of lines that are wider than it becomes.
#[derive(Clone, Copy, Debug)]
enum Narrowing {
    Wraps,
    Cuts,
}

impl Live {
    /// None where nothing can be drawn in place.
    #[must_use]
    pub fn start(output: &Output) -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if output.json || is_dumb || !std::io::stderr().is_terminal() {
            return None;
        }
        write(HIDE_CURSOR);
        Some(Self {
            output: *output,
            charset: Charset::of_terminal(),
            narrowing: Narrowing::of_terminal(),
            last: None,
            drawn: Vec::new(),
            stops: whatif_sys::signals::as_descriptor(&[Signal::TSTP.as_raw()]).ok(),
        })
    }

    /// Does nothing if it drew just before.
    pub fn draw(&mut self, board: &Board) {
        if self.stops.as_ref().is_some_and(|stops| !whatif_sys::signals::take(stops).is_empty()) {
            self.stop();
        }
        let now = Instant::now();
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            return;
        }
        self.last = Some(now);
        let (columns, rows) = size();
        // The last column stays free: terminals disagree about what follows a character there.
        let lines = frame(board, now, columns.saturating_sub(1), rows.saturating_sub(1));
        let brush = Brush { charset: self.charset, colours: Colours::OfNotes(&self.output) };
        let painted: Vec<String> = lines.iter().map(|line| line.render(brush)).collect();
        write(&redrawn(self.height(columns), &painted));
        self.drawn = lines.iter().map(super::line::Line::width).collect();
    }

    /// Leaves the terminal to the shell until we are continued; the table then begins below what was written meanwhile.
    fn stop(&mut self) {
        self.clear();
        write(SHOW_CURSOR);
        // The signal of Ctrl-Z is ours now; this one stops as well, and where nobody could continue us it does not either.
        let _ = kill_process(getpid(), Signal::TTIN);
        std::thread::sleep(MOMENT);
        write(HIDE_CURSOR);
    }

    /// Leaves nothing of the table.
    pub fn clear(&mut self) {
        if !self.drawn.is_empty() {
            write(&redrawn(self.height(size().0), &[]));
            self.drawn.clear();
        }
        self.last = None;
    }

    fn height(&self, columns: usize) -> usize {
        self.narrowing.height(&self.drawn, columns)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
        write(SHOW_CURSOR);
    }
}

impl Narrowing {
    /// Most terminals wrap; those that do not are known by name.
    fn of_terminal() -> Self {
        let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v.starts_with(value));
        let cuts = is("XTERM_VERSION", "") || is("TERM", "linux") || is("TERM", "screen") && !is("TMUX", "");
        if cuts { Self::Cuts } else { Self::Wraps }
    }

    /// How many rows lines of these widths take on a terminal that has this many columns now.
    fn height(self, drawn: &[usize], columns: usize) -> usize {
        match self {
            Self::Wraps => drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum(),
            Self::Cuts => drawn.len(),
        }
    }
}

/// Goes back to the first of the old rows, writes the lines over them, and wipes what is left of the old ones. Wrapping is off
/// meanwhile, in case the terminal has just become narrower; a terminal that can shows it all at once.
///
/// Each row is wiped as a whole: of one that is only written over, some terminals still know that it was wrapped and how long
/// it was. But not all rows at once: that makes some move them to what can be scrolled back to.
fn redrawn(old_rows: usize, lines: &[String]) -> String {
    let mut text = String::from("\x1b[?2026h\x1b[?7l\r");
    let up = if old_rows > 0 { format!("\x1b[{old_rows}A") } else { String::new() };
    text.push_str(&up);
    for line in lines {
        let _ = write!(text, "\x1b[2K{line}\r\n");
    }
    if lines.is_empty() {
        let _ = write!(text, "{}\x1b[2K{up}", "\x1b[2K\x1b[B".repeat(old_rows));
    } else {
        text.push_str("\x1b[J");
    }
    text.push_str("\x1b[?7h\x1b[?2026l");
    text
}

/// Columns and rows.
fn size() -> (usize, usize) {
    let known = tcgetwinsize(stderr()).ok().map(|s| (s.ws_col, s.ws_row)).filter(|(columns, rows)| *columns > 0 && *rows > 0);
    let (columns, rows) = known.unwrap_or(USUAL_SIZE);
    (columns.into(), rows.into())
}

/// A terminal that is gone shows nothing, and that is all.
fn write(text: &str) {
    let mut terminal = std::io::stderr().lock();
    let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_drawn_over_the_one_before() {
        let first = redrawn(0, &["a".into(), "b".into()]);
        assert_eq!(first, "\x1b[?2026h\x1b[?7l\r\x1b[2Ka\r\n\x1b[2Kb\r\n\x1b[J\x1b[?7h\x1b[?2026l");
        let second = redrawn(2, &["c".into()]);
        assert_eq!(second, "\x1b[?2026h\x1b[?7l\r\x1b[2A\x1b[2Kc\r\n\x1b[J\x1b[?7h\x1b[?2026l");
        let cleared = redrawn(1, &[]);
        assert_eq!(cleared, "\x1b[?2026h\x1b[?7l\r\x1b[1A\x1b[2K\x1b[B\x1b[2K\x1b[1A\x1b[?7h\x1b[?2026l");
    }

    #[test]
    fn lines_that_wrapped_when_the_terminal_became_narrower_are_counted() {
        let drawn = [79, 40, 0, 41];
        let height = |narrowing: Narrowing, columns| narrowing.height(&drawn, columns);
        assert_eq!((height(Narrowing::Wraps, 80), height(Narrowing::Wraps, 40), height(Narrowing::Wraps, 20)), (4, 6, 10));
        assert_eq!(height(Narrowing::Cuts, 20), 4);
    }
}
