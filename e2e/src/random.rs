//! Numbers that look random and are the same in every run, so that a failure can be repeated.

/// An xorshift generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn from(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to one below the limit.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() >> 11) as usize % limit.max(1)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
