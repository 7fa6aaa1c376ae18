//! Keeps the user's own uncommitted work out of a commit.
//!
//! What an apply does to a file is done to the version of the last commit instead: three sides, of which the file in reality, with
//! the user's edits in it, is the common one. The same goes for what is staged. Where that does not come out clean, nothing is
//! applied: a commit that takes somebody's work along cannot be told from one that does not.

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use whatif_patch::Merge;

use super::tracked::Entry;
use crate::EngineError;
use crate::git::Git;

/// Larger files are not read into a commit.
pub(super) const LONGEST: u64 = 1 << 30;

/// A file or a link, as git keeps it.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub mode: &'static str,
    pub bytes: Vec<u8>,
}

/// Why a path cannot be committed without something of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mixed {
    Untracked,
    Edited,
    Staged,
    /// Left out of the checkout, so the sandbox made its file without knowing that there is one.
    Unseen,
    /// A commit cannot have both, and the sandbox did not delete that one.
    InTheWay(PathBuf),
}

impl Mixed {
    pub(super) fn in_words(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Untracked => "is not in the last commit, and all of it would get into this one",
            Self::Edited => "has uncommitted edits of yours that cannot be told from those of the sandbox",
            Self::Staged => "has staged edits of yours that would be lost",
            Self::Unseen => "is outside your sparse checkout, and the sandbox did not see git's version of it",
            Self::InTheWay(other) => {
                let other = other.display();
                return format!("cannot be in one commit with {other}, which git has and the sandbox did not delete").into();
            }
        })
    }
}

impl Version {
    pub(super) fn is_link(&self) -> bool {
        self.mode == "120000"
    }

    pub(super) fn is(&self, entry: &Entry, git: &Git) -> Result<bool, EngineError> {
        Ok(self.mode == entry.mode && entry.holds(&self.bytes, git)?)
    }
}

/// What reality has at a path now, before the apply. No link on the way is followed.
pub(super) fn real(path: &Path, relative: &Path, git: &Git) -> Result<Version, EngineError> {
    let failed = |e: std::io::Error| EngineError::io("read", path, e);
    let open = |directory: &_, path: &Path, flags: OFlags| {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(directory, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), how)
    };
    let root = rustix::fs::openat(CWD, &git.root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(|e| failed(e.into()))?;
    match open(&root, relative, OFlags::RDONLY | OFlags::NONBLOCK) {
        Ok(file) => {
            let file = std::fs::File::from(file);
            let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().map_err(failed)?);
            let mut bytes = Vec::new();
            file.take(LONGEST).read_to_end(&mut bytes).map_err(failed)?;
            Ok(Version { mode: file_mode(mode), bytes })
        }
        Err(rustix::io::Errno::LOOP) => {
            let parent = relative.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let parent = open(&root, parent, OFlags::PATH | OFlags::DIRECTORY).map_err(|e| failed(e.into()))?;
            let name = relative.file_name().unwrap_or_default();
            let target = rustix::fs::readlinkat(&parent, name, Vec::new()).map_err(|e| failed(e.into()))?;
            Ok(Version { mode: "120000", bytes: target.into_bytes() })
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// The version of the last commit, with what the apply makes of `real`: it becomes `new`. The second value tells whether something
/// of the user's stays uncommitted.
pub(super) fn committed(
    head: &Entry,
    real: &Version,
    new: Version,
    git: &Git,
) -> Result<Result<(Version, bool), Mixed>, EngineError> {
    let is_plain = !real.is_link() && !new.is_link() && !head.is_link();
    if !is_plain {
        let fits = real.is(head, git)? || new.is(head, git)?;
        return Ok(if fits { Ok((new, false)) } else { Err(Mixed::Edited) });
    }
    // A mode that only the user changed stays the user's.
    let mode = if real.mode == new.mode { file_mode_of(head) } else { new.mode };
    if head.holds(&real.bytes, git)? {
        return Ok(Ok((Version { mode, ..new }, mode != new.mode)));
    }
    let last = head.bytes(git)?;
    // The same lines, checked out with other ends.
    if real.bytes.contains(&b'\r') && without_returns(&real.bytes) == without_returns(&last) {
        return Ok(Ok((Version { mode, ..new }, false)));
    }
    Ok(merged(&real.bytes, &last, &new.bytes).map(|bytes| (Version { mode, bytes }, true)).ok_or(Mixed::Edited))
}

/// What is staged, with what was committed on top. None if it is not staged at all, and to stay so.
pub(super) fn staged(
    head: &Entry,
    index: Option<&Entry>,
    committed: &Version,
    git: &Git,
) -> Result<Result<Option<Version>, Mixed>, EngineError> {
    let Some(index) = index else { return Ok(Ok(None)) };
    if index.is_link() || head.is_link() || committed.is_link() {
        return Ok(if committed.is(index, git)? { Ok(Some(committed.clone())) } else { Err(Mixed::Staged) });
    }
    let mode = if index.mode == head.mode { committed.mode } else { file_mode_of(index) };
    let merged = merged(&head.bytes(git)?, &index.bytes(git)?, &committed.bytes);
    Ok(merged.map(|bytes| Some(Version { mode, bytes })).ok_or(Mixed::Staged))
}

fn merged(base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let is_sure = ours == theirs || theirs == base || ours == base;
    if !is_sure && [base, ours, theirs].into_iter().any(whatif_patch::is_binary) {
        return None;
    }
    match whatif_patch::merge(base, ours, theirs) {
        Merge::Clean(bytes) => Some(bytes),
        Merge::Conflicted(_) => None,
    }
}

fn without_returns(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|b| *b != b'\r').collect()
}

fn file_mode_of(entry: &Entry) -> &'static str {
    if entry.mode == "100755" { "100755" } else { "100644" }
}

pub(super) fn file_mode(mode: u32) -> &'static str {
    if mode & 0o100 != 0 { "100755" } else { "100644" }
}
