//! What is said between a client and a keeper. Versioned by `whatif_types::boot::PROTOCOL_VERSION`.
//!
//! Frames are JSON; descriptors travel beside the frame that speaks of them. Paths and arguments are bytes to the kernel but
//! mostly text here: what is not UTF-8 is carried as a list of numbers (`Text`).

mod files;
mod restack;

pub use self::files::{Condition, FileReply, FileRequest, FileStat, Happening, Listed, What};
pub use self::restack::{Answer, Order};

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use whatif_cgroup::{About, Meter};
use whatif_types::boot::{KeeperLimits, Protection};
use whatif_types::network::{Role, Who};
pub use whatif_types::text::Text;
use whatif_types::{Boot, CommandId, LimitHit, Usage};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The first frame of a keeper's life, on the socket it is born with: where it belongs. Descriptors: the socket that it serves, the
    /// lock of its sandbox and the lock of its ids, which it holds as long as it lives.
    Settle,
    /// What it is to become. With `prepared`, the sandbox's user namespace and a
    /// process that holds its other namespaces come along as descriptors. With `bounded`, `Bounds` follows.
    Boot {
        boot: Box<Boot>,
        prepared: bool,
        bounded: bool,
    },
    /// What else the keeper has to see to: it is found out while the sandbox is put together. Descriptors: those of the `group`,
    /// then, with `farewell`, a file to say in why it ended.
    Bounds {
        limits: Box<KeeperLimits>,
        group: Option<PassedGroup>,
        farewell: bool,
    },
    /// Descriptors: one for each `Stdio::Passed`, then, for a detached command, the two files of the log, its record if it has an id,
    /// and the two files of the log of its standard error if that is kept apart.
    Exec(Box<Exec>),
    /// To the process group of a command started by `Exec`.
    Signal {
        pid: i32,
        signal: i32,
    },
    Resize {
        pid: i32,
        columns: u16,
        rows: u16,
    },
    Wait {
        pid: i32,
    },
    /// This client reads the output of a command from its log, beginning at `from`: nothing after that is dropped before it is
    /// `Taken`, until the client leaves. `Attached` answers; then follow `Output` and at last `Finished`.
    Attach {
        id: CommandId,
        from: u64,
    },
    /// An attached client has taken all output up to here. Not answered.
    Taken {
        offset: u64,
    },
    /// What is kept of a command's output from there on, for a client that cannot read its log. `Piece` answers.
    ReadOutput {
        id: CommandId,
        from: u64,
    },
    /// No more input comes for a command, from anybody.
    CloseInput {
        id: CommandId,
    },
    List,
    Stats,
    /// The commands that ended lately.
    Ended,
    /// Other layers lie under the head, of this size together.
    LayersChanged {
        bytes: u64,
        files: u64,
    },
    /// The sandbox ends at another time than was said, in milliseconds since the machine was started.
    Renew {
        ends_at_ms: Option<u64>,
    },
    /// This client becomes the supervisor of the sandbox's network, until it leaves. Refused if there is one.
    Supervise,
    /// For the supervisor: a fresh TCP socket of the sandbox's network for each family it has.
    Socket,
    /// The process inside that has a TCP socket with this address.
    Who {
        local: SocketAddr,
    },
    Open {
        path: Text,
        access: Access,
    },
    Directory {
        path: Text,
    },
    MakeDirectory {
        path: Text,
        mode: u32,
    },
    /// A link that leads there; in the place of another link, if there is one.
    MakeLink {
        path: Text,
        target: Text,
    },
    Examine {
        path: Text,
    },
    Files(FileRequest),
    /// Holds every process still until `Thaw`, or until this client leaves. Nothing is started or written meanwhile.
    /// The answer names them.
    Freeze,
    /// Whether something runs that `Freeze` would have to hold by signals.
    WantsFreezer,
    /// A freezer to hold with from here on. Its files come along. What runs is taken in at once.
    Freezer(About),
    /// The layers of the sandbox that this client holds still are about to change. From here on others may not even look; and
    /// should this client leave without `Thaw`, the sandbox ends, since nobody knows what it stands on.
    ChangeLayers,
    /// The overlays that the sandbox consists of from here on, in place of earlier ones, or `more` of them. They come along as
    /// descriptors, and are kept for `Overlays`.
    HandOver {
        /// Of each.
        is_read_only: Vec<bool>,
        more: bool,
    },
    /// The overlays that the sandbox consists of, without the first ones. If nothing runs, nothing is started until `Thaw`, or
    /// until this client leaves.
    Overlays {
        without: usize,
    },
    Thaw,
    /// Ends every process at once, but not the keeper. The answer names them.
    EndAll,
    /// TERM to everything, then KILL when `grace_ms` have passed, then the keeper ends and the sandbox with it.
    Stop {
        grace_ms: u64,
    },
}

impl Request {
    /// Whether more follows than one answer, or the answer comes when the keeper ends.
    #[must_use]
    pub fn outlasts_its_answer(&self) -> bool {
        matches!(
            self,
            Self::Boot { .. }
                | Self::Exec(_)
                | Self::Wait { .. }
                | Self::Attach { .. }
                | Self::Supervise
                | Self::Files(FileRequest::Watch { .. })
                | Self::Stop { .. }
        )
    }
}

/// The descriptors of a control group: so many entrances, then these meters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PassedGroup {
    pub entrances: usize,
    pub meters: Vec<Meter>,
    /// Whether the commands of other sandboxes are in it as well.
    #[serde(default)]
    pub shared: bool,
}

/// What a keeper that ends by itself leaves in its farewell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Farewell {
    Expired,
    Idle,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exec {
    pub arguments: Vec<Text>,
    pub environment: Vec<(Text, Text)>,
    pub directory: Text,
    pub stdio: [Stdio; 3],
    /// A new terminal of this size instead of `stdio`; its master comes back with `Started`, or with `Attached` for a detached one.
    pub terminal: Option<(u16, u16)>,
    /// Goes on when the client leaves; output goes to the log that was passed (see `log`).
    pub detached: bool,
    /// Of a detached command: what it can be attached to by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CommandId>,
    /// The keeper keeps the output of a detached command with an id in its own memory: no files are passed, and it is read with
    /// `ReadOutput`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_output: bool,
    /// The standard error of a detached command goes to a log of its own. Not with a terminal, which has one stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub errors_apart: bool,
    pub timeout_ms: Option<u64>,
    /// The caller's, for a keeper that was not started by the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// What a command inherits from whoever asks for it, as far as the keeper may give it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub umask: u32,
    pub nice: i32,
    pub io_priority: i32,
    /// Number of a resource, soft and hard limit.
    pub limits: Vec<(u32, u64, u64)>,
}

impl Settings {
    /// Those of this process.
    #[must_use]
    pub fn own() -> Self {
        Self::of(whatif_sys::settings::Settings::own())
    }

    /// Those of this process, if a keeper that it starts does not have all of them.
    #[must_use]
    pub fn not_inherited() -> Option<Self> {
        whatif_sys::settings::Settings::not_inherited().map(Self::of)
    }

    fn of(own: &whatif_sys::settings::Settings) -> Self {
        Self { umask: own.umask, nice: own.nice, io_priority: own.io_priority, limits: own.limits.clone() }
    }

    /// Whether a keeper with these can start commands with the others: it can lower limits and priority, not raise them.
    #[must_use]
    pub fn can_give(&self, wanted: &Self) -> bool {
        let hard = |number: u32| self.limits.iter().find(|(n, ..)| *n == number).map_or(0, |(_, _, hard)| *hard);
        self.nice <= wanted.nice && wanted.limits.iter().all(|(number, _, wanted)| hard(*number) >= *wanted)
    }

    pub(crate) fn to_assume(&self) -> whatif_sys::settings::Settings {
        whatif_sys::settings::Settings {
            umask: self.umask & 0o777,
            nice: self.nice,
            io_priority: self.io_priority,
            limits: self.limits.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdio {
    /// A pipe or socket of the caller, given as it is.
    Passed,
    Null,
    /// Only for the standard input of a detached command: a pipe whose other end whoever attaches gets.
    Kept,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Read,
    /// Created or emptied, with this mode.
    Replace {
        mode: u32,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Booted {
        version: u32,
        protection: Protection,
    },
    /// With a terminal, its master comes along.
    Started {
        pid: i32,
    },
    Exited(Exited),
    /// What to write input to comes along, if it takes any: a pipe, or the master of its terminal. Others may have it too.
    Attached {
        pid: i32,
        has_input: bool,
        is_terminal: bool,
        /// All output so far ends here.
        end: u64,
    },
    /// To an attached client, once for each `Taken` and once before: there is output up to here.
    Output {
        end: u64,
    },
    /// So much output, beginning there: what lies between that and what was asked for is gone. It comes along in a pipe, unless there
    /// is none yet.
    Piece {
        start: u64,
        length: usize,
    },
    /// To an attached client: nobody can give the command input any more.
    InputClosed,
    /// To an attached client: the command has ended, and here its output does.
    Finished(Finished),
    Processes(Vec<Process>),
    Stats(Stats),
    Ended(Vec<Exited>),
    /// These come along, in this order.
    Supervising(Vec<Role>),
    /// The sockets come along: IPv4, then IPv6 if there is any.
    Socket,
    Who(Option<Who>),
    /// They come along.
    Overlays {
        /// Of each.
        is_read_only: Vec<bool>,
        /// There are others.
        more: bool,
        /// Nothing runs, and nothing is started.
        held: bool,
    },
    /// To clients with a command in the foreground, unasked: somebody inside wants the network, and there is no supervisor.
    NetworkWanted,
    WantsFreezer(bool),
    /// The opened file comes along.
    Opened {
        size: u64,
        mode: u32,
    },
    Entries(Vec<Entry>),
    Examined(Option<Entry>),
    Files(FileReply),
    Done,
    Failed(Failed),
}

/// How a command that can be attached to ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    pub exited: Exited,
    /// How much output there was until then. What it left running may go on writing.
    pub output: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    pub pid: i32,
    /// Of one that was detached.
    #[serde(default)]
    pub id: Option<CommandId>,
    #[serde(default)]
    pub command: String,
    /// The exit code, or 128 + the signal.
    pub code: i32,
    pub signal: Option<i32>,
    pub timed_out: bool,
    /// Whether other processes of the sandbox were alive at that moment.
    pub others_alive: bool,
    /// It failed, and something in the sandbox had tried to reach a network that is not there.
    pub missed_network: bool,
    /// The limit that ended it, or some process of it.
    #[serde(default)]
    pub limit_hit: Option<LimitHit>,
    /// The limit of processes kept something from being started.
    #[serde(default)]
    pub pids_refused: bool,
    /// It failed when nothing more could be written: the file system holds the sandbox to this limit.
    #[serde(default)]
    pub room_refused: Option<LimitHit>,
    /// What stood in `/tmp` then, which is the sandbox's own: the first few names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_in_tmp: Vec<Text>,
    #[serde(default)]
    pub usage: Usage,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// Of a command that was detached.
    #[serde(default)]
    pub id: Option<CommandId>,
    pub parent: i32,
    pub state: char,
    pub command: String,
    pub cpu_ms: u64,
    pub memory_bytes: u64,
    /// Started by `exec`, not by another process of the sandbox.
    pub is_exec: bool,
}

/// What the sandbox uses as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Processes; with threads where a control group counts them.
    pub processes: usize,
    /// Of all processes there ever were, since the keeper began to serve.
    pub cpu_ms: u64,
    pub memory_bytes: u64,
    /// Where a control group counts it.
    pub peak_memory_bytes: Option<u64>,
    pub written_bytes: u64,
    /// What its changes take, where that is watched.
    pub changes_bytes: Option<u64>,
    /// Since the keeper began to serve.
    pub uptime_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub name: Text,
    pub kind: EntryKind,
    pub mode: u32,
    pub size: u64,
    pub link: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    Directory,
    Link,
    Other,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failed {
    pub reason: Reason,
    pub message: String,
    pub errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The sandbox could not be set up.
    Boot,
    /// The same, because the layers' owners cannot be mapped here.
    BootIdMapping,
    /// The same, because the layers cannot be mounted here.
    BootLayers,
    /// No such program.
    NotFound,
    /// A program that cannot be executed.
    CannotExecute,
    /// The working directory cannot be entered.
    Directory,
    NoSuchProcess,
    /// Processes cannot be held still.
    NotStill,
    File,
    /// The file is of another version than was asked for.
    OtherVersion,
    /// It is neither a regular file nor what else was asked for: a pipe, a device, a file of the kernel.
    NotAFile,
    /// The sandbox is about to end; nothing is started any more.
    Ending,
    /// Somebody else supervises the network.
    Supervised,
    /// The network cannot be set up as asked for.
    BootNetwork,
    Refused,
}
