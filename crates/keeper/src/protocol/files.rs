//! What is said about files inside. Every path is absolute, and resolved in the sandbox's root as the keeper sees it.

use serde::{Deserialize, Serialize};

use super::{EntryKind, Text};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRequest {
    /// `Stat` answers.
    Stat {
        path: Text,
        follow: bool,
    },
    /// The entries whose names come after `after`, in the order of their bytes; as many as fit into a page, and at most so many.
    /// `Page` answers, perhaps after `Working`.
    List {
        path: Text,
        after: Option<Text>,
        most: u32,
    },
    /// A part of a regular file. `Range` answers with fewer bytes than asked for if a piece holds no more.
    Read {
        path: Text,
        offset: u64,
        length: u64,
        if_version: Option<String>,
    },
    /// A regular file in the place of what is there, once all of it has come. The bytes come through the descriptor that comes along.
    /// `Ready` answers, and after `Finish` `Stat`; a failure may be said before `Finish`, which is then not answered.
    Write {
        path: Text,
        mode: Option<u32>,
        condition: Condition,
    },
    /// The same, at the end of a regular file, as it comes. With a mode, one that is not there is created.
    Append {
        path: Text,
        create: Option<u32>,
        if_version: Option<String>,
    },
    /// So many bytes were sent for the `Write` or `Append` of this client; none if it gives up.
    Finish {
        length: Option<u64>,
    },
    /// Follows no link and enters no mount. `Done` answers, perhaps after `Working`.
    Delete {
        path: Text,
        recursive: bool,
        if_version: Option<String>,
    },
    Move {
        from: Text,
        to: Text,
        replace: bool,
    },
    /// With those above it that are missing. One that is there is not an error.
    MakeDirectories {
        path: Text,
        mode: u32,
    },
    /// Tells what happens to a file, or to a directory and what lies directly in it, until the client leaves. A client may watch
    /// several. `Done` answers, then `Happened` follows.
    Watch {
        path: Text,
    },
}

impl FileRequest {
    /// Whether it may change a file.
    #[must_use]
    pub fn writes(&self) -> bool {
        match self {
            Self::Stat { .. } | Self::List { .. } | Self::Read { .. } | Self::Watch { .. } => false,
            // What was begun writes, when it may.
            Self::Finish { .. } => false,
            Self::Write { .. } | Self::Append { .. } => true,
            Self::Delete { .. } | Self::Move { .. } | Self::MakeDirectories { .. } => true,
        }
    }
}

/// What has to be so for a file to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    Always,
    /// Nothing is there.
    IsAbsent,
    /// The file there is of this version.
    IsVersion(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileReply {
    Stat(FileStat),
    Page {
        entries: Vec<Listed>,
        /// What to ask for to get the next page, if there may be one.
        next: Option<Text>,
    },
    /// The bytes come along in a pipe, unless there are none.
    Range {
        length: usize,
        stat: FileStat,
    },
    /// What is sent now is written.
    Ready,
    /// It takes a while; nothing is wrong.
    Working,
    Happened(Vec<Happening>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    pub kind: EntryKind,
    pub mode: u32,
    pub size: u64,
    pub uid: u32,
    pub gid: u32,
    /// Seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
    /// Another one after every change. It says nothing else.
    pub version: String,
    /// Where a link leads.
    pub link: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub name: Text,
    pub stat: FileStat,
}

/// What happened to something that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// As it was asked for. Without one, it is about everything that this client watches.
    pub path: Option<Text>,
    /// Of what lies in the directory at `path`.
    pub name: Option<Text>,
    pub what: What,
    pub is_directory: bool,
    /// The two halves of a move have the same number.
    pub cookie: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Created,
    Deleted,
    Modified,
    /// Whoever wrote to it has closed it.
    Closed,
    Attributes,
    MovedFrom,
    MovedTo,
    /// More happened than could be told: look at everything again.
    Overflow,
    /// What was watched is not there any more, and is not watched.
    Gone,
}
