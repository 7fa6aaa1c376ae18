//! What of a plan goes into a commit, path by path.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use whatif_apply::{Change as Act, Kind, Operation, Plan, Source};
use whatif_diff::content;
use whatif_types::remedy;
use whatif_types::remedy::{Choice, Value};

use super::Person;
use super::own::{self, LONGEST, Mixed, Version, file_mode};
use super::tracked::Tracked;
use crate::EngineError;
use crate::git::{Git, GitError, InIndex, UNMERGED};

/// Commands of `git fast-import`, ready to be fed.
#[derive(Debug, Default)]
pub(super) struct Entries {
    deleted: HashSet<PathBuf>,
    written: Vec<u8>,
    /// Where reality has no file yet.
    made: Vec<PathBuf>,
    pub count: usize,
    pub apart: Vec<PathBuf>,
    /// Where edits of the user's own stay uncommitted.
    pub own: Vec<PathBuf>,
    /// Where they hold what the sandbox changed.
    pub already: Vec<PathBuf>,
    /// What is to be staged where something was staged before, by paths relative to the repository.
    pub index: HashMap<PathBuf, InIndex>,
    mixed: Vec<(PathBuf, Mixed)>,
}

/// One path of a plan in a repository.
struct Place<'a> {
    path: &'a Path,
    relative: &'a Path,
    git: &'a Git,
    tracked: &'a Tracked,
}

impl Entries {
    pub(super) fn of(plan: &Plan, git: &Git) -> Result<Self, EngineError> {
        let mut entries = Self::default();
        let paths: Vec<PathBuf> = plan.operations.iter().map(|o| o.absolute(&plan.roots)).collect();
        let tracked = Tracked::of(git)?;
        let others = Others::of(git, &tracked, &paths)?;
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
            let place = Place { path, relative, git, tracked: &tracked };
            if let Err(mixed) = entries.add(plan, operation, &place)? {
                entries.mixed.push((relative.to_owned(), mixed));
            }
        }
        entries.make_room(&tracked);
        entries.check()
    }

    /// A file takes the place of a directory, or the other way round, only where the sandbox deleted what was there.
    fn make_room(&mut self, tracked: &Tracked) {
        let goes = |path: &Path| self.deleted.contains(path);
        let in_the_way =
            |path: &PathBuf| tracked.in_the_way(path, &goes).map(|other| (path.clone(), Mixed::InTheWay(other.to_owned())));
        let found: Vec<_> = self.made.iter().filter_map(in_the_way).collect();
        self.mixed.extend(found);
    }

    fn check(self) -> Result<Self, EngineError> {
        const MOST_NAMED: usize = 5;
        if self.mixed.is_empty() {
            return Ok(self);
        }
        let named = self.mixed.iter().take(MOST_NAMED).map(|(path, why)| format!("{} {}", path.display(), why.in_words()));
        let more = self.mixed.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Err(GitError::Failed {
            action: "commit",
            message: named.collect::<Vec<_>>().join("; ") + &more,
            remedy: remedy![
                "nothing was applied. Commit or stash your own work first, leave these files out (",
                Choice::Exclude(Value::Unsaid),
                "), or apply without ",
                Choice::Commit
            ],
        }
        .into())
    }

    fn add(&mut self, plan: &Plan, operation: &Operation, place: &Place<'_>) -> Result<Result<(), Mixed>, EngineError> {
        if place.tracked.index.get(place.relative).is_some_and(|i| i.mode == UNMERGED) {
            return Ok(Err(Mixed::Staged));
        }
        let was_file = operation.expected.identity().is_some_and(|i| matches!(i.kind, Kind::File | Kind::Link));
        match &operation.change {
            Act::Remove | Act::Put { source: Source::Directory, .. } if was_file => self.delete(place),
            Act::Remove | Act::Put { source: Source::Directory, .. } => Ok(Ok(())),
            Act::Set { attributes } if was_file => self.set_mode(place, file_mode(attributes.mode)),
            Act::Set { .. } => Ok(Ok(())),
            Act::Put { source, attributes } => {
                let new = written(plan, source, attributes.mode)?;
                if was_file { self.replace(place, new) } else { self.make(place, new) }
            }
        }
    }

    fn delete(&mut self, place: &Place<'_>) -> Result<Result<(), Mixed>, EngineError> {
        let (head, index) = (place.tracked.head.get(place.relative), place.tracked.index.get(place.relative));
        let Some(head) = head else { return Ok(Ok(())) };
        // What is staged only there would be nowhere any more.
        if let Some(index) = index.filter(|i| *i != head)
            && !index.holds(&own::real(place.path, place.relative, place.git)?.bytes, place.git)?
        {
            return Ok(Err(Mixed::Staged));
        }
        self.deleted.insert(place.relative.to_owned());
        self.count += 1;
        Ok(Ok(()))
    }

    /// A file of which only the attributes change: otherwise as the last commit has it.
    fn set_mode(&mut self, place: &Place<'_>, mode: &'static str) -> Result<Result<(), Mixed>, EngineError> {
        let Some(head) = place.tracked.head.get(place.relative) else { return Ok(Err(Mixed::Untracked)) };
        if head.mode == mode {
            return Ok(Ok(()));
        }
        let index = place.tracked.index.get(place.relative);
        if index != Some(head) {
            let kept = index.map_or(InIndex::AsItIs, |i| InIndex::Blob { mode, id: i.id.clone() });
            self.index.insert(place.relative.to_owned(), kept);
        }
        self.written.extend([b"M ", mode.as_bytes(), b" ", head.id.as_bytes(), b" ", &quoted(place.relative), b"\n"].concat());
        self.count += 1;
        Ok(Ok(()))
    }

    /// Where reality has no file.
    fn make(&mut self, place: &Place<'_>, new: Version) -> Result<Result<(), Mixed>, EngineError> {
        let (head, index) = (place.tracked.head.get(place.relative), place.tracked.index.get(place.relative));
        if let Some(index) = index.filter(|i| Some(*i) != head)
            && !new.is(index, place.git)?
        {
            return Ok(Err(Mixed::Staged));
        }
        if place.tracked.skipped.contains(place.relative) {
            return Ok(Err(Mixed::Unseen));
        }
        self.made.push(place.relative.to_owned());
        self.write(place, &new)?;
        Ok(Ok(()))
    }

    fn replace(&mut self, place: &Place<'_>, new: Version) -> Result<Result<(), Mixed>, EngineError> {
        let (head, index) = (place.tracked.head.get(place.relative), place.tracked.index.get(place.relative));
        let Some(head) = head else { return Ok(Err(Mixed::Untracked)) };
        let real = own::real(place.path, place.relative, place.git)?;
        let (version, keeps_own) = match own::committed(head, &real, new, place.git)? {
            Ok(committed) => committed,
            Err(mixed) => return Ok(Err(mixed)),
        };
        if index != Some(head) {
            let kept = match own::staged(head, index, &version, place.git)? {
                Ok(Some(staged)) => InIndex::Content { mode: staged.mode, bytes: staged.bytes },
                Ok(None) => InIndex::AsItIs,
                Err(mixed) => return Ok(Err(mixed)),
            };
            self.index.insert(place.relative.to_owned(), kept);
        }
        if keeps_own {
            self.own.push(place.path.to_owned());
        }
        self.write(place, &version)?;
        Ok(Ok(()))
    }

    /// Nothing that the last commit has already.
    fn write(&mut self, place: &Place<'_>, version: &Version) -> Result<(), EngineError> {
        if let Some(head) = place.tracked.head.get(place.relative)
            && version.is(head, place.git)?
        {
            return Ok(());
        }
        let bytes = &version.bytes;
        self.written.extend([b"M ", version.mode.as_bytes(), b" inline ", &quoted(place.relative), b"\n"].concat());
        self.written.extend(format!("data {}\n", bytes.len()).bytes());
        self.written.extend(bytes);
        self.written.push(b'\n');
        self.count += 1;
        Ok(())
    }

    /// The input of `git fast-import`, which answers with the commit. Deletions come first: a file may take the place of a directory.
    pub(super) fn stream(&self, parent: Option<&str>, person: &Person<'_>, message: &str) -> Vec<u8> {
        // Fast-import wants a branch to commit to. Without the reset at the end it would make it.
        let reference = "refs/whatif/commit";
        let (author, when) = (person.author, person.when());
        let mut stream =
            format!("commit {reference}\nmark :1\nauthor {author} {when}\ncommitter {author} {when}\ndata {}\n", message.len())
                .into_bytes();
        stream.extend(message.bytes());
        stream.push(b'\n');
        if let Some(parent) = parent {
            stream.extend(format!("from {parent}\n").bytes());
        }
        for path in &self.deleted {
            stream.extend([b"D ".as_slice(), &quoted(path), b"\n"].concat());
        }
        stream.extend(&self.written);
        // Told, and known under no name: nothing has to be cleaned up.
        stream.extend(format!("\nget-mark :1\nreset {reference}\n\ndone\n").bytes());
        stream
    }
}

/// Those of these files that have edits which the last commit does not have.
pub(super) fn uncommitted(paths: &[PathBuf], git: &Git) -> Result<Vec<PathBuf>, EngineError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let tracked = Tracked::of(git)?;
    let others = Others::of(git, &tracked, paths)?;
    let mut found = Vec::new();
    for path in paths {
        let Ok(relative) = path.strip_prefix(&git.root) else { continue };
        if others.hold(relative) || relative.components().any(|c| c.as_os_str() == ".git") {
            continue;
        }
        let real = own::real(path, relative, git)?;
        let is_committed = match tracked.head.get(relative) {
            Some(head) => matches!(own::committed(head, &real, real.clone(), git)?, Ok((_, false))),
            None => false,
        };
        if !is_committed {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// Submodules and nested repositories: what is in them is theirs.
struct Others(HashSet<PathBuf>);

impl Others {
    fn of(git: &Git, tracked: &Tracked, paths: &[PathBuf]) -> Result<Self, EngineError> {
        let mut others: HashSet<PathBuf> = tracked.submodules().map(Path::to_owned).collect();
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

pub(super) fn is_directory(operation: &Operation) -> bool {
    match &operation.change {
        Act::Put { source, .. } => matches!(source, Source::Directory),
        _ => operation.expected.identity().is_some_and(|i| i.kind == Kind::Directory),
    }
}

fn written(plan: &Plan, source: &Source, mode: u32) -> Result<Version, EngineError> {
    let file = |bytes| Version { mode: file_mode(mode), bytes };
    Ok(match source {
        Source::Link(target) => Version { mode: "120000", bytes: target.clone().into_vec() },
        Source::Bytes(bytes) => file(bytes.clone()),
        Source::File(from) | Source::Original(from) => {
            file(content::read_up_to(from, LONGEST).map_err(|e| EngineError::io("read", from, e))?)
        }
        Source::Approved(approved) => file(approved.read(LONGEST).map_err(|e| EngineError::io("read", &approved.path, e))?),
        Source::Existing(existing) => written(plan, &Source::File(existing.absolute(&plan.roots)), mode)?,
        Source::HardLink(first) => match plan.operations.get(*first).map(|o| &o.change) {
            Some(Act::Put { source, .. }) if !matches!(source, Source::HardLink(_)) => written(plan, source, mode)?,
            _ => file(Vec::new()),
        },
        Source::Directory => file(Vec::new()),
    })
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
