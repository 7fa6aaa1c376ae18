//! Asks the person at the terminal whether the sandbox may go somewhere. The connection waits meanwhile.

use std::io::Write;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{QueueSelector, tcflush};
use whatif_engine::network::Ask;

use crate::commands::net::place;
use crate::output::{Output, Style};

/// A little less than the supervisor waits.
const PATIENCE: Duration = Duration::from_secs(55);
/// What was typed until just now was meant for the program.
const HANDS_OFF: Duration = Duration::from_millis(300);

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
    let question =
        format!("{} a program inside wants {}.", output.paint_note(Style::Yellow, "whatif:"), place(&ask.host, Some(ask.port)));
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

/// Only a key that is one of the answers is one: whoever types does not do so for us.
fn read_answer() -> Answer {
    let deadline = Instant::now() + PATIENCE;
    std::thread::sleep(HANDS_OFF);
    let _ = tcflush(stdin(), QueueSelector::IFlush);
    loop {
        let mut key = [0_u8; 16];
        match read_keys(&mut key, deadline) {
            Some(b"o" | b"O") => return Answer::Once,
            Some(b"p" | b"P") => return Answer::ForProject,
            Some(b"a" | b"A") => return Answer::Always,
            // Enter, Ctrl-C, Ctrl-D, Escape by itself.
            Some(b"n" | b"N" | b"\r" | b"\n" | b"\x03" | b"\x04" | b"\x1b") | None => return Answer::No,
            Some(_) => {}
        }
    }
}

/// What was pressed, an arrow key as a whole; `None` when nobody does any more.
fn read_keys(keys: &mut [u8], deadline: Instant) -> Option<&[u8]> {
    let input = stdin();
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    let ready = poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0);
    let length = if ready { rustix::io::read(input, &mut *keys).ok()? } else { 0 };
    keys.get(..length).filter(|keys| !keys.is_empty())
}

/// Where notes go, but without waiting for the end of a line.
fn say(text: &str) {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}
