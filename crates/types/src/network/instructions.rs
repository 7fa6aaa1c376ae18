//! What a supervisor is told when it starts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;

/// Given on its standard input. It never touches a disk: secrets are in it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Instructions {
    /// The name of the sandbox, for what it tells people.
    pub sandbox: String,
    /// The uid and gid of a supervisor that root starts.
    pub uid: u32,
    /// Those of the sandbox, by which it bounds what it uses itself.
    #[serde(default)]
    pub limits: Limits,
    /// What descriptors 3, 4, … are.
    pub descriptors: Vec<Role>,
    /// Somebody is about to join who answers questions.
    #[serde(default)]
    pub is_answered: bool,
    #[serde(default)]
    pub upstream: UpstreamProxies,
    #[serde(default)]
    pub secrets: Vec<Secret>,
    /// The authority that the sandbox trusts for the hosts of those secrets, with its key.
    #[serde(default)]
    pub authority: Option<String>,
    /// Files with the authorities the user trusts, if they are not where the system keeps them.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
}

impl std::fmt::Debug for Instructions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instructions")
            .field("sandbox", &self.sandbox)
            .field("descriptors", &self.descriptors)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The channel to the keeper; when it closes, the sandbox is gone.
    Keeper,
    /// A listening Unix socket, for commands outside.
    Control,
    /// Where events are appended.
    Log,
    /// The directory with `network.json`.
    Directory,
    /// A listener inside that gets every TCP connection that is not for loopback; its own address is that of the proxy.
    Tcp,
    /// A UDP socket inside that gets every question for a name.
    Dns,
    /// A listener inside, for the same port of the host's loopback.
    Reach { port: u16 },
    /// A listener outside, for a port inside.
    Published { inside: u16 },
}

/// The proxies the user's own programs are told to use, as in the variables of these names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpstreamProxies {
    pub http_proxy: Option<String>,
    pub https_proxy: Option<String>,
    pub no_proxy: Option<String>,
}

/// A credential that only the supervisor knows.
#[derive(Clone, Serialize, Deserialize)]
pub struct Secret {
    pub name: String,
    /// What the sandbox has in its place.
    pub placeholder: String,
    pub value: String,
    /// The only host it is sent to.
    pub host: String,
    /// Header fields it is sent in, besides those that carry credentials by themselves.
    #[serde(default)]
    pub fields: Vec<String>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).field("host", &self.host).finish_non_exhaustive()
    }
}
