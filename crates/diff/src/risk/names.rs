//! Other names that files have through links of reality, such as `.git/hooks`, which leads to a directory of the project: who
//! changes a file there changes a hook.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_sys::absence::{self, OrAbsent};

use super::executed;
use super::folded;
use super::ways::Ways;
use crate::unreadable::Unreadable;

/// Entries that are looked at in directories that may hold what is executed, or that something was changed in. Every look at a sandbox
/// pays for this.
const MOST_LIKELY: usize = 5_000;
/// Entries in the rest of the project, which may be of any size: those at the top come first.
const MOST_OTHERS: usize = 500;
/// Directories that may hold what is executed are looked into so far below a project's directory, and below a home, which has a lot of
/// them.
const DEPTH: usize = 2;
const DEPTH_AT_HOME: usize = 1;
/// Links to directories that a name goes through. They may lead round in circles.
const MOST_LINKS: usize = 4;

/// Names that could make what they lead to something that is executed.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By the parts, folded, of the path that they lead to.
    by_target: HashMap<Vec<String>, Vec<PathBuf>>,
    /// Directories on the way to one.
    above: HashSet<PathBuf>,
}

impl Names {
    /// Those that count for changes at these paths. An error means that there may be more.
    pub(super) fn of<'a>(homes: &[PathBuf], project: &Path, paths: impl Iterator<Item = &'a Path>) -> (Self, Option<Unreadable>) {
        let device = match absence::look(project) {
            Ok(found) => found.map(|found| found.dev()),
            Err(error) => return (Self::default(), Some(Unreadable::of(project, &error))),
        };
        let mut search = Search::new(project, device);
        search.add_first(project, DEPTH);
        for home in homes {
            search.add_first(home, DEPTH_AT_HOME);
        }
        for path in paths {
            // Who has been here has been further up as well.
            let new = path.ancestors().skip(1).take_while(|above| above.starts_with(project) && search.add_likely(above, DEPTH));
            new.for_each(drop);
        }
        search.go();
        (search.found, search.unreadable)
    }

    /// The other names of a path.
    pub(super) fn of_path(&self, path: &Path) -> Vec<PathBuf> {
        if self.by_target.is_empty() {
            return Vec::new();
        }
        let parts = folded::parts(path);
        let called = |length: usize| {
            let (target, rest) = parts.split_at(length);
            let names = self.by_target.get(target).into_iter().flatten();
            names.map(move |name| name.iter().map(AsRef::as_ref).chain(rest.iter().map(Path::new)).collect::<PathBuf>())
        };
        (1..=parts.len()).flat_map(called).collect()
    }

    /// Whether a link here would lead such a name elsewhere.
    pub(super) fn lead_through(&self, path: &Path) -> bool {
        self.above.contains(path)
    }

    fn add(&mut self, name: &Path, target: &Path, project: &Path) {
        let within = target.ancestors().take_while(|above| !project.starts_with(above));
        self.above.extend(within.map(Path::to_owned));
        let names = self.by_target.entry(folded::parts(target)).or_default();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
}

struct Search<'a> {
    project: &'a Path,
    device: Option<u64>,
    ways: Ways<'a>,
    /// The project, the homes and what they hold. The sandbox does not choose these, so it cannot use up what they may take.
    first: VecDeque<Directory>,
    likely: VecDeque<Directory>,
    others: VecDeque<Directory>,
    seen: HashSet<PathBuf>,
    found: Names,
    unreadable: Option<Unreadable>,
}

struct Directory {
    at: PathBuf,
    /// Its name, if links lead to it.
    called: PathBuf,
    links: usize,
    /// How much further down it is looked.
    depth: usize,
    is_first: bool,
}

impl<'a> Search<'a> {
    fn new(project: &'a Path, device: Option<u64>) -> Self {
        Self {
            project,
            device,
            ways: Ways::of_reality(project),
            first: VecDeque::new(),
            likely: VecDeque::new(),
            others: VecDeque::new(),
            seen: HashSet::new(),
            found: Names::default(),
            unreadable: None,
        }
    }

    /// Whether it is a new one.
    fn add_likely(&mut self, directory: &Path, depth: usize) -> bool {
        let is_new = self.seen.insert(directory.to_owned());
        if is_new {
            self.likely.push_back(Directory {
                at: directory.to_owned(),
                called: directory.to_owned(),
                links: 0,
                depth,
                is_first: false,
            });
        }
        is_new
    }

    fn add_first(&mut self, directory: &Path, depth: usize) {
        if self.seen.insert(directory.to_owned()) {
            let (at, called) = (directory.to_owned(), directory.to_owned());
            self.first.push_back(Directory { at, called, links: 0, depth, is_first: true });
        }
    }

    fn add(&mut self, found: Directory) {
        if found.is_first { self.first.push_back(found) } else { self.likely.push_back(found) }
    }

    fn go(&mut self) {
        let (mut first, mut likely, mut others) = (MOST_LIKELY, MOST_LIKELY, MOST_OTHERS);
        loop {
            let queues = [(&mut self.first, &mut first), (&mut self.likely, &mut likely), (&mut self.others, &mut others)];
            let next = queues.into_iter().filter(|(_, left)| **left > 0).find_map(|(queue, left)| Some((queue.pop_front()?, left)));
            let Some((directory, left)) = next else { return };
            match self.look_into(&directory, *left) {
                Ok(looked_at) => *left = left.saturating_sub(looked_at + 1),
                // What is closed to the caller is closed to their tools, and so is a path that is too long or leads nowhere.
                Err(unreadable) if unreadable.is_closed() || matches!(unreadable.cause, Errno::NAMETOOLONG | Errno::LOOP) => {}
                Err(unreadable) => self.unreadable = self.unreadable.take().or(Some(unreadable)),
            }
        }
    }

    /// How many entries were looked at.
    fn look_into(&mut self, directory: &Directory, most: usize) -> Result<usize, Unreadable> {
        let failed = |error: io::Error| Unreadable::of(&directory.at, &error);
        let mut looked_at = 0;
        for entry in fs::read_dir(&directory.at).or_absent().map_err(failed)?.into_iter().flatten().take(most) {
            let entry = entry.map_err(failed)?;
            looked_at += 1;
            let kind = match entry.file_type().or_absent().map_err(failed)? {
                Some(kind) if kind.is_dir() || kind.is_symlink() => kind,
                _ => continue,
            };
            let called = directory.called.join(entry.file_name());
            let is_likely = executed::could_be_executed(&called, self.project);
            if kind.is_symlink() {
                if is_likely {
                    self.follow(&called, directory, Path::new(&entry.file_name()))?;
                }
                continue;
            }
            let at = entry.path();
            // What was reached by another name is looked at again for the sake of that name, and what waits for its turn among the
            // changes comes first if it is one of the first.
            let is_new = self.seen.insert(at.clone()) || directory.links > 0 || directory.is_first && is_likely;
            let is_other = directory.links == 0 && at.starts_with(self.project);
            let found = Directory {
                at,
                called,
                links: directory.links,
                depth: directory.depth.saturating_sub(1),
                is_first: directory.is_first,
            };
            match (is_new, is_likely) {
                (true, true) if directory.depth > 0 => self.add(found),
                (true, false) if is_other && self.is_of_the_project(&found.at)? => self.others.push_back(found),
                _ => {}
            }
        }
        Ok(looked_at)
    }

    /// Whether it lies on the file system of the project. Something else that is mounted there may be slow, broken or `/proc`.
    fn is_of_the_project(&self, directory: &Path) -> Result<bool, Unreadable> {
        match absence::look(directory) {
            Ok(found) => Ok(found.is_some_and(|found| Some(found.dev()) == self.device)),
            Err(error) => match Unreadable::of(directory, &error) {
                unreadable if unreadable.is_closed() || unreadable.cause == Errno::NOTCONN => Ok(false),
                unreadable => Err(unreadable),
            },
        }
    }

    fn follow(&mut self, called: &Path, from: &Directory, name: &Path) -> Result<(), Unreadable> {
        let led = match self.ways.lead(&from.at, name) {
            Ok(led) => led,
            // It leads nowhere.
            Err(unreadable) if unreadable.cause == Errno::LOOP => return Ok(()),
            Err(unreadable) => return Err(unreadable),
        };
        // The first one on the way is the link itself.
        for target in led.through.iter().skip(1).chain(&led.to) {
            self.found.add(called, target, self.project);
        }
        if from.links < MOST_LINKS {
            let (links, depth) = (from.links + 1, from.depth);
            for at in led.to {
                self.add(Directory { at, called: called.to_owned(), links, depth, is_first: from.is_first });
            }
        }
        Ok(())
    }
}
