//! How a change set is told to programs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_diff::granted::{self, Attribute};
use whatif_diff::noise::is_package_cache;
use whatif_diff::text::Content;
use whatif_diff::{Base, Blocked, Change, ChangeKind, Flag, Kind, PackageGroup, Packages, State, Unreadable, acl, shown_path};
use whatif_types::Status;
use whatif_types::text::Text;

use super::Diff;
use crate::merge::CONTEXT_LINES;

/// The JSON form of a change set.
#[derive(Debug, Serialize)]
pub struct Document {
    pub sandbox: Whose,
    pub digest: String,
    pub drift: Vec<Drifted>,
    pub stats: Stats,
    pub changes: Vec<Told>,
    pub collapsed: Vec<Collapsed>,
    /// What package managers installed and removed. The changes say which of them they belong to.
    pub packages: Vec<PackageGroup>,
    /// What package managers downloaded, which is not listed.
    pub package_caches: Caches,
    #[serde(with = "whatif_types::text::paths")]
    pub unreadable: Vec<PathBuf>,
    /// The cause for each of them.
    pub unreadable_because: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Whose {
    pub id: String,
    pub name: String,
    #[serde(with = "whatif_types::text::path")]
    pub project: PathBuf,
    pub status: Status,
}

/// A path where reality moved on under a change of the sandbox.
#[derive(Debug, Serialize)]
pub struct Drifted {
    pub path: Text,
    /// `added`, `changed` or `deleted`, in reality.
    pub kind: &'static str,
    /// Where it is `changed`: whether it was there before is not known.
    pub perhaps_added: bool,
    pub base: Base,
}

#[derive(Debug, Default, Serialize)]
pub struct Stats {
    pub files: u64,
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
    pub renamed: u64,
    pub added_lines: u64,
    pub deleted_lines: u64,
    pub bytes: u64,
    pub outside: u64,
    pub ignored: u64,
}

#[derive(Debug, Serialize)]
pub struct Collapsed {
    pub path: Text,
    pub files: u64,
    pub deleted: u64,
    pub bytes: u64,
}

/// Files in caches outside the project.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Caches {
    pub files: u64,
    pub bytes: u64,
}

/// One change.
#[derive(Debug, Serialize)]
pub struct Told {
    pub id: String,
    pub path: Text,
    pub old_path: Option<Text>,
    pub kind: ChangeKind,
    #[serde(rename = "type")]
    pub kind_of_file: Kind,
    pub binary: bool,
    pub added_lines: Option<usize>,
    pub deleted_lines: Option<usize>,
    pub flags: Vec<Flag>,
    pub outside: bool,
    pub ignored: bool,
    pub blocked: Option<Blocked>,
    pub base: Base,
    pub similarity: Option<u8>,
    pub old_mode: Option<String>,
    pub new_mode: Option<String>,
    pub old_owner: Option<(u32, u32)>,
    pub new_owner: Option<(u32, u32)>,
    pub old_size: Option<u64>,
    pub new_size: Option<u64>,
    pub link: Option<Text>,
    /// Extended attributes that are not what they were; null if they cannot be read.
    pub attributes: Option<Vec<ToldAttribute>>,
    pub hard_link: Option<Text>,
    /// Where the sandbox has what it took away from here, if that is not a rename.
    pub moved_to: Option<Text>,
    /// The number, from zero, of what it belongs to among `packages`.
    pub package: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hunks: Option<Vec<ToldHunk>>,
}

/// An access control list is written as `setfacl` takes it, everything else as it is.
#[derive(Debug, Serialize)]
pub struct ToldAttribute {
    pub name: Text,
    pub old: Option<Text>,
    pub new: Option<Text>,
}

#[derive(Debug, Serialize)]
pub struct ToldHunk {
    /// As `apply --hunks FILE:N` takes it.
    pub number: usize,
    pub before_start: usize,
    pub before_lines: usize,
    pub after_start: usize,
    pub after_lines: usize,
    /// Only if they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<(char, Text)>>,
}

impl Diff {
    /// For programs. `wanted` chooses among the changes; the digest is over all of them.
    #[must_use]
    pub fn document(&self, wanted: impl Fn(&Change) -> bool, with_lines: bool) -> Document {
        let project = &self.sandbox.project;
        let changes: Vec<Told> =
            self.set.changes.iter().filter(|c| wanted(c)).map(|c| told(c, project, with_lines, &self.set.packages)).collect();
        let mut stats = Stats { bytes: self.set.bytes, ..Stats::default() };
        for (change, told) in self.set.changes.iter().filter(|c| wanted(c)).zip(&changes) {
            stats.count(change, told);
        }
        let drifted =
            self.set.changes.iter().filter(|c| wanted(c)).flat_map(|c| c.drifted_parts().map(|part| (c.drift_at(part), part)));
        let text = |path: &Path| Text::from(shown_path(path, project));
        Document {
            sandbox: Whose {
                id: self.sandbox.id.to_string(),
                name: self.title.clone(),
                project: project.clone(),
                status: self.sandbox.status,
            },
            digest: self.set.digest.clone(),
            drift: drifted
                .map(|(moved, part)| Drifted {
                    path: text(&part.path),
                    kind: moved.kind(),
                    perhaps_added: moved.is_perhaps_added(),
                    base: part.base,
                })
                .collect(),
            stats,
            changes,
            collapsed: self
                .set
                .collapsed
                .iter()
                .map(|c| Collapsed { path: text(&c.path), files: c.files, deleted: c.deleted, bytes: c.bytes })
                .collect(),
            packages: self.set.packages.groups().to_vec(),
            package_caches: self.package_caches(),
            unreadable: self.set.unreadable.iter().map(|u| u.path.clone()).collect(),
            unreadable_because: self.set.unreadable.iter().map(Unreadable::why).collect(),
        }
    }
}

impl Diff {
    /// Whether a change is a download of a package manager, which nobody wants to read the names of. What must not be overlooked
    /// never is.
    #[must_use]
    pub fn is_in_package_cache(&self, change: &Change) -> bool {
        change.outside && !change.needs_approval() && is_package_cache(&change.path)
    }

    fn package_caches(&self) -> Caches {
        let mut caches = Caches::default();
        for change in self.set.changes.iter().filter(|c| !c.is_directory() && self.is_in_package_cache(c)) {
            caches.files += 1;
            caches.bytes += change.after.as_ref().map_or(0, |after| after.node.size);
        }
        caches
    }
}

impl Stats {
    fn count(&mut self, change: &Change, told: &Told) {
        if change.is_directory() && matches!(change.kind, ChangeKind::Add | ChangeKind::Delete) {
            return;
        }
        self.files += 1;
        match change.kind {
            ChangeKind::Add | ChangeKind::Special => self.added += 1,
            ChangeKind::Delete => self.deleted += 1,
            ChangeKind::Rename => self.renamed += 1,
            _ => self.modified += 1,
        }
        self.added_lines += told.added_lines.unwrap_or(0) as u64;
        self.deleted_lines += told.deleted_lines.unwrap_or(0) as u64;
        self.outside += u64::from(change.outside);
        self.ignored += u64::from(change.ignored);
    }
}

fn told(change: &Change, project: &Path, with_lines: bool, packages: &Packages) -> Told {
    let text = |path: &Path| Text::from(shown_path(path, project));
    let content = change.content();
    let (counts, hunks) = match &content {
        Content::Text { before, after } => {
            let hunks = whatif_patch::hunks(before, after, CONTEXT_LINES);
            let hunks = hunks.into_iter().enumerate().map(|(index, hunk)| told_hunk(index + 1, hunk, with_lines)).collect();
            (Some(whatif_patch::counts(before, after)), Some(hunks))
        }
        _ => (None, None),
    };
    let mode = |s: &Option<State>| s.as_ref().map(|s| format!("{:04o}", s.node.mode));
    let owner = |s: &Option<State>| s.as_ref().map(|s| (s.node.uid, s.node.gid));
    let size = |s: &Option<State>| s.as_ref().map(|s| s.node.size);
    let link = change.after.as_ref().filter(|a| a.node.kind == Kind::Link).and_then(|a| a.target().ok());
    Told {
        id: change.id(),
        path: text(&change.path),
        old_path: change.old_path().map(text),
        kind: change.kind,
        kind_of_file: change.shown_kind(),
        binary: matches!(content, Content::Binary | Content::Large | Content::Unreadable),
        added_lines: counts.map(|c| c.0),
        deleted_lines: counts.map(|c| c.1),
        flags: change.flags.clone(),
        outside: change.outside,
        ignored: change.ignored,
        blocked: change.blocked,
        base: change.base,
        similarity: change.similarity,
        old_mode: mode(&change.before),
        new_mode: mode(&change.after),
        old_owner: owner(&change.before),
        new_owner: owner(&change.after),
        old_size: size(&change.before),
        new_size: size(&change.after),
        link: link.as_ref().map(Text::from),
        attributes: granted::attributes(change).ok().map(|all| all.iter().map(told_attribute).collect()),
        hard_link: change.linked.as_ref().map(|linked| text(linked.path())),
        moved_to: change.moved_to.first().map(|to| text(to)),
        package: packages.around(&change.path),
        hunks,
    }
}

fn told_attribute(attribute: &Attribute) -> ToldAttribute {
    let value = |value: &Option<Vec<u8>>| {
        value.as_ref().map(|value| match attribute.is_access_list() {
            true => Text::Plain(acl::short(value)),
            false => Text::from(OsStr::from_bytes(value)),
        })
    };
    ToldAttribute { name: Text::from(&attribute.name), old: value(&attribute.before), new: value(&attribute.after) }
}

fn told_hunk(number: usize, hunk: whatif_patch::Hunk, with_lines: bool) -> ToldHunk {
    let lines = || {
        hunk.lines.iter().map(|line| {
            let sign = match line.kind {
                whatif_patch::LineKind::Context => ' ',
                whatif_patch::LineKind::Added => '+',
                whatif_patch::LineKind::Removed => '-',
            };
            (sign, Text::from(OsStr::from_bytes(&line.text)))
        })
    };
    ToldHunk {
        number,
        before_start: hunk.before_start,
        before_lines: hunk.before_lines,
        after_start: hunk.after_start,
        after_lines: hunk.after_lines,
        lines: with_lines.then(|| lines().collect()),
    }
}
