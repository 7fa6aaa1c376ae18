//! What the network of a sandbox may be.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetMode {
    /// Its own network namespace with nothing but loopback.
    #[default]
    None,
    /// The host's network, unfiltered.
    Host,
}

impl fmt::Display for NetMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Host => "host",
        })
    }
}

impl FromStr for NetMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "host" => Ok(Self::Host),
            other => Err(format!("'{other}' is not a network mode; use 'none' or 'host'")),
        }
    }
}
