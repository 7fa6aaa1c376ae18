//! Many channels in one stream. Pure: bytes in, events out, and the bytes to be sent.
//!
//! In each direction of a channel no more than `WINDOW` bytes are on their way or wait to be taken. Whoever takes them gives credit for
//! more. So a channel that nobody reads holds up nothing but itself, and whoever sends beyond its credit is ended.
//!
//! A channel is over when both sides have sent `End`, as far as each may send anything. Its number is never used again.

use std::collections::BTreeMap;

use super::StreamError;
use super::frame::{Direction, Frame, HEADER_LENGTH, LARGEST_BODY, Purpose};

/// The most bytes of one direction of a channel that nobody has taken yet.
pub const WINDOW: u32 = 64 << 10;
/// The most channels that one side has open at a time.
pub const MOST_CHANNELS: usize = 256;
/// The most bytes that are taken in before they are looked at.
pub const MOST_INCOMING: usize = WINDOW as usize;
/// No more data is taken to be sent while this much waits.
const ENOUGH_UNSENT: usize = 256 << 10;
/// Nothing more is read while this much waits to be sent. All that can be owed without reading fits between the two.
const MOST_UNSENT: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opens sessions, and has the odd numbers.
    Client,
    Keeper,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Opened(u32, Purpose),
    /// To be answered with `taken` once the bytes are where they belong.
    Data(u32, Vec<u8>),
    /// No more data comes.
    Ended(u32),
    /// No more data is wanted; to be answered with `end`.
    Unwanted(u32),
}

#[derive(Debug)]
pub struct Mux {
    side: Side,
    has_greeted: bool,
    /// The number of the next channel that we open; none is left after the last.
    next: Option<u32>,
    /// The latest that the other side opened.
    latest: u32,
    channels: BTreeMap<u32, Lane>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

#[derive(Debug)]
struct Lane {
    /// What we may still send; nothing if it is not ours to send, or we have ended.
    credit: Option<u32>,
    /// What the other side may still send; nothing if it may not, or has ended.
    window: Option<u32>,
    /// Taken, and no credit given for it yet.
    owed: u32,
    is_wanted: bool,
}

impl Lane {
    fn new(sends: bool, receives: bool) -> Self {
        Self { credit: sends.then_some(WINDOW), window: receives.then_some(WINDOW), owed: 0, is_wanted: true }
    }

    fn is_over(&self) -> bool {
        self.credit.is_none() && self.window.is_none()
    }
}

impl Mux {
    #[must_use]
    pub fn new(side: Side) -> Self {
        let mut mux = Self {
            side,
            has_greeted: false,
            next: Some(if side == Side::Client { 1 } else { 2 }),
            latest: 0,
            channels: BTreeMap::new(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
        };
        mux.say(Frame::Hello);
        mux
    }

    /// Whether another channel can be opened now.
    #[must_use]
    pub fn can_open(&self) -> bool {
        self.next.is_some() && self.channels.keys().filter(|channel| self.is_ours(**channel)).count() < MOST_CHANNELS
    }

    pub fn open(&mut self, purpose: Purpose) -> Option<u32> {
        let channel = self.next.filter(|_| self.can_open())?;
        self.next = channel.checked_add(2);
        let (reads, writes) = uses(purpose);
        self.channels.insert(channel, Lane::new(reads, writes));
        self.say(Frame::Open(channel, purpose));
        Some(channel)
    }

    /// How much can be sent on a channel now.
    #[must_use]
    pub fn room(&self, channel: u32) -> usize {
        let credit = self.channels.get(&channel).and_then(|lane| lane.credit).unwrap_or(0) as usize;
        if self.outgoing.len() < ENOUGH_UNSENT { credit.min(LARGEST_BODY) } else { 0 }
    }

    /// Sends no more than there is room for; says how much that was.
    pub fn send(&mut self, channel: u32, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.room(channel));
        if let Some(credit) = self.channels.get_mut(&channel).and_then(|lane| lane.credit.as_mut()).filter(|_| length > 0) {
            *credit -= length as u32;
            self.say(Frame::Data(channel, &bytes[..length]));
        }
        length
    }

    /// So many bytes are where they belong.
    pub fn taken(&mut self, channel: u32, bytes: usize) {
        let Some(lane) = self.channels.get_mut(&channel) else { return };
        let Some(window) = lane.window.as_mut().filter(|_| lane.is_wanted) else { return };
        lane.owed = lane.owed.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX)).min(WINDOW - *window);
        if lane.owed >= WINDOW / 2 {
            *window += lane.owed;
            let credit = std::mem::take(&mut lane.owed);
            self.say(Frame::Credit(channel, credit));
        }
    }

    /// No more data follows.
    pub fn end(&mut self, channel: u32) {
        if self.channels.get_mut(&channel).is_some_and(|lane| lane.credit.take().is_some()) {
            self.say(Frame::End(channel));
            self.forget_if_over(channel);
        }
    }

    /// No more data is wanted. What comes all the same is dropped.
    pub fn refuse(&mut self, channel: u32) {
        let wanted = self.channels.get_mut(&channel).filter(|lane| lane.window.is_some() && lane.is_wanted);
        if let Some(lane) = wanted {
            lane.is_wanted = false;
            self.say(Frame::Unwanted(channel));
        }
    }

    /// The last thing that is said.
    pub fn say_goodbye(&mut self, why: &StreamError) {
        self.say(Frame::Goodbye(&why.to_string()));
    }

    /// Whether more may be read from the stream: not while the other side does not read what we have to say.
    #[must_use]
    pub fn may_read(&self) -> bool {
        self.outgoing.len() < MOST_UNSENT
    }

    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    pub fn has_sent(&mut self, bytes: usize) {
        self.outgoing.drain(..bytes.min(self.outgoing.len()));
    }

    /// Takes bytes of the stream, to be followed by `next_event` until there is none.
    pub fn take_in(&mut self, bytes: &[u8]) {
        self.incoming.extend_from_slice(bytes);
    }

    /// What has arrived, frame by frame. After an error there is nothing more to expect.
    pub fn next_event(&mut self) -> Result<Option<Event>, StreamError> {
        let incoming = std::mem::take(&mut self.incoming);
        let mut at = 0;
        let event = loop {
            match Frame::parse(&incoming[at..]) {
                Ok(Some((frame, length))) => {
                    at += length;
                    match self.understand(frame) {
                        Ok(None) => {}
                        Ok(Some(event)) => break Ok(Some(event)),
                        Err(error) => break Err(error),
                    }
                }
                Ok(None) => break Ok(None),
                Err(error) => break Err(if self.has_greeted { error } else { as_stranger(error) }),
            }
        };
        self.incoming = incoming;
        self.incoming.drain(..at);
        event
    }

    /// What is held in memory for the stream, apart from what waits to be sent. It is bounded by one read and one frame.
    #[must_use]
    pub fn held(&self) -> usize {
        self.incoming.len()
    }

    fn understand(&mut self, frame: Frame<'_>) -> Result<Option<Event>, StreamError> {
        match frame {
            Frame::Hello if !self.has_greeted => {
                self.has_greeted = true;
                Ok(None)
            }
            Frame::Goodbye(why) => Err(StreamError::Told(why.to_owned())),
            Frame::Hello => Err(StreamError::NotAStream),
            _ if !self.has_greeted => Err(StreamError::NotAStream),
            Frame::Open(channel, purpose) => self.opened(channel, purpose).map(Some),
            Frame::Data(channel, bytes) => self.received(channel, bytes),
            Frame::End(channel) => {
                let lane = self.channels.get_mut(&channel).ok_or(StreamError::NotOpen(channel))?;
                lane.window.take().ok_or(StreamError::NotOpen(channel))?;
                self.forget_if_over(channel);
                Ok(Some(Event::Ended(channel)))
            }
            Frame::Credit(channel, bytes) => {
                let Some(lane) = self.find_or_past(channel)? else { return Ok(None) };
                if let Some(credit) = &mut lane.credit {
                    let more = credit.checked_add(bytes).filter(|credit| *credit <= WINDOW);
                    *credit = more.ok_or(StreamError::OverCredit(channel))?;
                }
                Ok(None)
            }
            Frame::Unwanted(channel) => {
                let sends = self.find_or_past(channel)?.is_some_and(|lane| lane.credit.is_some());
                Ok(sends.then_some(Event::Unwanted(channel)))
            }
        }
    }

    fn opened(&mut self, channel: u32, purpose: Purpose) -> Result<Event, StreamError> {
        if self.is_ours(channel) || channel <= self.latest {
            return Err(StreamError::OutOfOrder(channel));
        }
        if purpose == Purpose::Session && self.side == Side::Client {
            return Err(StreamError::OutOfOrder(channel));
        }
        if self.channels.keys().filter(|channel| !self.is_ours(**channel)).count() >= MOST_CHANNELS {
            return Err(StreamError::TooManyChannels);
        }
        self.latest = channel;
        let (reads, writes) = uses(purpose);
        self.channels.insert(channel, Lane::new(writes, reads));
        Ok(Event::Opened(channel, purpose))
    }

    fn received(&mut self, channel: u32, bytes: &[u8]) -> Result<Option<Event>, StreamError> {
        let lane = self.channels.get_mut(&channel).ok_or(StreamError::NotOpen(channel))?;
        let window = lane.window.as_mut().ok_or(StreamError::NotOpen(channel))?;
        *window = window.checked_sub(bytes.len() as u32).ok_or(StreamError::OverCredit(channel))?;
        Ok(lane.is_wanted.then(|| Event::Data(channel, bytes.to_vec())))
    }

    /// What the other side says of a channel may have crossed with its end.
    fn find_or_past(&mut self, channel: u32) -> Result<Option<&mut Lane>, StreamError> {
        let was_open = if self.is_ours(channel) { self.next.is_none_or(|next| channel < next) } else { channel <= self.latest };
        if was_open { Ok(self.channels.get_mut(&channel)) } else { Err(StreamError::NotOpen(channel)) }
    }

    fn forget_if_over(&mut self, channel: u32) {
        if self.channels.get(&channel).is_some_and(Lane::is_over) {
            self.channels.remove(&channel);
        }
    }

    fn is_ours(&self, channel: u32) -> bool {
        (channel % 2 == 1) == (self.side == Side::Client)
    }

    fn say(&mut self, frame: Frame<'_>) {
        self.outgoing.reserve(HEADER_LENGTH);
        frame.write_to(&mut self.outgoing);
    }
}

/// Whether the one to whom it is opened reads, and whether it writes.
fn uses(purpose: Purpose) -> (bool, bool) {
    match purpose {
        Purpose::Session | Purpose::Passed { direction: Direction::Both, .. } => (true, true),
        Purpose::Passed { direction: Direction::Reads, .. } => (true, false),
        Purpose::Passed { direction: Direction::Writes, .. } => (false, true),
    }
}

/// Whoever did not even greet is something else.
fn as_stranger(error: StreamError) -> StreamError {
    match error {
        StreamError::OtherVersion(_) => error,
        _ => StreamError::NotAStream,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carry(from: &mut Mux, to: &mut Mux) -> Vec<Event> {
        to.take_in(from.outgoing());
        from.has_sent(usize::MAX);
        std::iter::from_fn(|| to.next_event().unwrap()).collect()
    }

    /// Moves all that either has to say to the other; what each heard.
    fn exchange(a: &mut Mux, b: &mut Mux) -> (Vec<Event>, Vec<Event>) {
        let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
        while !a.outgoing().is_empty() || !b.outgoing().is_empty() {
            at_b.extend(carry(a, b));
            at_a.extend(carry(b, a));
        }
        (at_a, at_b)
    }

    fn pair() -> (Mux, Mux) {
        let (mut client, mut keeper) = (Mux::new(Side::Client), Mux::new(Side::Keeper));
        assert_eq!(exchange(&mut client, &mut keeper), (vec![], vec![]));
        (client, keeper)
    }

    fn heard(mux: &mut Mux, frames: &[Frame<'_>]) -> StreamError {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write_to(&mut bytes));
        mux.take_in(&bytes);
        loop {
            match mux.next_event() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("nothing is wrong with {frames:?}"),
                Err(error) => return error,
            }
        }
    }

    #[test]
    fn a_channel_that_nobody_reads_holds_up_itself_only() {
        let (mut client, mut keeper) = pair();
        let [slow, quick] = [(); 2].map(|()| client.open(Purpose::Session).unwrap());
        exchange(&mut client, &mut keeper);
        let (mut into_slow, mut into_quick) = (0, 0);
        for _ in 0..1000 {
            into_slow += client.send(slow, &[1; LARGEST_BODY]);
            into_quick += client.send(quick, &[2; LARGEST_BODY]);
            for event in exchange(&mut client, &mut keeper).1 {
                match event {
                    Event::Data(channel, bytes) if channel == quick => keeper.taken(channel, bytes.len()),
                    other => assert!(matches!(other, Event::Data(channel, _) if channel == slow)),
                }
            }
            exchange(&mut client, &mut keeper);
        }
        assert_eq!((into_slow, into_quick), (WINDOW as usize, 1000 * LARGEST_BODY));
    }

    #[test]
    fn a_channel_is_over_when_both_sides_have_ended_it_and_its_number_is_not_used_again() {
        let (mut client, mut keeper) = pair();
        let first = client.open(Purpose::Session).unwrap();
        client.end(first);
        assert_eq!(exchange(&mut client, &mut keeper).1, [Event::Opened(first, Purpose::Session), Event::Ended(first)]);
        assert_eq!(keeper.send(first, b"still"), 5);
        keeper.end(first);
        assert_eq!(exchange(&mut client, &mut keeper).0, [Event::Data(first, b"still".to_vec()), Event::Ended(first)]);
        assert!(client.channels.is_empty() && keeper.channels.is_empty());
        assert_ne!(client.open(Purpose::Session), Some(first));
        assert_eq!(keeper.send(first, b"late"), 0);
    }

    #[test]
    fn what_is_not_wanted_is_dropped_until_its_end() {
        let (mut client, mut keeper) = pair();
        let session = client.open(Purpose::Session).unwrap();
        exchange(&mut client, &mut keeper);
        let output = keeper.open(Purpose::Passed { session, direction: Direction::Reads }).unwrap();
        exchange(&mut client, &mut keeper);
        keeper.send(output, b"on its way");
        client.refuse(output);
        assert_eq!(exchange(&mut client, &mut keeper), (vec![], vec![Event::Unwanted(output)]));
        keeper.end(output);
        assert_eq!(exchange(&mut client, &mut keeper).0, [Event::Ended(output)]);
        assert!(!client.channels.contains_key(&output) && !keeper.channels.contains_key(&output));
    }

    #[test]
    fn each_side_opens_so_many_and_no_more() {
        let (mut client, mut keeper) = pair();
        let opened: Vec<_> = std::iter::from_fn(|| client.open(Purpose::Session)).collect();
        assert_eq!(opened.len(), MOST_CHANNELS);
        exchange(&mut client, &mut keeper);
        let session = opened[0];
        assert!(keeper.open(Purpose::Passed { session, direction: Direction::Both }).is_some(), "it has numbers of its own");
        exchange(&mut client, &mut keeper);
        let error = heard(&mut keeper, &[Frame::Open(opened[MOST_CHANNELS - 1] + 2, Purpose::Session)]);
        assert!(matches!(error, StreamError::TooManyChannels));
    }

    #[test]
    fn whoever_breaks_the_rules_is_told_which() {
        let open = Frame::Open(1, Purpose::Session);
        let full = [7; LARGEST_BODY];
        let data = Frame::Data(1, &full);
        for (frames, expected) in [
            (vec![Frame::Data(1, b"x")], "the other side spoke of channel 1, which is not open"),
            (vec![Frame::Credit(1, 1)], "the other side spoke of channel 1, which is not open"),
            (vec![open, Frame::End(1), Frame::End(1)], "the other side spoke of channel 1, which is not open"),
            (vec![open, Frame::End(1), data], "the other side spoke of channel 1, which is not open"),
            (vec![open, Frame::Credit(1, 1)], "the other side sent more on channel 1 than it may"),
            (vec![open, open], "the other side opened channel 1 out of order"),
            (vec![Frame::Open(2, Purpose::Session)], "the other side opened channel 2 out of order"),
            (vec![open, data, data, data, data, data], "the other side sent more on channel 1 than it may"),
            (vec![Frame::Hello], "the other side does not speak the keeper's stream"),
            (vec![Frame::Goodbye("it is late")], "the other side ended the stream: it is late"),
        ] {
            let (_, mut keeper) = pair();
            assert_eq!(heard(&mut keeper, &frames).to_string(), expected, "{frames:?}");
        }
        let (mut client, _) = pair();
        let error = heard(&mut client, &[Frame::Open(2, Purpose::Session)]);
        assert!(matches!(error, StreamError::OutOfOrder(2)), "a keeper opens no session");
        let error = heard(&mut Mux::new(Side::Keeper), &[open]);
        assert!(matches!(error, StreamError::NotAStream), "it did not greet");
    }
}
