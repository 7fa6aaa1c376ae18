//! What can be wrong with a file inside a sandbox.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use whatif_keeper::protocol::{Failed, Reason};
use whatif_types::explain::kind_of;
use whatif_types::{Explain, Kind, Remedy};

/// The keeper says why, and with which path.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct FileError {
    pub path: PathBuf,
    pub problem: FileProblem,
    pub message: String,
    errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileProblem {
    NotFound,
    Exists,
    /// It is of another version than was asked for.
    Changed,
    /// A pipe, a device, a file of the kernel.
    NotAFile,
    IsDirectory,
    NotDirectory,
    NotEmpty,
    NoRoom,
    Denied,
    /// From one file system to another, or into a mount.
    CrossesMounts,
    /// The sandbox was snapshotted, rolled back or the like meanwhile.
    LayersChanged,
    Busy,
    BadPath,
    Other,
}

impl FileError {
    /// What a keeper says of a file; anything else comes back.
    pub(crate) fn of(path: PathBuf, failed: Failed) -> Result<Self, Failed> {
        let problem = match failed.reason {
            Reason::OtherVersion => FileProblem::Changed,
            Reason::NotAFile => FileProblem::NotAFile,
            Reason::File => problem_of(Errno::from_raw_os_error(failed.errno)),
            _ => return Err(failed),
        };
        Ok(Self { path, problem, message: failed.message, errno: failed.errno })
    }
}

fn problem_of(errno: Errno) -> FileProblem {
    match errno {
        Errno::NOENT => FileProblem::NotFound,
        Errno::EXIST => FileProblem::Exists,
        Errno::ISDIR => FileProblem::IsDirectory,
        Errno::NOTDIR => FileProblem::NotDirectory,
        Errno::NOTEMPTY => FileProblem::NotEmpty,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => FileProblem::NoRoom,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FileProblem::Denied,
        Errno::XDEV => FileProblem::CrossesMounts,
        Errno::STALE => FileProblem::LayersChanged,
        Errno::BUSY | Errno::AGAIN | Errno::TXTBSY => FileProblem::Busy,
        Errno::INVAL | Errno::NAMETOOLONG | Errno::LOOP => FileProblem::BadPath,
        _ => FileProblem::Other,
    }
}

impl Explain for FileError {
    fn code(&self) -> &'static str {
        match self.problem {
            FileProblem::NotFound => "file_not_found",
            FileProblem::Exists => "file_exists",
            FileProblem::Changed => "file_changed",
            FileProblem::NotAFile => "not_a_file",
            FileProblem::IsDirectory => "is_a_directory",
            FileProblem::NotDirectory => "not_a_directory",
            FileProblem::NotEmpty => "directory_not_empty",
            FileProblem::NoRoom => "no_room",
            FileProblem::Denied => "file_denied",
            FileProblem::CrossesMounts => "crosses_mounts",
            FileProblem::LayersChanged => "layers_changed",
            FileProblem::Busy => "file_busy",
            FileProblem::BadPath => "bad_path",
            FileProblem::Other => "file_error",
        }
    }

    fn kind(&self) -> Kind {
        match self.problem {
            FileProblem::NotFound => Kind::NotFound,
            FileProblem::Exists | FileProblem::Changed | FileProblem::NotEmpty => Kind::Conflict,
            FileProblem::NotAFile | FileProblem::IsDirectory | FileProblem::NotDirectory => Kind::Invalid,
            FileProblem::CrossesMounts | FileProblem::BadPath => Kind::Invalid,
            FileProblem::NoRoom => Kind::Exhausted,
            FileProblem::Denied => Kind::Forbidden,
            FileProblem::LayersChanged | FileProblem::Busy => Kind::Unavailable,
            FileProblem::Other => kind_of(&io::Error::from_raw_os_error(self.errno)),
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        match self.problem {
            FileProblem::Changed => vec!["read it again: another process changed it".into()],
            FileProblem::LayersChanged | FileProblem::Busy => vec!["try again in a moment".into()],
            FileProblem::CrossesMounts => vec!["copy it and delete the original".into()],
            _ => Vec::new(),
        }
    }

    fn retryable(&self) -> bool {
        matches!(self.problem, FileProblem::LayersChanged | FileProblem::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(reason: Reason, errno: i32) -> Result<FileError, Failed> {
        FileError::of("/x".into(), Failed { reason, message: "/x: why".into(), errno })
    }

    #[test]
    fn what_the_keeper_says_has_a_code_and_a_kind() {
        for (errno, code, kind) in [
            (Errno::NOENT, "file_not_found", Kind::NotFound),
            (Errno::NOSPC, "no_room", Kind::Exhausted),
            (Errno::XDEV, "crosses_mounts", Kind::Invalid),
            (Errno::STALE, "layers_changed", Kind::Unavailable),
            (Errno::IO, "file_error", Kind::Internal),
        ] {
            let error = error(Reason::File, errno.raw_os_error()).unwrap();
            assert_eq!((error.code(), error.kind()), (code, kind));
        }
        assert_eq!(error(Reason::OtherVersion, 0).unwrap().code(), "file_changed");
        assert!(error(Reason::Ending, 0).is_err());
    }
}
