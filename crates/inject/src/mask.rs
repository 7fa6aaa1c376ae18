//! Crosses secrets out of what a server answers: each byte of one becomes an asterisk, so lengths stay what they were.
//!
//! What may be the beginning of a secret is held back until it is known whether it is one. A secret can be cut by the lines
//! between the chunks of a body, so data and what stands between it are followed separately.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use crate::known::Known;

/// Shorter texts turn up by chance, and crossing them out would tell more than it hides.
const SHORTEST: usize = 8;
/// What may be passed on before it is known whether a secret begins there, so that two sides do not wait for each other.
const LITTLE: usize = 4;

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
    /// What was not passed on yet, and how many bytes were before it.
    held: Vec<u8>,
    passed: u64,
    text: Follower,
    aside: Follower,
}

/// How far each text fits, and where the bytes are that fit.
struct Follower {
    fits: Vec<usize>,
    places: VecDeque<u64>,
}

impl<'m> Masker<'m> {
    pub(crate) fn new(masks: &'m Masks) -> Self {
        let mut starts = [false; 256];
        for pattern in &masks.patterns {
            starts[usize::from(pattern.text[0])] = true;
        }
        let follower = || Follower { fits: vec![0; masks.patterns.len()], places: VecDeque::new() };
        Self { masks, starts, held: Vec::new(), passed: 0, text: follower(), aside: follower() }
    }

    pub(crate) fn push(&mut self, part: Part, bytes: &[u8]) {
        let follower = match part {
            Part::Text => &mut self.text,
            Part::Aside => &mut self.aside,
            Part::Frame => return self.held.extend_from_slice(bytes),
        };
        let mut rest = bytes;
        loop {
            if follower.places.is_empty() {
                let plain = rest.iter().position(|byte| self.starts[usize::from(*byte)]).unwrap_or(rest.len());
                self.held.extend_from_slice(&rest[..plain]);
                rest = &rest[plain..];
            }
            let Some((byte, others)) = rest.split_first() else { return };
            follower.places.push_back(self.passed + count(self.held.len()));
            self.held.push(*byte);
            follower.step(*byte, &self.masks.patterns, &mut self.held, self.passed);
            rest = others;
        }
    }

    /// What can be passed on; [`Self::pass`] takes it out.
    pub(crate) fn ready(&self) -> &[u8] {
        let waits = [&self.text, &self.aside].into_iter().filter_map(|follower| follower.places.front()).min();
        let until = waits.map_or(self.held.len(), |place| usize::try_from(place.saturating_sub(self.passed)).unwrap_or(0));
        &self.held[..until]
    }

    /// All that is left, if it is so little that it can be passed on though a secret may begin there. Its rest would be crossed out.
    pub(crate) fn little(&self) -> &[u8] {
        if self.held.len() <= LITTLE { &self.held } else { self.ready() }
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
        for follower in [&mut self.text, &mut self.aside] {
            follower.fits.fill(0);
            follower.places.clear();
        }
    }
}

impl Follower {
    fn step(&mut self, byte: u8, patterns: &[Pattern], held: &mut [u8], passed: u64) {
        let mut longest = 0;
        for (pattern, fits) in patterns.iter().zip(&mut self.fits) {
            *fits = pattern.next(*fits, byte);
            if *fits == pattern.text.len() {
                for place in self.places.iter().rev().take(*fits) {
                    let at = place.checked_sub(passed).and_then(|at| usize::try_from(at).ok());
                    if let Some(byte) = at.and_then(|at| held.get_mut(at)) {
                        *byte = b'*';
                    }
                }
                *fits = pattern.shorter[*fits - 1];
            }
            longest = longest.max(*fits);
        }
        self.places.drain(..self.places.len() - longest);
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
