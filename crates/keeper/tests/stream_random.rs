//! Random and mutated input to either end of a stream: nothing panics, nothing grows beyond its bound, and what two ends that keep to
//! the rules send each other arrives whole and in order, whatever the sizes in which the bytes travel.
//!
//! `WHATIF_RANDOM=N` for so many rounds, `WHATIF_SEED=N` for others.

use std::collections::BTreeMap;

use whatif_keeper::stream::frame::{Direction, Frame, HEADER_LENGTH, LARGEST_BODY, Purpose};
use whatif_keeper::stream::mux::{Event, MOST_CHANNELS, MOST_INCOMING, Mux, Side, WINDOW};

/// Splitmix64.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).expect("it is below a usize")
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Frames that make sense by themselves, in an order that need not.
fn frames(generator: &mut Generator) -> Vec<u8> {
    let mut bytes = Vec::new();
    if generator.below(20) > 0 {
        Frame::Hello.write_to(&mut bytes);
    }
    for _ in 0..generator.below(60) {
        let channel = 1 + generator.below(12) as u32;
        let body = vec![generator.next().to_le_bytes()[0]; 1 + generator.below(LARGEST_BODY)];
        let direction = [Direction::Reads, Direction::Writes, Direction::Both][generator.below(3)];
        match generator.below(9) {
            0..3 => Frame::Open(channel, Purpose::Session),
            3 => Frame::Open(channel, Purpose::Passed { session: 1 + generator.below(9) as u32, direction }),
            4..6 => Frame::Data(channel, &body),
            6 => Frame::Credit(channel, generator.below(WINDOW as usize + 2) as u32),
            7 => Frame::End(channel),
            _ => Frame::Unwanted(channel),
        }
        .write_to(&mut bytes);
    }
    bytes
}

fn mutate(generator: &mut Generator, bytes: &mut Vec<u8>) {
    for _ in 0..generator.below(4) {
        let at = generator.below(bytes.len());
        let byte = generator.next().to_le_bytes()[0];
        match generator.below(5) {
            _ if bytes.is_empty() => bytes.push(byte),
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            3 => bytes[at] ^= 1 << generator.below(8),
            _ => bytes[at] = byte,
        }
    }
}

#[test]
fn whatever_arrives_is_understood_or_refused_within_bounds() {
    let mut generator = Generator(number("WHATIF_SEED", 7));
    let (mut refused, mut understood) = (0_u64, 0_u64);
    for _ in 0..number("WHATIF_RANDOM", 1000) {
        let mut bytes = frames(&mut generator);
        mutate(&mut generator, &mut bytes);
        let mut mux = Mux::new(if generator.below(2) == 0 { Side::Client } else { Side::Keeper });
        let mut waiting: BTreeMap<u32, usize> = BTreeMap::new();
        let mut rest = bytes.as_slice();
        'stream: while !rest.is_empty() {
            let (now, later) = rest.split_at((1 + generator.below(MOST_INCOMING)).min(rest.len()));
            rest = later;
            mux.take_in(now);
            loop {
                match mux.next_event() {
                    Ok(None) => break,
                    Ok(Some(event)) => {
                        understood += 1;
                        if let Event::Data(channel, bytes) = event {
                            let held = waiting.entry(channel).or_default();
                            *held += bytes.len();
                            assert!(*held <= WINDOW as usize, "more than a window of channel {channel} waits");
                            if generator.below(3) == 0 {
                                mux.taken(channel, std::mem::take(held));
                            }
                        }
                    }
                    Err(error) => {
                        refused += 1;
                        mux.say_goodbye(&error);
                        break 'stream;
                    }
                }
            }
            assert!(mux.held() < HEADER_LENGTH + LARGEST_BODY, "no more than part of a frame stays");
            assert!(mux.outgoing().len() < 1 << 20);
        }
    }
    assert!(refused > 0 && understood > 0, "{refused} were refused, {understood} events understood");
}

/// What one end has sent on a channel and the other has got.
#[derive(Default)]
struct Told {
    sent: u64,
    got: u64,
    ended: bool,
    heard_end: bool,
}

fn byte_at(channel: u32, at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(u64::from(channel)) >> 56) as u8
}

/// Two ends, the bytes between them, and for each direction of each channel what went in and what came out.
struct Pair {
    ends: [Mux; 2],
    between: [Vec<u8>; 2],
    told: [BTreeMap<u32, Told>; 2],
    /// What arrived at an end and was not taken.
    waiting: [BTreeMap<u32, usize>; 2],
    sessions: Vec<u32>,
}

impl Pair {
    fn step(&mut self, generator: &mut Generator) {
        let from = generator.below(2);
        match generator.below(8) {
            0 => self.open(from, generator),
            1..4 => {
                let channels: Vec<_> =
                    self.told[from].iter().filter(|(_, told)| !told.ended).map(|(channel, _)| *channel).collect();
                if channels.is_empty() {
                    return;
                }
                let channel = channels[generator.below(channels.len())];
                let told = self.told[from].get_mut(&channel).expect("it is there");
                let wanted = (0..generator.below(40_000) as u64).map(|n| byte_at(channel, told.sent + n)).collect::<Vec<_>>();
                told.sent += self.ends[from].send(channel, &wanted) as u64;
                if generator.below(50) == 0 {
                    told.ended = true;
                    self.ends[from].end(channel);
                }
            }
            4 => {
                let Some((channel, bytes)) = self.waiting[from].pop_first() else { return };
                self.ends[from].taken(channel, bytes);
            }
            _ => self.travel(from, 1 + generator.below(50_000)),
        }
    }

    fn open(&mut self, from: usize, generator: &mut Generator) {
        let direction = [Direction::Reads, Direction::Writes, Direction::Both][generator.below(3)];
        let session = self.sessions.get(generator.below(self.sessions.len())).copied();
        let (purpose, direction) = match session {
            Some(session) if from == 1 || generator.below(2) == 0 => (Purpose::Passed { session, direction }, direction),
            None if from == 1 => return,
            _ => (Purpose::Session, Direction::Both),
        };
        let Some(channel) = self.ends[from].open(purpose) else { return };
        if purpose == Purpose::Session {
            self.sessions.push(channel);
        }
        if direction != Direction::Writes {
            self.told[from].insert(channel, Told::default());
        }
        if direction != Direction::Reads {
            // The other end sends once it knows of it.
            self.told[1 - from].insert(channel, Told { ended: true, ..Told::default() });
        }
    }

    /// Some bytes leave an end and reach the other.
    fn travel(&mut self, from: usize, bytes: usize) {
        let outgoing = self.ends[from].outgoing();
        let length = outgoing.len().min(bytes);
        self.between[from].extend_from_slice(&outgoing[..length]);
        self.ends[from].has_sent(length);
        let to = 1 - from;
        self.ends[to].take_in(&std::mem::take(&mut self.between[from]));
        while let Some(event) = self.ends[to].next_event().expect("both keep to the rules") {
            match event {
                Event::Opened(channel, _) => {
                    if let Some(told) = self.told[to].get_mut(&channel) {
                        told.ended = false;
                    }
                }
                Event::Data(channel, bytes) => {
                    let told = self.told[from].get_mut(&channel).expect("it was sent");
                    for byte in &bytes {
                        assert_eq!(*byte, byte_at(channel, told.got), "channel {channel} at {}", told.got);
                        told.got += 1;
                    }
                    *self.waiting[to].entry(channel).or_default() += bytes.len();
                }
                Event::Ended(channel) => self.told[from].get_mut(&channel).expect("it was there").heard_end = true,
                Event::Unwanted(_) => panic!("everything is wanted"),
            }
        }
    }
}

#[test]
fn what_two_ends_say_arrives_whole_and_in_order() {
    for round in 0..number("WHATIF_RANDOM", 1000).div_ceil(100) {
        let mut generator = Generator(number("WHATIF_SEED", 7) + round);
        let mut pair = Pair {
            ends: [Mux::new(Side::Client), Mux::new(Side::Keeper)],
            between: Default::default(),
            told: Default::default(),
            waiting: Default::default(),
            sessions: Vec::new(),
        };
        pair.travel(0, usize::MAX);
        pair.travel(1, usize::MAX);
        for _ in 0..3000 {
            pair.step(&mut generator);
            assert!(pair.ends.iter().all(|end| end.outgoing().len() < 512 << 10));
        }
        for _ in 0..4 {
            for from in 0..2 {
                pair.travel(from, usize::MAX);
                for (channel, bytes) in std::mem::take(&mut pair.waiting[from]) {
                    pair.ends[from].taken(channel, bytes);
                }
                let open: Vec<_> = pair.told[from].iter_mut().filter(|(_, told)| !told.ended).collect();
                for (channel, told) in open {
                    told.ended = true;
                    pair.ends[from].end(*channel);
                }
            }
        }
        let all = pair.told.iter().flat_map(BTreeMap::values);
        assert!(all.clone().all(|told| told.sent == told.got && told.heard_end), "round {round}");
        assert!(all.map(|told| told.sent).sum::<u64>() > 0);
        let free = std::iter::from_fn(|| pair.ends[0].open(Purpose::Session)).count();
        assert_eq!(free, MOST_CHANNELS, "all of them are over");
    }
}
