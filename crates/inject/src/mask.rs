//! Crosses secrets out of what a server answers: each byte of one becomes an asterisk, so lengths stay what they were.
//!
//! A secret can be cut anywhere, so the end of what has come is held back. How much, and for how long, never depends on how it
//! compares to a secret: programs inside can have a server repeat their guesses, and would see when one is right. A secret can
//! also be cut by the lines between the chunks of a body, so data and what stands between it are followed separately.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use crate::known::Known;

/// Shorter texts turn up by chance, and crossing them out would tell more than it hides.
const SHORTEST: usize = 8;
/// What is held back is at least this much, and a power of two: its length must not tell that of a secret.
const LEAST_HELD: usize = 256;

/// The texts to be crossed out.
#[derive(Default)]
pub(crate) struct Masks {
    patterns: Vec<Pattern>,
}

struct Pattern {
    text: Zeroizing<Vec<u8>>,
    /// For each length that fits: how much of the beginning still does if the next byte does not.
    shorter: Vec<usize>,
}

/// Where a byte of an answer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// In a head or a body.
    Text,
    /// In what a server adds to chunks: extensions and trailers.
    Aside,
    /// In what says where a chunk ends.
    Frame,
    /// In the payload of a WebSocket message. It is aside as well, as all that a WebSocket carries: a server may speak something
    /// else than it agreed to.
    Message,
}

impl Masks {
    /// For the values themselves and for the forms in which servers usually write them.
    pub(crate) fn of(secrets: &[Known]) -> Self {
        let mut masks = Self::default();
        for known in secrets {
            masks.add(&known.value);
            masks.add(&quoted(&known.value, b"\"\\"));
            masks.add(&quoted(&known.value, b"\"\\/"));
            masks.add(&percent_encoded(&known.value));
        }
        masks
    }

    pub(crate) fn add(&mut self, text: &[u8]) {
        if text.len() >= SHORTEST && self.patterns.iter().all(|known| known.text.as_slice() != text) {
            self.patterns.push(Pattern::new(text));
        }
    }
}

/// As in a JSON string.
fn quoted(text: &[u8], special: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(text.len() * 2));
    for byte in text {
        if special.contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}

/// As in a URL.
fn percent_encoded(text: &[u8]) -> Zeroizing<Vec<u8>> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Zeroizing::new(Vec::with_capacity(text.len() * 3));
    for byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
    out
}

impl Pattern {
    fn new(text: &[u8]) -> Self {
        let mut pattern = Self { text: Zeroizing::new(text.to_vec()), shorter: vec![0; text.len()] };
        let mut fits = 0;
        for (at, byte) in text.iter().enumerate().skip(1) {
            fits = pattern.next(fits, *byte);
            pattern.shorter[at] = fits;
        }
        pattern
    }

    /// How much of the beginning fits with one byte more.
    fn next(&self, mut fits: usize, byte: u8) -> usize {
        while fits > 0 && self.text[fits] != byte {
            fits = self.shorter[fits - 1];
        }
        if self.text[fits] == byte { fits + 1 } else { 0 }
    }
}

/// One answer on its way.
pub(crate) struct Masker<'m> {
    masks: &'m Masks,
    /// Bytes with which some text begins.
    starts: [bool; 256],
    /// So many of the last bytes of each part are held back.
    tail: usize,
    /// What was not passed on yet, and how many bytes were before it.
    held: Vec<u8>,
    passed: u64,
    /// What is before this place is held back no longer.
    released: u64,
    text: Follower,
    aside: Follower,
}

/// How far each text fits, and where the last bytes of this part are.
struct Follower {
    fits: Vec<usize>,
    runs: VecDeque<Run>,
}

/// Bytes of one part that follow each other.
struct Run {
    start: u64,
    length: usize,
}

impl<'m> Masker<'m> {
    pub(crate) fn new(masks: &'m Masks) -> Self {
        let mut starts = [false; 256];
        for pattern in &masks.patterns {
            starts[usize::from(pattern.text[0])] = true;
        }
        let longest = masks.patterns.iter().map(|pattern| pattern.text.len()).max();
        let tail = longest.map_or(0, |longest| longest.next_power_of_two().max(LEAST_HELD));
        let follower = || Follower { fits: vec![0; masks.patterns.len()], runs: VecDeque::new() };
        Self { masks, starts, tail, held: Vec::new(), passed: 0, released: 0, text: follower(), aside: follower() }
    }

    pub(crate) fn push(&mut self, part: Part, bytes: &[u8]) {
        let start = self.passed + count(self.held.len());
        self.held.extend_from_slice(bytes);
        let followers = match part {
            Part::Text => [Some(&mut self.text), None],
            Part::Aside => [None, Some(&mut self.aside)],
            Part::Frame => [None, None],
            Part::Message => [Some(&mut self.text), Some(&mut self.aside)],
        };
        for follower in followers.into_iter().flatten() {
            let (mut rest, mut at) = (bytes, start);
            while !rest.is_empty() {
                let is_within = follower.fits.iter().any(|fits| *fits > 0);
                let plain =
                    if is_within { 0 } else { rest.iter().position(|b| self.starts[usize::from(*b)]).unwrap_or(rest.len()) };
                let taken = plain.max(1);
                follower.extend(at, taken, self.tail);
                if plain == 0 {
                    follower.step(rest[0], &self.masks.patterns, &mut self.held, self.passed);
                }
                rest = &rest[taken..];
                at += count(taken);
            }
            // No secret has a line break, so none can begin before the last one. Events and lines are passed on at once this way.
            if let Some(last) = bytes.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) {
                follower.keep(bytes.len() - last - 1);
            }
        }
    }

    /// What can be passed on; [`Self::pass`] takes it out.
    pub(crate) fn ready(&self) -> &[u8] {
        let waits = [&self.text, &self.aside].into_iter().filter_map(|follower| follower.first_from(self.released)).min();
        let until = waits.map_or(self.held.len(), |place| usize::try_from(place.saturating_sub(self.passed)).unwrap_or(0));
        &self.held[..until]
    }

    /// Nothing came for a while: all of it can be passed on, so that two sides do not wait for each other. If a secret was cut
    /// here, its rest will be crossed out.
    pub(crate) fn release(&mut self) {
        self.released = self.passed + count(self.held.len());
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// So many bytes were passed on.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.held.drain(..bytes);
        self.passed += count(bytes);
    }

    /// The end of a head or a body: what is held back is no secret.
    pub(crate) fn finish(&mut self) {
        self.text.finish();
        self.aside.finish();
    }

    /// The end of a WebSocket message.
    pub(crate) fn finish_message(&mut self) {
        self.text.finish();
    }
}

impl Follower {
    /// Notes where the next bytes are.
    fn extend(&mut self, at: u64, length: usize, tail: usize) {
        match self.runs.back_mut() {
            Some(last) if last.start + count(last.length) == at => last.length += length,
            _ => self.runs.push_back(Run { start: at, length }),
        }
        self.keep(tail);
    }

    /// Forgets all but so many of the last bytes.
    fn keep(&mut self, most: usize) {
        let mut excess = self.runs.iter().map(|run| run.length).sum::<usize>().saturating_sub(most);
        while let Some(first) = self.runs.front_mut().filter(|_| excess > 0) {
            let less = excess.min(first.length);
            first.start += count(less);
            first.length -= less;
            excess -= less;
            if first.length == 0 {
                self.runs.pop_front();
            }
        }
    }

    fn finish(&mut self) {
        self.fits.fill(0);
        self.runs.clear();
    }

    /// The first place that is remembered, from this one on.
    fn first_from(&self, released: u64) -> Option<u64> {
        let run = self.runs.iter().find(|run| run.start + count(run.length) > released)?;
        Some(run.start.max(released))
    }

    fn step(&mut self, byte: u8, patterns: &[Pattern], held: &mut [u8], passed: u64) {
        for (pattern, fits) in patterns.iter().zip(&mut self.fits) {
            *fits = pattern.next(*fits, byte);
            if *fits == pattern.text.len() {
                let places = self.runs.iter().rev().flat_map(|run| (run.start..run.start + count(run.length)).rev());
                for place in places.take(*fits) {
                    let at = place.checked_sub(passed).and_then(|at| usize::try_from(at).ok());
                    if let Some(byte) = at.and_then(|at| held.get_mut(at)) {
                        *byte = b'*';
                    }
                }
                *fits = pattern.shorter[*fits - 1];
            }
        }
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
