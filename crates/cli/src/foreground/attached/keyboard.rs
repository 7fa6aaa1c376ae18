//! What goes to the command: our standard input, as far as it takes input; and the keys by which a person leaves.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use rustix::termios::tcgetattr;
use whatif_engine::lifecycle::attach::Attached;

use crate::foreground::terminal::RawMode;

/// Ctrl-], so often within so much time. The command gets all but the last.
const KEY: u8 = 0x1d;
const TIMES: usize = 3;
const WITHIN: Duration = Duration::from_secs(1);

const MOST_WAITING: usize = 64 << 10;

pub(super) struct Keyboard {
    is_terminal: bool,
    /// Until its end.
    is_open: bool,
    ends_input: bool,
    /// Read, and not taken by the command yet.
    waiting: Vec<u8>,
    presses: Presses,
    /// Given back when we leave.
    _mode: Option<RawMode>,
}

pub(super) enum Typed {
    Nothing,
    /// The command's input ends.
    EndOfInput,
    Leave,
}

impl Keyboard {
    pub(super) fn new(attached: &Attached, ends_input: bool) -> rustix::io::Result<Self> {
        if let Some(input) = &attached.input {
            // The command may never read; then our writing must not wait.
            rustix::io::ioctl_fionbio(input, true)?;
        }
        let is_terminal = std::io::stdin().is_terminal();
        let mode = match (is_terminal && !attached.is_over(), attached.is_terminal) {
            (false, _) => None,
            (true, true) => Some(RawMode::enter()?),
            (true, false) => Some(RawMode::enter_lines(KEY)?),
        };
        let presses = Presses::default();
        Ok(Self { is_terminal, is_open: true, ends_input, waiting: Vec::new(), presses, _mode: mode })
    }

    pub(super) fn poll_fds<'a>(&self, attached: &'a Attached) -> impl Iterator<Item = PollFd<'a>> {
        let waits = attached.input.as_ref().filter(|_| !self.waiting.is_empty());
        let keys = self.is_wanted(attached).then(|| PollFd::from_borrowed_fd(stdin(), PollFlags::IN));
        waits.map(|input| PollFd::new(input, PollFlags::OUT)).into_iter().chain(keys)
    }

    /// Does what can be done now.
    pub(super) fn work(&mut self, attached: &mut Attached) -> Typed {
        let typed = if self.is_wanted(attached) && is_readable() { self.read(attached) } else { Typed::Nothing };
        self.write(attached);
        typed
    }

    /// A person can leave in any case. Any other input is the caller's, who may have another use for it.
    fn is_wanted(&self, attached: &Attached) -> bool {
        let is_taken = attached.input.is_some() && self.waiting.is_empty();
        self.is_open && !attached.is_over() && (self.is_terminal || is_taken)
    }

    /// Nobody can give the command input any more.
    pub(super) fn let_go(&mut self, attached: &mut Attached) {
        attached.input = None;
        self.waiting.clear();
    }

    fn read(&mut self, attached: &Attached) -> Typed {
        let mut buffer = [0_u8; 16 << 10];
        match rustix::io::read(stdin(), &mut buffer) {
            Ok(length @ 1..) => {
                let keys = &buffer[..length];
                if self.is_terminal && self.presses.leave(keys, Instant::now()) {
                    return Typed::Leave;
                }
                // What is typed at a command that does not read is lost in the end, as it is at any terminal.
                if attached.input.is_some() && self.waiting.len() < MOST_WAITING {
                    self.waiting.extend_from_slice(keys);
                }
                Typed::Nothing
            }
            Err(Errno::AGAIN | Errno::INTR) => Typed::Nothing,
            Ok(_) => {
                // A person ends it with Ctrl-D; a terminal that is gone says the same, and is none any more.
                let is_meant = if self.is_terminal { tcgetattr(stdin()).is_ok() } else { self.ends_input };
                self.is_open = self.is_terminal && is_meant;
                let has_pipe = attached.input.is_some() && !attached.is_terminal;
                if is_meant && has_pipe { Typed::EndOfInput } else { Typed::Nothing }
            }
            Err(_) => {
                self.is_open = false;
                Typed::Nothing
            }
        }
    }

    fn write(&mut self, attached: &mut Attached) {
        let Some(input) = &attached.input else { return self.waiting.clear() };
        while !self.waiting.is_empty() {
            match rustix::io::write(input, &self.waiting) {
                Ok(written) => {
                    self.waiting.drain(..written);
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                // It has closed its end, or is gone.
                Err(_) => return self.let_go(attached),
            }
        }
    }
}

fn is_readable() -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// The latest presses of the key.
#[derive(Debug, Default)]
struct Presses {
    at: Vec<Instant>,
}

impl Presses {
    /// Whether these keys are the last ones.
    fn leave(&mut self, keys: &[u8], now: Instant) -> bool {
        for key in keys {
            if *key != KEY {
                self.at.clear();
                continue;
            }
            self.at.push(now);
            self.at.retain(|at| now.duration_since(*at) <= WITHIN);
            if self.at.len() >= TIMES {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_presses_in_a_row_within_a_second_leave() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut presses = Presses::default();
        assert!(presses.leave(b"\x1d\x1d\x1d", start), "at once");
        let mut presses = Presses::default();
        assert!(!presses.leave(b"x\x1d", start) && !presses.leave(b"\x1d", after(400)));
        assert!(presses.leave(b"\x1d", after(900)), "one after the other");
        let mut presses = Presses::default();
        assert!(!presses.leave(b"\x1d\x1d", start) && !presses.leave(b"\x1d", after(1500)), "too slow");
        let mut presses = Presses::default();
        assert!(!presses.leave(b"\x1d\x1dx\x1d", start), "something between them");
    }
}
