//! What is recorded of the network: one line of `network.jsonl` each.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The number of the connection or question; the line about its end has the same.
    pub id: u64,
    pub kind: EventKind,
    pub protocol: Protocol,
    /// A name, or an address where no name is known.
    pub host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The address that was dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    pub allowed: bool,
    /// The rule that allows it, or the reason why not, in words.
    pub because: String,
    /// The flag that would allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// Bytes from the sandbox and to it.
    #[serde(default)]
    pub sent: u64,
    #[serde(default)]
    pub received: u64,
    /// This line stands for so many alike, the last of which it describes; bytes are those of all. 0: for itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeats: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Event {
    /// How many events this line stands for.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.repeats.max(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A name was asked for.
    Resolve,
    /// A connection was allowed or denied.
    Connect,
    /// One request on a connection was denied.
    Request,
    /// An allowed connection ended; `because` says how if it was not by itself.
    Closed,
    /// An allowed connection could not be made outside.
    Failed,
    /// So much was to be recorded that some was left out; `sent` says how many lines.
    Omitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    Dns,
    Tls,
    Http,
    /// Neither, or nothing was said.
    Tcp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Tcp => "tcp",
        })
    }
}

/// The process inside that asked, where it could be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub pid: i32,
    pub program: String,
}
