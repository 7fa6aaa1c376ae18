//! `whatif status`: how far reality has moved since a sandbox was made, and what of it matters to the sandbox.

mod document;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use whatif_diff::ignored::Rules;
use whatif_diff::{Base, Bases, Change, ChangeSet, Depth, Kind, Moved, Node, PackageGroup, State, Time, Unreadable};
use whatif_overlay::Format;
use whatif_sys::absence::MeansAbsent;
use whatif_types::{Sandbox, Selector};

use crate::changes::Changes;
use crate::changes::apply::{IN_DOUBT, Outlook, filled, is_in_doubt, outlook};
use crate::changes::rebase::has_markers;
use crate::git::Git;
use crate::ground::changed::seconds;
use crate::ground::still::Binding;
use crate::merge::can_be_marked;
use crate::{EngineError, now};

#[derive(Debug)]
pub struct Standing {
    pub sandbox: Sandbox,
    /// Since it was made or last rebased.
    pub age_ms: u64,
    /// Files, with those that `diff` only counts.
    pub changes: usize,
    /// How many of them the project ignores, and how many lie outside it.
    pub ignored: usize,
    pub outside: usize,
    /// What package managers installed and removed, which is counted there too.
    pub packages: Vec<PackageGroup>,
    /// Paths in which a rebase left markers that nobody has settled.
    pub unsettled: Vec<PathBuf>,
    /// Everything in the project that moved in reality.
    pub drift: Vec<Drift>,
    /// Directories of the project in which names came or went since, without anything that is there telling which.
    pub lost_names: Vec<PathBuf>,
    /// Reality has no directory at the project's path any more. Nothing else is said of it then.
    pub project_is_missing: bool,
    /// What the sandbox or reality closed to this user.
    pub unreadable: Vec<Unreadable>,
}

/// One path of reality that is not as it was.
#[derive(Clone, Debug)]
pub struct Drift {
    pub path: PathBuf,
    pub kind: Moved,
    /// What that means for a change of the sandbox at the same path.
    pub collides: Option<Outlook>,
    /// Why that is a conflict, as an apply says it.
    pub why: Option<&'static str>,
    /// What is known of the version the sandbox started from, where it changed the path.
    pub base: Option<Base>,
    /// It may have happened before the sandbox was made.
    pub perhaps_before: bool,
    /// The sandbox's change at the same path is one that an apply leaves out unless it is asked for it: the project ignores it, or it
    /// lies outside.
    pub left_out: bool,
    /// A rebase puts both sides of the conflict into the file.
    pub can_be_marked: bool,
}

impl Standing {
    /// With what an apply takes.
    #[must_use]
    pub fn collisions(&self) -> usize {
        self.drift.iter().filter(|d| matches!(d.collides, Some(Outlook::Merges | Outlook::Conflict)) && !d.left_out).count()
    }

    #[must_use]
    pub fn conflicts(&self) -> usize {
        self.drift.iter().filter(|d| d.is_conflict()).count()
    }
}

impl Drift {
    /// Whether an apply would have to be told which side counts.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.collides == Some(Outlook::Conflict) && !self.left_out
    }
}

/// The changes of which an apply would have to be told which side counts, and why.
#[must_use]
pub fn conflicts_in(set: &ChangeSet) -> HashMap<PathBuf, &'static str> {
    let filled = filled(set);
    let drifted = set.changes.iter().filter(|change| change.has_drifted());
    let conflict = |change: &Change| {
        let parts = change.drifted_parts().map(|part| verdict(change, part, &filled));
        let why = parts.filter(|(outlook, _)| *outlook == Outlook::Conflict).map(|(_, why)| why).next()?;
        Some((change.path.clone(), why.unwrap_or("both changed it")))
    };
    drifted.filter_map(conflict).collect()
}

/// What an apply makes of a change where reality moved. `part` is it, or of a rename one of its ends.
fn verdict(change: &Change, part: &Change, filled: &HashSet<&OsStr>) -> (Outlook, Option<&'static str>) {
    let whole = if change.has_lost_its_source() { change } else { part };
    if is_in_doubt(whole, filled) { (Outlook::Conflict, Some(IN_DOUBT)) } else { outlook(whole) }
}

impl Changes {
    pub fn status(&self, which: &Selector) -> Result<Standing, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let found = self.ground.find_changes(&sandbox)?.complete(&sandbox.project)?;
        let mut gone: HashSet<PathBuf> = found.gone.iter().cloned().collect();
        let set = self.ground.sort_out(&sandbox, found, Depth::Names, Binding::LOOSE)?;
        // Of a directory that an apply could not take away, part may be left in reality.
        gone.extend(set.changes.iter().filter(|c| c.is_directory() && c.after.is_none()).map(|c| c.path.clone()));
        let since = sandbox.details.based_at.unwrap_or(sandbox.created_at);
        let files = || set.changes.iter().filter(|c| !c.is_directory());
        let changes = files().count();
        let outside = files().filter(|c| c.outside).count();
        let ignored = files().filter(|c| c.ignored && !c.outside).count();
        let packages = set.packages.groups().to_vec();
        if !self.ground.has_project(&sandbox)? {
            let age_ms = now().saturating_sub(since);
            let (unsettled, drift, lost_names, unreadable) = (Vec::new(), Vec::new(), Vec::new(), set.unreadable);
            return Ok(Standing {
                sandbox,
                age_ms,
                changes,
                ignored,
                outside,
                packages,
                unsettled,
                drift,
                lost_names,
                project_is_missing: true,
                unreadable,
            });
        }
        let config = self.ground.caller.config_for(&sandbox.project)?;
        let walk = self.walk(&sandbox.project, since, &config.diff.ignore)?;
        let lost_names = self.lost_names(&sandbox, walk.renamed_in, &walk.explained)?;
        let mut drift = walk.drift;
        let bases = self.ground.bases(&sandbox)?;
        drift.retain(|path, _| !is_as_known(path, &bases));
        // What the sandbox deleted too is no news to it: mostly its own apply did that.
        drift.retain(|path, kind| *kind != Moved::Deleted || !path.ancestors().any(|above| gone.contains(above)));
        // When a file went is not written anywhere. That it did is known where a change of the sandbox is about it.
        let mut perhaps_before: HashSet<PathBuf> =
            drift.iter().filter(|(_, kind)| **kind == Moved::Deleted).map(|(path, _)| path.clone()).collect();
        // What happens in a directory moves its times; what happened to it is known where the sandbox has a part of it.
        let in_project = |path: &&Path| path.starts_with(&sandbox.project);
        let changed = bases.changed_directories()?.into_iter();
        drift.extend(changed.filter(in_project).map(|path| (path.to_owned(), Moved::Changed)));
        let copied = self.ground.directories_changed_since_copied(&sandbox)?.into_iter();
        let is_news = |path: &PathBuf| in_project(&path.as_path()) && bases.get(path).is_none();
        drift.extend(copied.filter(is_news).map(|path| (path, Moved::Changed)));
        // Where the sandbox changed something, what it started from is known exactly.
        for path in set.changes.iter().flat_map(|c| [Some(c), c.deletion.as_deref()]).flatten().map(|c| &c.path) {
            drift.remove(path);
            perhaps_before.remove(path);
        }
        let mut colliding: BTreeMap<&Path, (Outlook, Option<&'static str>, Base)> = BTreeMap::new();
        let (mut markable, mut left_out): (HashSet<&Path>, HashSet<&Path>) = Default::default();
        let filled = filled(&set);
        for change in &set.changes {
            for part in change.drifted_parts() {
                drift.insert(part.path.clone(), change.drift_at(part));
                let whole = if change.has_lost_its_source() { change } else { part };
                let (outlook, why) = verdict(change, part, &filled);
                colliding.insert(&part.path, (outlook, why, part.base));
                if can_be_marked(whole) {
                    markable.insert(&part.path);
                }
                if change.ignored || change.outside {
                    left_out.insert(&part.path);
                }
            }
        }
        let drift = drift.into_iter().map(|(path, kind)| {
            let known = colliding.get(path.as_path()).copied();
            let (collides, why, base) = (known.map(|k| k.0), known.and_then(|k| k.1), known.map(|k| k.2));
            let (can_be_marked, left_out) = (markable.contains(path.as_path()), left_out.contains(path.as_path()));
            Drift { collides, why, base, perhaps_before: perhaps_before.contains(&path), left_out, can_be_marked, path, kind }
        });
        let drift = drift.collect();
        let mut unsettled = Vec::new();
        for change in set.changes.iter().filter(|_| sandbox.details.based_at.is_some()) {
            if has_markers(change)? {
                unsettled.push(change.path.clone());
            }
        }
        Ok(Standing {
            age_ms: now().saturating_sub(since),
            changes,
            ignored,
            outside,
            packages,
            unsettled,
            drift,
            lost_names,
            project_is_missing: false,
            unreadable: [walk.unreadable, set.unreadable].concat(),
            sandbox,
        })
    }
}

/// Whether reality is what the sandbox is known to have started from, or what an apply of it wrote. What cannot be looked at is not
/// known to be.
fn is_as_known(path: &Path, bases: &Bases) -> bool {
    let (Some(known), Ok(Some(now))) = (bases.get(path), Node::of(path)) else { return false };
    let has_same_identity = (now.dev, now.ino, now.ctime) == (known.node.dev, known.node.ino, known.node.ctime);
    let now = State::new(now, path.to_owned(), Format::None);
    // An undo brings the same back with another time.
    has_same_identity || matches!(bases.start_of(path, Some(&now), None, Time::default()), Ok((_, Base::Reality)))
}

impl Changes {
    /// The directories whose names moved, but for those where something that is there explains it, or an apply of the sandbox.
    fn lost_names(
        &self,
        sandbox: &Sandbox,
        moved: Vec<PathBuf>,
        explained: &HashSet<PathBuf>,
    ) -> Result<Vec<PathBuf>, EngineError> {
        let mut unexplained: Vec<PathBuf> = moved.into_iter().filter(|directory| !explained.contains(directory)).collect();
        if unexplained.is_empty() {
            return Ok(unexplained);
        }
        for page in self.history()?.iter().filter(|page| page.sandbox_id == sandbox.id.as_str()) {
            // One that does not name all its paths may explain everything.
            let names_all = page.paths.len() == page.files;
            unexplained.retain(|directory| names_all && !page.paths.iter().any(|path| path.parent() == Some(directory)));
        }
        unexplained.sort();
        Ok(unexplained)
    }

    /// The paths of a project that moved in reality since then, without those it ignores.
    pub(crate) fn moved_in(&self, project: &Path, since: u64) -> Result<Vec<PathBuf>, EngineError> {
        let ignore = self.ground.caller.config_for(project)?.diff.ignore;
        Ok(self.walk(project, since, &ignore)?.drift.into_keys().collect())
    }

    fn walk<'a>(&self, project: &'a Path, since: u64, ignore: &[String]) -> Result<Walk<'a>, EngineError> {
        let mut walk = Walk {
            project,
            since: seconds(since),
            tracked: tracked(project, since, &self.ground.caller)?,
            seen: HashSet::new(),
            drift: BTreeMap::new(),
            renamed_in: Vec::new(),
            explained: HashSet::new(),
            unreadable: Vec::new(),
            masked: vec![self.ground.state.root().to_owned()],
        };
        walk.run(&mut Rules::new(project, &[], ignore))?;
        walk.missing()?;
        Ok(walk)
    }
}

/// What git knows of the project.
struct Tracked {
    paths: HashSet<PathBuf>,
    /// It knew all of it when the sandbox was made.
    is_from_before: bool,
}

impl Tracked {
    /// What happened to a path that is there. A fresh file may have replaced one that was there, as editors and git do; an older one
    /// may have come from elsewhere, but only into a directory in which names came or went.
    fn moved(&self, path: &Path, is_fresh: bool, names_moved: bool) -> Moved {
        let is_tracked = self.paths.contains(path);
        match (is_tracked, is_fresh) {
            _ if !names_moved || is_tracked && self.is_from_before => Moved::Changed,
            (false, true) => Moved::Added,
            _ => Moved::AddedOrChanged,
        }
    }
}

/// Nothing if there is no git.
fn tracked(project: &Path, since: u64, caller: &crate::Caller) -> Result<Tracked, EngineError> {
    let Some(git) = Git::around(project, &caller.home, caller.is_root())? else {
        return Ok(Tracked { paths: HashSet::new(), is_from_before: false });
    };
    // In a worktree it is elsewhere, and nothing is known of when it was written.
    let index = Node::of(&git.root.join(".git/index"))?;
    let is_from_before = index.is_some_and(|index| index.mtime <= seconds(since));
    Ok(Tracked { paths: git.list(&[])?.into_iter().filter(|p| p.starts_with(project)).collect(), is_from_before })
}

struct Walk<'a> {
    project: &'a Path,
    since: Time,
    tracked: Tracked,
    seen: HashSet<PathBuf>,
    drift: BTreeMap<PathBuf, Moved>,
    /// Directories in which names came or went: only that moves the time of their content.
    renamed_in: Vec<PathBuf>,
    /// Those that have something in them that came, or was replaced, since.
    explained: HashSet<PathBuf>,
    unreadable: Vec<Unreadable>,
    masked: Vec<PathBuf>,
}

impl Walk<'_> {
    /// Everything in the project that the project does not ignore.
    fn run(&mut self, rules: &mut Rules<'_>) -> Result<(), Unreadable> {
        let top = Node::of(self.project)?;
        let dev = top.as_ref().map(|n| n.dev);
        let mut pending = vec![(self.project.to_owned(), top.is_some_and(|n| n.mtime > self.since))];
        while let Some((directory, has_moved)) = pending.pop() {
            if has_moved {
                self.renamed_in.push(directory.clone());
            }
            let entries = match std::fs::read_dir(&directory).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
                Ok(entries) => entries,
                Err(error) => {
                    self.pass_over(Unreadable::of(&directory, &error))?;
                    continue;
                }
            };
            for path in entries.into_iter().map(|e| e.path()) {
                let node = match Node::of(&path) {
                    Ok(Some(node)) => node,
                    Ok(None) => continue,
                    Err(unreadable) => {
                        self.pass_over(unreadable)?;
                        continue;
                    }
                };
                let is_directory = node.kind == Kind::Directory;
                // What happens in a directory moves its change time too, and says nothing about the one above.
                let is_only_written_to = is_directory && node.mtime > self.since && node.btime.is_none_or(|b| b <= self.since);
                if has_moved && node.ctime > self.since && !is_only_written_to {
                    self.explained.insert(directory.clone());
                }
                if self.masked.contains(&path) || rules.is_ignored(&path, is_directory) {
                    continue;
                }
                if is_directory {
                    // Another file system is not part of the project's tree.
                    if Some(node.dev) == dev {
                        pending.push((path, node.mtime > self.since));
                    }
                    continue;
                }
                // A file that was only given another name there has nothing new in it. What git knows by that name may have been another.
                let is_renamed = has_moved && node.mtime <= self.since && node.btime.is_some_and(|b| b <= self.since);
                let is_known_elsewhere = is_renamed && !self.tracked.paths.is_empty() && !self.tracked.paths.contains(&path);
                if node.ctime > self.since && !is_known_elsewhere {
                    let is_fresh = node.btime.is_some_and(|b| b > self.since);
                    self.drift.insert(path.clone(), self.tracked.moved(&path, is_fresh, has_moved));
                }
                if !self.tracked.paths.is_empty() {
                    self.seen.insert(path);
                }
            }
        }
        Ok(())
    }

    /// A project may hold what is closed to its user. Everything else must be known.
    fn pass_over(&mut self, unreadable: Unreadable) -> Result<(), Unreadable> {
        if unreadable.cause.means_absent() {
            return Ok(());
        }
        if !unreadable.is_closed() {
            return Err(unreadable);
        }
        self.unreadable.push(unreadable);
        Ok(())
    }

    /// What git expects, is not there, and was taken out of its directory since.
    fn missing(&mut self) -> Result<(), Unreadable> {
        for path in self.tracked.paths.difference(&self.seen) {
            let mut looked = path.ancestors().map(Node::of);
            // The first is the path itself.
            let is_gone = match looked.next() {
                Some(Err(unreadable)) if unreadable.is_closed() => false,
                Some(found) => found?.is_none(),
                None => false,
            };
            if !is_gone {
                continue;
            }
            let around = looked.find_map(Result::transpose).transpose()?;
            if around.is_some_and(|n| n.ctime > self.since) {
                self.explained.extend(path.parent().map(Path::to_owned));
                self.drift.insert(path.clone(), Moved::Deleted);
            }
        }
        Ok(())
    }
}
