//! What a plan does to branches and the like, and what is wrong with that.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use whatif_apply::Change as Act;
use whatif_diff::git_index;
use whatif_sys::absence::{self, OrAbsent};

use super::locks::entries;
use super::store::{MISSING, NO_GIT};
use super::{Put, Repository};
use crate::EngineError;

/// Something that git could not make sense of afterwards.
#[derive(Debug)]
pub(crate) struct Fault {
    pub path: PathBuf,
    pub why: &'static str,
}

impl Fault {
    /// Whether a conflict is about one. The sandbox's version would not mend it.
    pub(crate) fn says(why: &str) -> bool {
        [CHECKED_OUT, NOT_PACKED, MISSING, NO_GIT].contains(&why)
    }
}

const CHECKED_OUT: &str = "is the branch that is checked out in reality by now";
const NOT_PACKED: &str = "would be lost: the sandbox has it in packed-refs, which is left out";

/// Of files that are read as a whole. A sandbox can make one of any length, which takes no space.
const LONGEST: u64 = 128 << 20;

impl Repository<'_> {
    /// What is at a path once the plan is carried out.
    pub(super) fn after(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.acts.get(path) {
            None | Some(Act::Set { .. }) => file(path),
            Some(Act::Remove) => Ok(None),
            Some(Act::Put { source, .. }) => match self.put(source) {
                Put::File(at) => file(&at),
                Put::Bytes(bytes) => Ok(Some(bytes.to_vec())),
                // A branch may be called after another one by a link.
                Put::Link(target) => Ok(Some([b"ref: ", target.as_bytes()].concat())),
                Put::Directory => Ok(None),
            },
        }
    }

    /// The objects that each file of the plan refers to. `with_index`: what is staged as well.
    pub(super) fn new_tips(&self, with_index: bool) -> Result<BTreeMap<PathBuf, BTreeSet<String>>, EngineError> {
        let mut tips = BTreeMap::new();
        for path in self.acts.iter().filter(|(_, act)| matches!(act, Act::Put { .. })).map(|(path, _)| path) {
            let Ok(within) = path.strip_prefix(&self.directory) else { continue };
            let kind = Kind::of(within);
            if kind == Kind::Other || kind == Kind::Index && !with_index {
                continue;
            }
            let bytes = self.after(path).map_err(|e| EngineError::io("read", path, e))?.unwrap_or_default();
            let ids = if kind == Kind::Index { git_index::staged_ids(&bytes).unwrap_or_default() } else { ids_in(&bytes) };
            tips.insert(path.clone(), ids.into_iter().collect());
        }
        Ok(tips)
    }

    /// The objects that reality's branches and the like stand on.
    pub(super) fn old_tips(&self) -> Result<HashSet<String>, EngineError> {
        let failed = |e| EngineError::io("read the branches of", &self.directory, e);
        let mut tips = HashSet::new();
        let mut waiting = vec![self.directory.join("refs"), self.directory.join("packed-refs"), self.directory.join("HEAD")];
        while let Some(path) = waiting.pop() {
            match fs::metadata(&path).or_absent().map_err(failed)? {
                Some(meta) if meta.is_dir() => waiting.extend(entries(&path).map_err(failed)?),
                Some(_) => tips.extend(ids_in(&file(&path).map_err(failed)?.unwrap_or_default())),
                None => {}
            }
        }
        Ok(tips)
    }

    /// What is staged in reality.
    pub(super) fn staged(&self) -> Result<HashSet<String>, EngineError> {
        let index = self.directory.join("index");
        let bytes = file(&index).map_err(|e| EngineError::io("read", &index, e))?.unwrap_or_default();
        Ok(git_index::staged_ids(&bytes).unwrap_or_default().into_iter().collect())
    }

    /// Branches that the plan takes away although they are checked out in reality since `since`, in milliseconds since 1970.
    pub(crate) fn checked_out(&self, since: u64) -> Result<Vec<Fault>, EngineError> {
        let mut faults = Vec::new();
        let failed = |e| EngineError::io("read the branches of", &self.directory, e);
        let worktrees = entries(&self.directory.join("worktrees")).map_err(failed)?;
        let heads = [self.directory.to_path_buf()].into_iter().chain(worktrees).map(|d| d.join("HEAD"));
        for head in heads.filter(|head| !self.acts.contains_key(head)) {
            // One that was there all the time was there when the sandbox took its branch away.
            if !is_younger(&head, since).map_err(failed)? {
                continue;
            }
            let Some(name) = self.after(&head).map_err(failed)?.as_deref().and_then(branch_in) else { continue };
            let path = self.directory.join(&name);
            let was_there = absence::exists(&path).map_err(failed)? || self.is_packed(&name, file).map_err(failed)?;
            let is_there = self.after(&path).map_err(failed)?.is_some()
                || self.is_packed(&name, |packed| self.after(packed)).map_err(failed)?;
            if was_there && !is_there {
                faults.push(Fault { path, why: CHECKED_OUT });
            }
        }
        Ok(faults)
    }

    /// Branches that the plan takes away because the sandbox packed them, without the file that they are packed in.
    pub(crate) fn not_packed(&self, packed_by_sandbox: &[u8]) -> Result<Vec<Fault>, EngineError> {
        let packed = self.directory.join("packed-refs");
        let there = self.after(&packed).map_err(|e| EngineError::io("read", &packed, e))?.unwrap_or_default();
        let removed = self.acts.iter().filter(|(_, act)| matches!(act, Act::Remove)).map(|(path, _)| path);
        let is_lost = |path: &&PathBuf| {
            let name = path.strip_prefix(&self.directory).unwrap_or(path);
            names_in(packed_by_sandbox).any(|n| n == name) && !names_in(&there).any(|n| n == name)
        };
        Ok(removed.filter(is_lost).map(|path| Fault { path: path.clone(), why: NOT_PACKED }).collect())
    }

    fn is_packed(&self, name: &Path, read: impl Fn(&Path) -> io::Result<Option<Vec<u8>>>) -> io::Result<bool> {
        let packed = read(&self.directory.join("packed-refs"))?.unwrap_or_default();
        Ok(names_in(&packed).any(|n| n == name))
    }
}

/// The bytes of a file, by whatever links it is reached. Nothing else is read: a pipe would keep us waiting.
fn file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path).or_absent()? {
        Some(meta) if meta.is_file() && meta.len() > LONGEST => Err(too_long()),
        Some(meta) if meta.is_file() => File::open(path).or_absent()?.map(read).transpose(),
        _ => Ok(None),
    }
}

/// It may grow after it was measured.
fn read(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST { Err(too_long()) } else { Ok(bytes) }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 128 MiB, which no file of git's that is read here should be")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ref,
    Index,
    Other,
}

impl Kind {
    fn of(within: &Path) -> Self {
        let mut parts: Vec<&[u8]> = within.iter().map(OsStrExt::as_bytes).collect();
        // Of a linked work tree.
        if let [b"worktrees", _, ..] = parts[..] {
            parts.drain(..2);
        }
        match parts[..] {
            [b"index"] => Self::Index,
            [b"refs", .., _] | [b"packed-refs"] => Self::Ref,
            [name] if name.ends_with(b"HEAD") => Self::Ref,
            _ => Self::Other,
        }
    }
}

/// The id at the beginning of each line: that is how branches, `HEAD`, `FETCH_HEAD` and packed references look. A line that begins with
/// `^` has what the tag before it refers to.
fn ids_in(bytes: &[u8]) -> Vec<String> {
    let is_id = |word: &&[u8]| matches!(word.len(), 40 | 64) && word.iter().all(u8::is_ascii_hexdigit);
    let words = bytes.split(|b| *b == b'\n').filter_map(|line| line.split(u8::is_ascii_whitespace).next());
    words.map(|word| word.strip_prefix(b"^").unwrap_or(word)).filter(is_id).map(|id| String::from_utf8_lossy(id).into()).collect()
}

/// What is packed in `packed-refs`.
fn names_in(packed: &[u8]) -> impl Iterator<Item = &Path> {
    let lines = packed.split(|b| *b == b'\n').filter(|line| !line.starts_with(b"#"));
    lines.filter_map(|line| line.splitn(2, |b| *b == b' ').nth(1)).map(|name| Path::new(std::ffi::OsStr::from_bytes(name)))
}

/// What a `HEAD` says is checked out. `None` if that is a commit, or nothing within the directory.
fn branch_in(head: &[u8]) -> Option<PathBuf> {
    let name = PathBuf::from(std::ffi::OsStr::from_bytes(head.strip_prefix(b"ref: ")?.trim_ascii()));
    name.components().all(|c| matches!(c, std::path::Component::Normal(_))).then_some(name)
}

fn is_younger(path: &Path, than: u64) -> io::Result<bool> {
    let Some(meta) = absence::look(path)? else { return Ok(false) };
    let changed_ms = meta.ctime().saturating_mul(1000).saturating_add(meta.ctime_nsec() / 1_000_000);
    Ok(u64::try_from(changed_ms).is_ok_and(|changed_ms| changed_ms >= than))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_refers_to_objects_is_told_by_its_path() {
        let is = |path: &str, kind: Kind| Kind::of(Path::new(path)) == kind;
        assert!(["HEAD", "ORIG_HEAD", "refs/heads/a/b", "packed-refs", "worktrees/w/HEAD"].iter().all(|p| is(p, Kind::Ref)));
        assert!(["index", "worktrees/w/index"].iter().all(|p| is(p, Kind::Index)));
        assert!(["logs/HEAD", "config", "refs", "hooks/index", "objects/aa/HEAD"].iter().all(|p| is(p, Kind::Other)));
    }

    #[test]
    fn ids_and_names_of_packed_references_are_read() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let packed = format!("# pack-refs with: peeled\n{one} refs/heads/a b\n{two} refs/tags/t\n^{one}\n");
        assert_eq!(ids_in(packed.as_bytes()), [one.clone(), two, one]);
        assert_eq!(names_in(packed.as_bytes()).collect::<Vec<_>>(), [Path::new("refs/heads/a b"), Path::new("refs/tags/t")]);
        assert!(ids_in(b"ref: refs/heads/main\n").is_empty());
    }

    #[test]
    fn a_head_leads_nowhere_else() {
        assert_eq!(branch_in(b"ref: refs/heads/main\n"), Some(PathBuf::from("refs/heads/main")));
        assert_eq!(branch_in(b"ref: ../../etc/passwd\n"), None);
        assert_eq!(branch_in(b"ref: /etc/passwd\n"), None);
    }
}
