//! Attached to a command that runs on its own: its output comes out here, what is typed goes in, and leaving ends nothing.

mod keyboard;
mod screen;

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use whatif_engine::EngineError;
use whatif_engine::lifecycle::attach::{Attached, News};
use whatif_engine::lifecycle::logs::Part;

use self::keyboard::{Keyboard, Typed};
use self::screen::Screen;
use super::{failed, terminal};
use crate::output::{Output, Style};

/// Signals that mean the command.
const FORWARDED: [Signal; 4] = [Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2];
/// Those that mean us.
const LEAVING: [Signal; 2] = [Signal::TERM, Signal::HUP];

/// What became of being attached.
#[derive(Debug)]
pub struct Seen {
    /// `None` if the command has ended.
    pub left: Option<Left>,
    /// Which part of the output was asked for, and up to where it is known.
    pub from: u64,
    pub to: u64,
    /// What of it was gone.
    pub gaps: Vec<Range<u64>>,
    /// In JSON mode: what came.
    pub kept: Vec<u8>,
    pub is_truncated: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Left {
    ByKey,
    BySignal(i32),
}

/// Stays until the command has ended and all of its output is out, or until it is left. With `ends_input`, the end of our input is
/// the end of the command's.
pub fn attend(attached: &mut Attached, ends_input: bool, output: &Output) -> Result<Seen, EngineError> {
    // A command that has closed its input is no reason to end.
    let others = [Signal::WINCH, Signal::PIPE];
    let numbers: Vec<i32> = FORWARDED.iter().chain(&LEAVING).chain(&others).map(|s| s.as_raw()).collect();
    let signals = whatif_sys::signals::as_descriptor(&numbers).map_err(|e| failed("watch for signals", e))?;
    let keyboard = Keyboard::new(attached, ends_input).map_err(|e| failed("use the terminal", e))?;
    if let Some(master) = attached.input.as_ref().filter(|_| attached.is_terminal) {
        terminal::copy_size(master);
        // What is kept of its output may begin in the middle of a picture.
        terminal::redraw(master);
    }
    let from = attached.offset();
    let mut session = Session { signals, keyboard, screen: Screen::new(output.json), gaps: Vec::new(), is_dry: false };
    let left = session.run(attached, output)?;
    // What was read and is not out counts as not seen.
    let to = attached.offset() - session.screen.waiting() as u64;
    let Screen { kept, is_truncated, .. } = session.screen;
    Ok(Seen { left, from, to, gaps: session.gaps, kept, is_truncated })
}

struct Session {
    signals: OwnedFd,
    keyboard: Keyboard,
    screen: Screen,
    gaps: Vec<Range<u64>>,
    /// There is no more output than was read, until the keeper says so.
    is_dry: bool,
}

impl Session {
    fn run(&mut self, attached: &mut Attached, output: &Output) -> Result<Option<Left>, EngineError> {
        loop {
            if self.screen.waiting() == 0 && self.is_dry && attached.is_over() {
                return Ok(None);
            }
            if self.screen.waiting() == 0 && !self.is_dry {
                self.read(attached, output)?;
            }
            let has_news = self.wait(attached).map_err(|e| failed("wait for the command", e))?;
            if let Some(left) = self.take_signals(attached)? {
                return Ok(Some(left));
            }
            match self.keyboard.work(attached) {
                Typed::Nothing => {}
                Typed::EndOfInput => attached.close_input()?,
                Typed::Leave => return Ok(Some(Left::ByKey)),
            }
            match self.screen.write() {
                Ok(true) => attached.has_taken(attached.offset())?,
                Ok(false) => {}
                Err(rustix::io::Errno::PIPE) => return Ok(Some(Left::BySignal(Signal::PIPE.as_raw()))),
                Err(errno) => return Err(failed("write the output", errno)),
            }
            if has_news {
                match attached.hear()? {
                    News::InputClosed => self.keyboard.let_go(attached),
                    News::Output => self.is_dry = false,
                }
            }
        }
    }

    /// The next part of the output.
    fn read(&mut self, attached: &mut Attached, output: &Output) -> Result<(), EngineError> {
        match attached.next(self.screen.room())? {
            Some(Part::Output(length)) => self.screen.is_filled(length),
            Some(Part::Dropped(length)) => {
                let gap = attached.offset() - length..attached.offset();
                let note = format!("[whatif: bytes {} to {} of the output were dropped]", gap.start, gap.end);
                output.note(output.paint_note(Style::Yellow, note));
                self.gaps.push(gap);
                attached.has_taken(attached.offset())?;
            }
            None => self.is_dry = true,
        }
        Ok(())
    }

    /// True when the keeper has something to say.
    fn wait(&self, attached: &Attached) -> rustix::io::Result<bool> {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let keeper = attached.as_fd();
        fds.extend(keeper.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(self.keyboard.poll_fds(attached));
        fds.extend(self.screen.poll_fd());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let has_work = attached.has_news() || (self.screen.waiting() == 0 && (!self.is_dry || attached.is_over()));
        match poll(&mut fds, has_work.then_some(&now)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(attached.has_news() || (keeper.is_some() && fds.get(1).is_some_and(|fd| !fd.revents().is_empty())))
    }

    fn take_signals(&self, attached: &mut Attached) -> Result<Option<Left>, EngineError> {
        for number in whatif_sys::signals::take(&self.signals) {
            let is = |signal: &Signal| signal.as_raw() == number;
            // Nobody is there to forward it to once the command has ended.
            if LEAVING.iter().any(is) || (attached.is_over() && FORWARDED.iter().any(is)) {
                return Ok(Some(Left::BySignal(number)));
            }
            if FORWARDED.iter().any(is) {
                attached.signal(number)?;
            }
            if let Some(master) = attached.input.as_ref().filter(|_| is(&Signal::WINCH) && attached.is_terminal) {
                terminal::copy_size(master);
            }
        }
        Ok(None)
    }
}
