//! How much a sandbox may use, how long it may live, and by what that is enforced.

mod cpus;
mod defaults;
mod expiry;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::cpus::Cpus;
pub use self::defaults::{DefaultLimit, DefaultLimits, Machine, Sizes};
pub use self::expiry::{Clock, Expiry};
use crate::remedy::{Call, Choice, Mention, Remedy, Value};
use crate::{Size, Span, remedy};

/// Whoever asks for less has most likely left out the unit.
const LEAST_MEMORY: Size = Size(1 << 20);

/// What may be used. Nothing said is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The preset or profile that says what is not said here.
    pub preset: Option<String>,
    /// Refuse to start rather than enforce a limit less strictly than the kernel could.
    pub require: bool,
    pub cpus: Option<Cpus>,
    pub memory: Option<Size>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// What its changes may take up, with its snapshots.
    pub disk: Option<Size>,
    /// How many files its changes may be.
    pub inodes: Option<u64>,
    /// For each command.
    pub timeout: Option<Span>,
    /// From its making to its end.
    pub ttl: Option<Span>,
    /// What becomes of it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// Without a command.
    pub idle: Option<Span>,
}

impl Limits {
    #[must_use]
    pub const fn none() -> Self {
        Self {
            preset: None,
            require: false,
            cpus: None,
            memory: None,
            pids: None,
            disk: None,
            inodes: None,
            timeout: None,
            ttl: None,
            then: None,
            idle: None,
        }
    }

    /// The built-in ones.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        let (cpus, memory, pids, disk, inodes) = match name {
            "small" => (1, 1, 256, 2, 100_000),
            "medium" => (2, 4, 1024, 10, 500_000),
            "large" => (8, 16, 4096, 50, 2_000_000),
            _ => return None,
        };
        Some(Self {
            preset: Some(name.to_owned()),
            cpus: Some(Cpus::whole(cpus)),
            memory: Some(Size(memory << 30)),
            pids: Some(pids),
            disk: Some(Size(disk << 30)),
            inodes: Some(inodes),
            ..Self::default()
        })
    }

    /// These, and where they say nothing, the others.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            preset: self.preset.or(others.preset),
            require: self.require || others.require,
            cpus: self.cpus.or(others.cpus),
            memory: self.memory.or(others.memory),
            pids: self.pids.or(others.pids),
            disk: self.disk.or(others.disk),
            inodes: self.inodes.or(others.inodes),
            timeout: self.timeout.or(others.timeout),
            ttl: self.ttl.or(others.ttl),
            then: self.then.or(others.then),
            idle: self.idle.or(others.idle),
        }
    }

    /// The stricter of both, limit by limit.
    #[must_use]
    pub fn at_most(self, others: &Self) -> Self {
        Self {
            preset: self.preset,
            require: self.require || others.require,
            cpus: stricter(self.cpus, others.cpus),
            memory: stricter(self.memory, others.memory),
            pids: stricter(self.pids, others.pids),
            disk: stricter(self.disk, others.disk),
            inodes: stricter(self.inodes, others.inodes),
            timeout: stricter(self.timeout, others.timeout),
            ttl: stricter(self.ttl, others.ttl),
            // To lose changes is nothing that a project may ask for, and neither is to lose them earlier.
            then: match others.then {
                Some(Then::Stop) => Some(Then::Stop),
                _ => self.then.filter(|_| others.ttl.is_none() || (self.ttl.is_some() && self.ttl <= others.ttl)),
            },
            idle: stricter(self.idle, others.idle),
        }
    }

    /// Whether anything at all is limited.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.resources().next().is_none() && self.timeout.is_none() && self.ttl.is_none() && self.idle.is_none()
    }

    /// The name that turns off every limit, the default ones too.
    pub const OFF: &str = "none";

    /// Whether the default limits are turned off.
    #[must_use]
    pub fn are_off(&self) -> bool {
        self.preset.as_deref() == Some(Self::OFF)
    }

    /// Whether a sandbox with these is like any other: nothing is limited but by default.
    #[must_use]
    pub fn are_usual(&self) -> bool {
        self.is_unlimited() && !self.are_off()
    }

    /// Whether what its changes take is limited.
    #[must_use]
    pub fn limits_room(&self) -> bool {
        self.disk.is_some() || self.inodes.is_some()
    }

    /// What is limited, and to how much.
    pub fn resources(&self) -> impl Iterator<Item = (Resource, String)> {
        [
            self.cpus.map(|c| (Resource::Cpus, c.to_string())),
            self.memory.map(|m| (Resource::Memory, m.to_string())),
            self.pids.map(|p| (Resource::Pids, p.to_string())),
            self.disk.map(|d| (Resource::Disk, d.to_string())),
            self.inodes.map(|i| (Resource::Inodes, i.to_string())),
        ]
        .into_iter()
        .flatten()
    }

    /// A limit that nothing can stay within.
    fn nonsense(&self) -> Option<&'static str> {
        let nothing = |size: Option<Size>| size.is_some_and(|s| s.0 == 0);
        let no_time = |span: Option<Span>| span.is_some_and(|s| s.as_millis() == 0);
        [
            (nothing(self.memory), "memory"),
            (self.pids == Some(0), "pids"),
            (nothing(self.disk), "disk"),
            (self.inodes == Some(0), "inodes"),
            (no_time(self.timeout), "timeout"),
            (no_time(self.ttl), "ttl"),
            (no_time(self.idle), "idle"),
        ]
        .into_iter()
        .find_map(|(is_nothing, what)| is_nothing.then_some(what))
    }

    /// Values that would be accepted in the place of the one that `check` refuses.
    #[must_use]
    pub fn examples(&self) -> &'static str {
        match self.nonsense() {
            Some("timeout" | "ttl" | "idle") => "30s, 5m, 2h",
            Some("pids" | "inodes") => "500, 20000",
            _ => "512M, 2G",
        }
    }

    /// The same, said; and of memory, less than any program starts with.
    pub fn check(&self) -> Result<(), String> {
        if let Some(what) = self.nonsense() {
            return Err(format!("a limit of 0 on {what} would leave nothing to run"));
        }
        match self.memory.filter(|memory| *memory < LEAST_MEMORY) {
            Some(Size(bytes)) => {
                Err(format!("a memory limit of {bytes} bytes is too small to start anything; a size without a unit is in bytes"))
            }
            None => Ok(()),
        }
    }

    /// The limit in the words of whoever ran into it.
    #[must_use]
    pub fn describe(&self, hit: LimitHit) -> String {
        let said = |value: Option<String>, what: &str| value.map_or_else(|| what.to_owned(), |v| format!("{v} {what}"));
        match hit {
            LimitHit::Memory if self.memory.is_none() => "the default memory limit".to_owned(),
            LimitHit::Memory => said(self.memory.map(|m| m.to_string()), "memory limit"),
            LimitHit::Disk => said(self.disk.map(|d| d.to_string()), "disk limit"),
            LimitHit::Inodes => said(self.inodes.map(|i| i.to_string()), "files limit"),
            LimitHit::Ttl => said(self.ttl.map(|t| t.to_string()), "lifetime of the sandbox"),
            LimitHit::Reserve => "the reserved free disk space was reached".to_owned(),
        }
    }
}

/// What becomes of a sandbox whose time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Then {
    /// It is stopped, and its changes are kept.
    Stop,
    /// It goes, with its changes.
    Remove,
}

impl FromStr for Then {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stop" => Ok(Self::Stop),
            "remove" => Ok(Self::Remove),
            _ => Err(format!("'{}' is neither stop nor remove", text.escape_debug())),
        }
    }
}

fn stricter<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What can run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    Cpus,
    Memory,
    Pids,
    Disk,
    Inodes,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpus => "cpus",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Disk => "disk",
            Self::Inodes => "inodes",
        })
    }
}

/// By what a limit is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    Cgroup2,
    Cgroup1,
    /// A limit of the kernel on the user inside.
    Rlimit,
    /// A project of its own in the file system, which counts each block and file.
    Quota,
    /// The keeper looks often, and ends everything when it is too much.
    Watcher,
    /// Processes are put on few processors, and could leave them.
    Affinity,
}

impl Means {
    /// Whether what runs inside can get around it, or be faster than it.
    #[must_use]
    pub fn is_weak_for(self, resource: Resource) -> bool {
        match self {
            Self::Affinity => true,
            // Where nothing else exists, being stopped shortly after the limit is what a limit on room means.
            Self::Watcher => resource == Resource::Memory,
            _ => false,
        }
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cgroup2 => "cgroup v2",
            Self::Cgroup1 => "cgroup v1",
            Self::Rlimit => "rlimit",
            Self::Quota => "project quota, exact",
            Self::Watcher => "watched by the keeper",
            Self::Affinity => "affinity, which a process can undo",
        })
    }
}

/// One limit and what stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    pub resource: Resource,
    pub by: Means,
}

/// The limit that ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHit {
    Memory,
    Disk,
    Inodes,
    /// What shall stay free on the host's disk.
    Reserve,
    Ttl,
}

impl LimitHit {
    /// What can be done about it.
    #[must_use]
    pub fn remedy(self) -> Option<Remedy> {
        let raised = |choice: Choice| {
            remedy![
                Mention(Call::DiskUsage),
                " shows what its changes take; delete some of them inside, or go on in a new sandbox with a higher ",
                choice
            ]
        };
        match self {
            Self::Disk => Some(raised(Choice::Disk(Value::Unsaid))),
            Self::Inodes => Some(raised(Choice::Inodes(Value::Unsaid))),
            Self::Reserve => Some(remedy![
                Mention(Call::DiskUsage),
                " shows what the sandboxes hold, ",
                Mention(Call::remove(Value::Blank)),
                " frees it"
            ]),
            Self::Memory => Some(remedy!["a new sandbox can have a higher ", Choice::Memory(Value::Unsaid)]),
            Self::Ttl => None,
        }
    }
}

/// What one command used, with everything it started and waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub wall_ms: u64,
    pub cpu_ms: u64,
    /// Of its largest process; of all together where the sandbox has a control group and it ran alone.
    pub peak_memory_bytes: u64,
    pub written_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_nearer_counts_and_a_project_only_tightens() {
        let flags = Limits { memory: Some(Size(64 << 20)), ..Limits::default() };
        let preset = Limits::preset("small").unwrap();
        let merged = flags.or(preset.clone());
        assert_eq!((merged.memory, merged.pids), (Some(Size(64 << 20)), preset.pids));

        let project = Limits { memory: Some(Size(1 << 40)), ttl: Some(Span::from_secs(60)), pids: Some(8), ..Limits::default() };
        let tightened = merged.at_most(&project);
        assert_eq!(tightened.memory, Some(Size(64 << 20)));
        assert_eq!((tightened.pids, tightened.ttl), (Some(8), Some(Span::from_secs(60))));
        assert!(Limits::preset("enormous").is_none() && Limits::default().is_unlimited());
    }

    #[test]
    fn a_project_can_neither_remove_a_sandbox_nor_have_it_removed_earlier() {
        let lasting = |seconds, then| Limits { ttl: Some(Span::from_secs(seconds)), then, ..Limits::none() };
        let asked = lasting(60, Some(Then::Remove));
        assert_eq!(asked.clone().at_most(&Limits::none()).then, Some(Then::Remove));
        assert_eq!(asked.clone().at_most(&lasting(60, None)).then, Some(Then::Remove));
        assert_eq!(asked.clone().at_most(&lasting(59, None)).then, None);
        assert_eq!(asked.clone().at_most(&Limits { then: Some(Then::Stop), ..Limits::none() }).then, Some(Then::Stop));
        assert_eq!(lasting(60, None).at_most(&Limits { then: Some(Then::Remove), ..Limits::none() }).then, None);
    }

    #[test]
    fn examples_have_the_unit_of_what_is_refused() {
        let refused = |limits: Limits| limits.check().is_err().then(|| limits.examples());
        assert_eq!(refused(Limits { timeout: Some(Span::from_secs(0)), ..Limits::default() }), Some("30s, 5m, 2h"));
        assert_eq!(refused(Limits { pids: Some(0), ..Limits::default() }), Some("500, 20000"));
        assert_eq!(refused(Limits { memory: Some(Size(1)), ..Limits::default() }), Some("512M, 2G"));
    }

    #[test]
    fn what_ended_a_command_is_said_with_its_figure() {
        let limits = Limits { memory: Some(Size(512 << 20)), ..Limits::default() };
        assert_eq!(limits.describe(LimitHit::Memory), "512 MiB memory limit");
        assert_eq!(limits.describe(LimitHit::Disk), "disk limit");
    }
}
