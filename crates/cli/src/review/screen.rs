//! The terminal while it is ours. However we end, it is given back as it was.

use std::io::{self, Stdout, stdout};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

/// Set while there is something to give back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

pub type Ours = Terminal<CrosstermBackend<Stdout>>;

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Typed,
    Nothing,
    /// Nobody is at the other end of the terminal any more.
    Gone,
}

/// Gives the terminal back when dropped.
#[derive(Debug)]
pub struct Screen {
    pub terminal: Ours,
    signals: OwnedFd,
    mouse: bool,
}

impl Screen {
    pub fn take(mouse: bool) -> io::Result<Self> {
        // Blocked and read, so that the loop can end as it does after `q`.
        let ending = [Signal::HUP, Signal::INT, Signal::TERM, Signal::QUIT].map(Signal::as_raw);
        let signals = whatif_sys::signals::as_descriptor(&ending)?;
        // The release build ends at once on a panic, without dropping anything.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        enter(mouse)?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout()));
        // From here on dropping does it.
        Ok(Self { terminal: terminal.inspect_err(|_| give_back())?, signals, mouse })
    }

    /// Waits for something typed. The library must not do that: with nobody at the other end of the terminal it never returns.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> Heard {
        let stdin = std::io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let _ = poll(&mut fds, Some(&timeout));
        let typed = fds[0].revents();
        if typed.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            Heard::Gone
        } else if typed.contains(PollFlags::IN) {
            Heard::Typed
        } else {
            Heard::Nothing
        }
    }

    /// The signal that asks us to end, if one came.
    #[must_use]
    pub fn ending_signal(&self) -> Option<i32> {
        whatif_sys::signals::take(&self.signals).first().copied()
    }

    /// Stops as other programs do on ^Z, until somebody continues us.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?;
        enter(self.mouse)?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter(mouse: bool) -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::SeqCst);
    let entered = enable_raw_mode().and_then(|()| execute!(stdout(), EnterAlternateScreen));
    let entered = if mouse { entered.and_then(|()| execute!(stdout(), EnableMouseCapture)) } else { entered };
    entered.inspect_err(|_| give_back())
}

fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // Nothing can be done about a terminal that is gone; the rest is tried all the same.
        // Cleared first: after a change of size some terminals mix up the two screens.
        let _ = execute!(stdout(), DisableMouseCapture, Clear(ClearType::All), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
