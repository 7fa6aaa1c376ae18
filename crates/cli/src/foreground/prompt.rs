//! Asks the person at the terminal whether the sandbox may go somewhere. The connection waits meanwhile.

use std::io::Write;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use whatif_engine::network::Ask;

use crate::commands::net::place;
use crate::output::{Output, Style};

/// A little less than the supervisor waits.
const PATIENCE: Duration = Duration::from_secs(55);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// For as long as this sandbox's supervisor lives.
    Once,
    ForProject,
    Always,
    No,
}

/// The terminal is in raw mode, and its keys are ours until one was pressed.
pub(super) fn ask(ask: &Ask, output: &Output) -> Answer {
    let question = format!("{} wants {}.", output.paint_note(Style::Yellow, "whatif:"), place(&ask.host, Some(ask.port)));
    say(&format!("\r\n{question} Allow it? [o]nce  for this [p]roject  [a]lways  [N]o "));
    let answer = read_answer();
    say(match answer {
        Answer::Once => "once\r\n",
        Answer::ForProject => "for this project\r\n",
        Answer::Always => "always\r\n",
        Answer::No => "no\r\n",
    });
    answer
}

fn read_answer() -> Answer {
    let input = stdin();
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    if !poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0) {
        return Answer::No;
    }
    let mut key = [0_u8; 1];
    match rustix::io::read(input, &mut key) {
        Ok(1) => match key[0].to_ascii_lowercase() {
            b'o' | b'y' => Answer::Once,
            b'p' => Answer::ForProject,
            b'a' => Answer::Always,
            _ => Answer::No,
        },
        _ => Answer::No,
    }
}

/// Where notes go, but without waiting for the end of a line.
fn say(text: &str) {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}
