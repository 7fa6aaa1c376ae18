//! Inputs that are the same in every run: noise, and valid messages with some of their bytes changed.

pub mod seeds;

#[derive(Debug)]
pub struct Generator(u64);

/// Bytes that mean something to one of the readers.
const TELLING: &[u8] = b"\0\x01\x03\x04\x05\x0c\x10\x16\x29\x3f\x40\x7f\x80\xc0\xfe\xff .:/@%*[]-_;,\r\n\t0x9afG";

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Splitmix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("it is below a usize")
    }

    fn byte(&mut self) -> u8 {
        if self.below(2) == 0 { TELLING[self.below(TELLING.len())] } else { self.next().to_le_bytes()[0] }
    }

    pub fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        if self.below(8) == 0 {
            return (0..self.below(64)).map(|_| self.byte()).collect();
        }
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(4) {
            self.mutate(&mut input, seeds);
        }
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let byte = self.byte();
        match self.below(8) {
            0 => input.truncate(at),
            1 => input.insert(at, byte),
            2 if at < input.len() => drop(input.remove(at)),
            3 => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            4 => {
                let end = (at + self.below(16)).min(input.len());
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece);
            }
            5 if at < input.len() => input[at] ^= 1 << self.below(8),
            6 if at < input.len() => input[at] = input[at].wrapping_add(1),
            _ if at < input.len() => input[at] = byte,
            _ => input.push(byte),
        }
    }
}
