//! What of a plan goes into a commit, path by path.

use std::collections::HashSet;

use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use whatif_apply::{Change as Act, Kind, Operation, Plan, Source};
use whatif_diff::content;

use super::Person;
use crate::EngineError;
use crate::git::Git;

/// Larger files are not read into a commit.
const LONGEST: u64 = 1 << 30;

/// Commands of `git fast-import`, ready to be fed.
#[derive(Debug, Default)]
pub(super) struct Entries {
    deleted: Vec<u8>,
    written: Vec<u8>,
    pub count: usize,
    pub apart: Vec<PathBuf>,
}

/// What git keeps of a file.
enum Content {
    Bytes(&'static str, Vec<u8>),
    /// The same bytes as in the last commit.
    Known(&'static str, String),
}

impl Entries {
    pub(super) fn of(plan: &Plan, git: &Git) -> Result<Self, EngineError> {
        let mut entries = Self::default();
        let paths: Vec<PathBuf> = plan.operations.iter().map(|o| o.absolute(&plan.roots)).collect();
        let others = Others::of(git, &paths)?;
        for (operation, path) in plan.operations.iter().zip(&paths) {
            let Ok(relative) = path.strip_prefix(&git.root) else { continue };
            // Git's own data is not part of a commit.
            if relative.as_os_str().is_empty() || relative.components().any(|c| c.as_os_str() == ".git") {
                continue;
            }
            if others.hold(relative) {
                if !is_directory(operation) {
                    entries.apart.push(path.clone());
                }
                continue;
            }
            entries.add(plan, operation, path, relative, git)?;
        }
        Ok(entries)
    }

    fn add(&mut self, plan: &Plan, operation: &Operation, path: &Path, relative: &Path, git: &Git) -> Result<(), EngineError> {
        let was_file = operation.expected.identity().is_some_and(|i| matches!(i.kind, Kind::File | Kind::Link));
        let content = match &operation.change {
            Act::Remove => None,
            Act::Set { attributes } if was_file => Some(unchanged(path, relative, attributes.mode, git)?),
            Act::Set { .. } => return Ok(()),
            Act::Put { source: Source::Directory, .. } => None,
            Act::Put { source, attributes } => Some(written(plan, source, attributes.mode)?),
        };
        let name = quoted(relative);
        match content {
            None if was_file => {
                self.deleted.extend([b"D ".as_slice(), &name, b"\n"].concat());
                self.count += 1;
            }
            None => {}
            Some(Content::Known(mode, id)) => {
                self.written.extend([b"M ", mode.as_bytes(), b" ", id.as_bytes(), b" ", &name, b"\n"].concat());
                self.count += 1;
            }
            Some(Content::Bytes(mode, bytes)) => {
                self.written.extend([b"M ", mode.as_bytes(), b" inline ", &name, b"\n"].concat());
                self.written.extend(format!("data {}\n", bytes.len()).bytes());
                self.written.extend(bytes);
                self.written.push(b'\n');
                self.count += 1;
            }
        }
        Ok(())
    }

    /// The input of `git fast-import`. Deletions come first: a file may take the place of a directory.
    pub(super) fn stream(&self, reference: &str, parent: Option<&str>, person: &Person<'_>, message: &str) -> Vec<u8> {
        let (author, when) = (person.author, person.when());
        let mut stream =
            format!("commit {reference}\nauthor {author} {when}\ncommitter {author} {when}\ndata {}\n", message.len()).into_bytes();
        stream.extend(message.bytes());
        stream.push(b'\n');
        if let Some(parent) = parent {
            stream.extend(format!("from {parent}\n").bytes());
        }
        stream.extend(&self.deleted);
        stream.extend(&self.written);
        stream.extend(b"done\n");
        stream
    }
}

/// Submodules and nested repositories: what is in them is theirs.
struct Others(HashSet<PathBuf>);

impl Others {
    fn of(git: &Git, paths: &[PathBuf]) -> Result<Self, EngineError> {
        let mut others = git.submodules()?;
        let mut known: HashSet<&Path> = HashSet::new();
        for path in paths.iter().filter_map(|p| p.strip_prefix(&git.root).ok()) {
            // One that this apply makes, or that is there.
            if path.file_name().is_some_and(|name| name == ".git") {
                others.extend(path.parent().filter(|p| !p.as_os_str().is_empty()).map(Path::to_owned));
            }
            for directory in path.ancestors().skip(1).filter(|d| !d.as_os_str().is_empty()) {
                if !known.insert(directory) {
                    break;
                }
                if is_there(&git.root.join(directory).join(".git"))? {
                    others.insert(directory.to_owned());
                }
            }
        }
        Ok(Self(others))
    }

    fn hold(&self, path: &Path) -> bool {
        path.ancestors().any(|directory| self.0.contains(directory))
    }
}

fn is_there(path: &Path) -> Result<bool, EngineError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(EngineError::io("examine", path, e)),
    }
}

fn is_directory(operation: &Operation) -> bool {
    match &operation.change {
        Act::Put { source, .. } => matches!(source, Source::Directory),
        _ => operation.expected.identity().is_some_and(|i| i.kind == Kind::Directory),
    }
}

fn written(plan: &Plan, source: &Source, mode: u32) -> Result<Content, EngineError> {
    Ok(match source {
        Source::Link(target) => Content::Bytes("120000", target.clone().into_vec()),
        Source::Bytes(bytes) => Content::Bytes(file_mode(mode), bytes.clone()),
        Source::File(from) | Source::Original(from) => {
            let bytes = content::read_up_to(from, LONGEST).map_err(|e| EngineError::io("read", from, e))?;
            Content::Bytes(file_mode(mode), bytes)
        }
        Source::HardLink(first) => match plan.operations.get(*first).map(|o| &o.change) {
            Some(Act::Put { source, .. }) if !matches!(source, Source::HardLink(_)) => written(plan, source, mode)?,
            _ => Content::Bytes(file_mode(mode), Vec::new()),
        },
        Source::Directory => Content::Bytes(file_mode(mode), Vec::new()),
    })
}

/// A file of which only the attributes change: as the last commit has it, or as it is if git does not know it.
fn unchanged(path: &Path, relative: &Path, mode: u32, git: &Git) -> Result<Content, EngineError> {
    if let Some(id) = git.committed_blob(relative)? {
        return Ok(Content::Known(file_mode(mode), id));
    }
    let failed = |e: std::io::Error| EngineError::io("read", path, e);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, &git.root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(|e| failed(e.into()))?;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(&root, relative, flags, Mode::empty(), how).map_err(|e| failed(e.into()))?;
    let mut bytes = Vec::new();
    std::fs::File::from(file).take(LONGEST).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Content::Bytes(file_mode(mode), bytes))
}

fn file_mode(mode: u32) -> &'static str {
    if mode & 0o100 != 0 { "100755" } else { "100644" }
}

/// As fast-import takes a path: in quotes, with everything unusual escaped.
fn quoted(path: &Path) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}
