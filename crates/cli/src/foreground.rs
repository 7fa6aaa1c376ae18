//! A command in the foreground: its standard streams, its terminal, its signals, its end.
//!
//! Pipes and sockets are handed to the command as they are, and of a file that it reads, a copy in memory. Nothing else is: through a
//! descriptor of a real file or terminal a command could change that file's mode, reopen it for writing, or type into the terminal.
//! Those are copied through pipes, or, for a terminal, through a terminal of the sandbox's own.

pub mod attached;
mod file_input;
mod network;
mod prompt;
mod relay;
mod streams;
mod terminal;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use whatif_engine::{Engine, EngineError, Exited, News, Running, Stdio};

use self::network::Network;
use self::relay::Relay;
pub use self::streams::{Capture, Streams, Wanted};
use self::terminal::RawMode;
pub use self::terminal::{forget_typed, has_piped_input, is_interactive, size};
use crate::output::{self, Output};

/// Signals that mean the command, not us.
const FORWARDED: [Signal; 6] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Of these, those by which the person says that it is enough.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Watches over the command until it ends, and does something else now and then.
pub fn attend(running: &mut Running, streams: Streams, engine: &Engine, output: &Output) -> Result<Exited, EngineError> {
    let is_asked = running.terminal.is_some() && is_interactive();
    let mut network = Network::new(engine, &running.sandbox, is_asked, output);
    let mut numbers: Vec<i32> = FORWARDED.iter().map(|s| s.as_raw()).collect();
    numbers.push(Signal::WINCH.as_raw());
    let signals = whatif_sys::signals::as_descriptor(&numbers).map_err(|e| failed("watch for signals", e))?;
    let (mut relays, file) = (streams.relays, streams.file);
    let raw_mode = match running.terminal.take() {
        Some(master) => {
            relays.extend(terminal::relays(&master, streams.gives_stdin).map_err(|e| failed("use the terminal", e))?);
            Some((RawMode::enter().map_err(|e| failed("use the terminal", e))?, master))
        }
        None => None,
    };
    loop {
        let has_news = wait(engine, running, &signals, &relays, &network)?;
        if !network.is_asking() {
            relays.iter_mut().for_each(Relay::work);
        }
        for number in whatif_sys::signals::take(&signals) {
            if number == Signal::WINCH.as_raw() {
                if let Some((_, master)) = &raw_mode {
                    terminal::copy_size(master);
                }
            } else {
                if network.is_asking() && ENDING.iter().any(|signal| signal.as_raw() == number) {
                    network.stop_asking("interrupted. Nothing more is asked in this run");
                }
                running.signal(number)?;
            }
        }
        if has_news {
            let news = engine.lifecycle.news(running);
            if !matches!(news, Ok(News::NetworkWanted)) {
                network.stop_asking("the command has ended");
            }
            match news? {
                News::NetworkWanted => network.is_wanted(&running.sandbox),
                News::Exited(exited) => {
                    relays.iter_mut().for_each(Relay::drain);
                    let last = relays.iter().filter_map(Relay::last_among_notes).max();
                    if last.is_some_and(|(_, byte)| byte != b'\n') {
                        output::begin_new_line();
                    }
                    if let Some(file) = &file {
                        file.go_on_from_there();
                    }
                    return Ok(*exited);
                }
            }
        }
        let key = network.work(&running.sandbox, output);
        if let Some((_, master)) = &raw_mode {
            if let Some(key) = key {
                terminal::press(master, key);
            }
            if network.gives_screen_back() {
                terminal::redraw(master);
            }
        }
    }
}

/// True when there is news of the command.
fn wait(
    engine: &Engine,
    running: &mut Running,
    signals: &OwnedFd,
    relays: &[Relay],
    network: &Network,
) -> Result<bool, EngineError> {
    let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
    if !network.is_asking() {
        fds.extend(relays.iter().filter_map(Relay::poll_fd));
    }
    fds.extend(network.poll_fds());
    engine.lifecycle.attend(running, &fds, network.deadline())
}

fn failed(action: &'static str, error: impl Into<std::io::Error>) -> EngineError {
    EngineError::io(action, "in the foreground", error.into())
}

/// What the engine is told about the streams, and the descriptors that go with it.
#[must_use]
pub fn passed(streams: &Streams) -> ([Stdio; 3], Vec<BorrowedFd<'_>>) {
    (streams.kinds, streams.passed.iter().map(AsFd::as_fd).collect())
}
