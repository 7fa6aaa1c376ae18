//! Our terminal and the sandbox's.

use std::io::IsTerminal;
use std::os::fd::OwnedFd;

use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    OptionalActions, QueueSelector, SpecialCodeIndex, Termios, Winsize, tcflush, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

use super::relay::{Relay, Sink};

/// Whether there is a person at both ends.
#[must_use]
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Whether our standard input is a pipe, a file or nothing, from which a command can read as it would outside.
#[must_use]
pub fn has_piped_input() -> bool {
    !std::io::stdin().is_terminal()
}

/// Throws away what was typed and not read.
pub fn forget_typed() {
    let _ = tcflush(stdin(), QueueSelector::IFlush);
}

/// Columns and rows of our terminal.
#[must_use]
pub fn size() -> (u16, u16) {
    tcgetwinsize(stdout()).or_else(|_| tcgetwinsize(stdin())).map_or((80, 24), |s| (s.ws_col, s.ws_row))
}

/// Keys go to the sandbox as they are typed, until this is dropped.
pub(super) struct RawMode {
    before: Option<Termios>,
}

impl RawMode {
    pub(super) fn enter() -> rustix::io::Result<Self> {
        let Ok(before) = tcgetattr(stdin()) else { return Ok(Self { before: None }) };
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
        Ok(Self { before: Some(before) })
    }

    /// Keys stay ours, line by line; but this one ends a line, so that it is read at once.
    pub(super) fn enter_lines(key: u8) -> rustix::io::Result<Self> {
        let Ok(before) = tcgetattr(stdin()) else { return Ok(Self { before: None }) };
        let mut lines = before.clone();
        lines.special_codes[SpecialCodeIndex::VEOL] = key;
        tcsetattr(stdin(), OptionalActions::Drain, &lines)?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Drain, before);
        }
    }
}

/// What is typed goes in. A standard input that is no terminal is the caller's, who may have another use for it, unless it was
/// given to the command.
pub(super) fn relays(master: &OwnedFd, gives_stdin: bool) -> std::io::Result<Vec<Relay>> {
    use std::os::fd::AsFd;
    let mut relays = vec![Relay::output(master.try_clone()?, Sink::Descriptor(stdout().as_fd().try_clone_to_owned()?))];
    if gives_stdin || std::io::stdin().is_terminal() {
        relays.push(Relay::input(stdin().try_clone_to_owned()?, master.try_clone()?));
    }
    Ok(relays)
}

/// A key that overtakes those which the program has not read yet.
pub(super) fn press(master: &OwnedFd, key: u8) {
    let _ = rustix::io::write(master, &[key]);
}

/// Lets a program that draws on the whole screen draw it again: to it, the terminal has another size for a moment.
pub(super) fn redraw(master: &OwnedFd) {
    if let Ok(size) = tcgetwinsize(master) {
        let _ = tcsetwinsize(master, Winsize { ws_xpixel: size.ws_xpixel.wrapping_add(1), ..size });
        let _ = tcsetwinsize(master, size);
    }
}

pub(super) fn copy_size(master: &OwnedFd) {
    if let Ok(size) = tcgetwinsize(stdout()) {
        let _ = tcsetwinsize(master, size);
    }
}
