//! How a provider finds a running sandbox again.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number that means something to the provider that launched the sandbox, and to nobody else. Records keep it as `keeper_pid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(u32);

impl Handle {
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self(number)
    }

    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
