//! What the network of a sandbox may be.

mod event;
mod instructions;
mod wish;

use std::fmt;

use serde::{Deserialize, Serialize};
pub use whatif_netpolicy::Rule;

pub use self::event::{Event, EventKind, Protocol, Who};
pub use self::instructions::{Instructions, Role, Secret, UpstreamProxies};
pub use self::wish::{NetChoice, NetWish, Publish, Reach, SecretSource, SecretWish, check_leads_outside, combine};

/// How the network namespace of a sandbox is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetMode {
    /// Its own, with nothing but loopback.
    #[default]
    None,
    /// Its own, and a supervisor outside that lets through what rules allow.
    Filtered,
    /// The host's, unfiltered.
    Host,
}

impl fmt::Display for NetMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Filtered => "filtered",
            Self::Host => "host",
        })
    }
}

impl NetMode {
    #[must_use]
    pub fn is_own(self) -> bool {
        self != Self::Host
    }
}

/// What a supervisor goes by: `network.json` in the sandbox's directory. It is read again when told so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rules {
    pub allow: Vec<Rule>,
    pub deny: Vec<Rule>,
    /// Ports of the host's loopback that can be reached at the same port inside.
    pub reach: Vec<u16>,
    /// A host that no rule speaks of is asked about, if somebody is there to answer.
    pub ask: bool,
    /// For people: where the rules for registries come from, and what could not be found out.
    pub registries: Vec<Registry>,
    pub troubles: Vec<String>,
}

/// A host that one of the user's tools is set up for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registry {
    pub tool: String,
    pub place: String,
    /// Where that is said.
    pub said: String,
}
