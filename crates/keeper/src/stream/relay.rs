//! Joins the channels of a stream with descriptors on this side: connections, and what is passed with their frames.
//!
//! Nothing here waits. What cannot be moved now stays where it is: in its pipe or socket, or in the window of its channel.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::StreamError;
use super::frame::{Direction, LARGEST_BODY, Purpose};
pub use super::local::Sharing;
use super::local::{Local, Read, sockets};
use super::mux::{Event, MOST_INCOMING, Mux, Side};

/// Of one channel at a time, so that others have their turn.
const FRAMES_AT_ONCE: usize = 4;

#[derive(Debug)]
pub struct Relay {
    input: OwnedFd,
    output: OwnedFd,
    mux: Mux,
    locals: BTreeMap<u32, Local>,
    /// The other ends of sessions that the other side began.
    begun: VecDeque<OwnedFd>,
    sharing: Sharing,
    /// Whose turn it is first.
    turn: u32,
    over: Option<StreamError>,
}

/// What is waited for.
enum Awaited {
    Input,
    Output,
    Local(u32),
}

impl Relay {
    /// Over a stream that is read from one descriptor and written to another, which may be the same.
    pub fn new(side: Side, input: OwnedFd, output: OwnedFd, sharing: Sharing) -> Result<Self, StreamError> {
        rustix::io::ioctl_fionbio(&input, true)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let (locals, begun) = (BTreeMap::new(), VecDeque::new());
        Ok(Self { input, output, mux: Mux::new(side), locals, begun, sharing, turn: 0, over: None })
    }

    /// Whether another session can be begun now.
    #[must_use]
    pub fn can_begin(&self) -> bool {
        self.over.is_none() && self.mux.can_open()
    }

    /// Carries a connection of this side to the keeper. A socket that cannot be carried is closed.
    pub fn begin(&mut self, socket: OwnedFd) {
        if let Some(channel) = self.mux.open(Purpose::Session).filter(|_| self.over.is_none()) {
            self.locals.insert(channel, Local::session(socket));
        }
    }

    /// The next connection that the other side began.
    pub fn take_begun(&mut self) -> Option<OwnedFd> {
        self.begun.pop_front()
    }

    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Why nothing more goes through the stream, once that is so.
    #[must_use]
    pub fn over(&self) -> Option<&StreamError> {
        self.over.as_ref()
    }

    /// The same for whoever is done with it.
    #[must_use]
    pub fn into_over(self) -> Option<StreamError> {
        self.over
    }

    /// Whether nothing that arrived has yet to reach somebody on this side.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.begun.is_empty() && !self.locals.values().any(Local::has_inbound)
    }

    /// Whether nobody on this side has anything more to say, and all that was said is sent.
    #[must_use]
    pub fn has_said_all(&self) -> bool {
        self.mux.outgoing().is_empty() && !self.locals.values().any(|local| local.reads)
    }

    #[must_use]
    pub fn poll_fds(&self) -> Vec<PollFd<'_>> {
        self.awaited().into_iter().map(|(_, fd)| fd).collect()
    }

    /// Moves what can be moved now. Whether anything was ready.
    pub fn work(&mut self) -> bool {
        let ready = self.ready();
        let is_ready = !ready.is_empty();
        if self.over.is_none() {
            let moved = self.move_all(&ready);
            self.end_on_error(moved);
        } else {
            self.write_locals();
        }
        is_ready
    }

    fn move_all(&mut self, ready: &[(Awaited, PollFlags)]) -> Result<(), StreamError> {
        self.flush()?;
        if ready.iter().any(|(what, _)| matches!(what, Awaited::Input)) {
            self.read_stream()?;
        }
        // Those after the one who was first the last time come first now.
        let locals =
            || ready.iter().filter_map(|(what, flags)| if let Awaited::Local(n) = what { Some((*n, *flags)) } else { None });
        let after = locals().filter(|(channel, _)| *channel > self.turn).collect::<Vec<_>>();
        let before = locals().filter(|(channel, _)| *channel <= self.turn).collect::<Vec<_>>();
        self.turn = after.first().or(before.first()).map_or(0, |(channel, _)| *channel);
        for (channel, flags) in after.into_iter().chain(before) {
            self.read_local(channel, flags);
        }
        self.write_locals();
        self.flush()
    }

    /// Whatever ended it, those on this side get what has arrived, and the end after it.
    fn end_on_error(&mut self, moved: Result<(), StreamError>) {
        let Err(error) = moved else { return };
        if !matches!(error, StreamError::Closed | StreamError::Io(_) | StreamError::Told(_)) {
            self.mux.say_goodbye(&error);
            // The other side may be past listening.
            let _ = self.flush();
        }
        self.over = Some(error);
        for local in self.locals.values_mut() {
            local.reads = false;
            local.end();
        }
        self.write_locals();
    }

    fn awaited(&self) -> Vec<(Awaited, PollFd<'_>)> {
        let mut awaited = Vec::new();
        if self.over.is_none() {
            if self.mux.may_read() {
                awaited.push((Awaited::Input, PollFd::new(&self.input, PollFlags::IN)));
            }
            if !self.mux.outgoing().is_empty() {
                awaited.push((Awaited::Output, PollFd::new(&self.output, PollFlags::OUT)));
            }
        }
        for (channel, local) in &self.locals {
            let wants_in = local.reads && self.mux.room(*channel) > 0;
            let wants_out = local.writes && local.has_inbound();
            // A writer that nobody reads is noticed at once. One that is also read would be noticed again and again.
            if wants_in || wants_out || (local.writes && !local.reads) {
                let mut wanted = PollFlags::empty();
                wanted.set(PollFlags::IN, wants_in);
                wanted.set(PollFlags::OUT, wants_out);
                awaited.push((Awaited::Local(*channel), PollFd::from_borrowed_fd(local.as_fd(), wanted)));
            }
        }
        awaited
    }

    fn ready(&self) -> Vec<(Awaited, PollFlags)> {
        let (what, mut fds): (Vec<_>, Vec<_>) = self.awaited().into_iter().unzip();
        // What cannot be asked about is looked at the next time.
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        what.into_iter().zip(fds.iter().map(PollFd::revents)).filter(|(_, flags)| !flags.is_empty()).collect()
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        while !self.mux.outgoing().is_empty() {
            match rustix::io::write(&self.output, self.mux.outgoing()) {
                Ok(sent) => self.mux.has_sent(sent),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(StreamError::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn read_stream(&mut self) -> Result<(), StreamError> {
        let mut bytes = [0_u8; MOST_INCOMING];
        match rustix::io::read(&self.input, &mut bytes) {
            Ok(0) | Err(Errno::CONNRESET) => return Err(StreamError::Closed),
            Ok(length) => self.mux.take_in(&bytes[..length]),
            Err(Errno::INTR | Errno::WOULDBLOCK) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        while let Some(event) = self.mux.next_event()? {
            self.see_to(event)?;
        }
        Ok(())
    }

    fn see_to(&mut self, event: Event) -> Result<(), StreamError> {
        match event {
            Event::Opened(channel, Purpose::Session) => match sockets() {
                Ok((ours, theirs)) => {
                    self.locals.insert(channel, Local::session(ours));
                    self.begun.push_back(theirs);
                }
                Err(_) => self.leave(channel),
            },
            Event::Opened(channel, Purpose::Passed { session, direction }) => self.take_passed(channel, session, direction)?,
            Event::Data(channel, bytes) => {
                if let Some(local) = self.locals.get_mut(&channel) {
                    local.put(&bytes);
                }
            }
            Event::Ended(channel) => {
                if let Some(local) = self.locals.get_mut(&channel) {
                    local.end();
                }
                self.close_if_over(channel);
            }
            Event::Unwanted(channel) => {
                if let Some(local) = self.locals.get_mut(&channel) {
                    local.reads = false;
                }
                self.mux.end(channel);
                self.close_if_over(channel);
            }
        }
        Ok(())
    }

    /// Without one of its descriptors a frame would mean something else, so then its session ends.
    fn take_passed(&mut self, channel: u32, session: u32, direction: Direction) -> Result<(), StreamError> {
        let Some(to) = self.locals.get_mut(&session).filter(|local| local.is_session) else {
            self.leave(channel);
            return Ok(());
        };
        match Local::pair_for(direction) {
            Ok((ours, given)) => {
                if !to.pass(given) {
                    return Err(StreamError::TooManyPassed(session));
                }
                self.locals.insert(channel, ours);
            }
            Err(_) => {
                self.leave(channel);
                self.leave(session);
            }
        }
        Ok(())
    }

    fn read_local(&mut self, channel: u32, flags: PollFlags) {
        let mut bytes = [0_u8; LARGEST_BODY];
        for _ in 0..FRAMES_AT_ONCE {
            let room = self.mux.room(channel);
            let Some(local) = self.locals.get_mut(&channel) else { return };
            if !local.reads {
                // A pipe that nobody reads any more, or a socket that was left in two steps.
                if flags.intersects(PollFlags::ERR | PollFlags::HUP) && !local.has_inbound() {
                    local.give_up();
                    self.mux.refuse(channel);
                    self.close_if_over(channel);
                }
                return;
            }
            if room == 0 {
                return;
            }
            match local.read(&mut bytes[..room]) {
                Read::NotYet => return,
                Read::Some(length, descriptors) => {
                    if !descriptors.into_iter().all(|descriptor| self.pass_on(channel, descriptor)) {
                        return self.leave(channel);
                    }
                    self.mux.send(channel, &bytes[..length]);
                }
                Read::Ended => {
                    // Whoever has left altogether takes nothing either.
                    if local.is_session || flags.contains(PollFlags::HUP) {
                        local.give_up();
                        self.mux.refuse(channel);
                    }
                    if let Some(local) = self.locals.get_mut(&channel) {
                        local.reads = false;
                    }
                    self.mux.end(channel);
                    return self.close_if_over(channel);
                }
            }
        }
    }

    fn pass_on(&mut self, session: u32, descriptor: OwnedFd) -> bool {
        let Ok((local, direction)) = Local::passed(descriptor, self.sharing) else { return false };
        let Some(channel) = self.mux.open(Purpose::Passed { session, direction }) else { return false };
        self.locals.insert(channel, local);
        true
    }

    fn write_locals(&mut self) {
        let mut over = Vec::new();
        for (channel, local) in &mut self.locals {
            match local.write() {
                Ok(0) => {}
                Ok(written) => self.mux.taken(*channel, written),
                Err(_) => {
                    local.give_up();
                    self.mux.refuse(*channel);
                }
            }
            if local.is_over() {
                over.push(*channel);
            }
        }
        over.into_iter().for_each(|channel| self.close_if_over(channel));
    }

    /// Nobody on this side is there for it any more.
    fn leave(&mut self, channel: u32) {
        self.locals.remove(&channel);
        self.mux.refuse(channel);
        self.mux.end(channel);
    }

    fn close_if_over(&mut self, channel: u32) {
        if self.locals.get(&channel).is_some_and(Local::is_over) {
            self.locals.remove(&channel);
        }
    }
}
