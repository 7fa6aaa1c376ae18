//! What is executed because reality says so: what git is configured to run or obey, and programs that a shell finds by their name.

mod settings;
mod words;
mod work_tree;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_types::mask::without_steps_up;

use self::words::Named;
use self::work_tree::{Configured, links_in};
use super::folded::{self, is_short_for};
use super::ways::Ways;
use crate::change::Change;
use crate::node::Kind;
use crate::unreadable::Unreadable;

/// Whose tools will see what becomes real.
#[derive(Debug, Default)]
pub struct Account {
    /// The caller's, and where root works for somebody else, theirs.
    pub homes: Vec<PathBuf>,
    /// Git's configuration beside that of a repository.
    pub git_settings: Vec<PathBuf>,
    /// Where a shell looks for programs.
    pub search_path: Vec<PathBuf>,
}

/// Paths that are executed or obeyed.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<Place>);

#[derive(Debug)]
struct Place {
    parts: Vec<String>,
    reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reach {
    Itself,
    /// What lies directly in it.
    Entries,
    /// It and everything in it.
    All,
}

impl Places {
    /// What counts for these paths. An error means that there may be more.
    pub(super) fn of<'a>(account: &Account, project: &Path, paths: impl Iterator<Item = &'a Path>) -> (Self, Option<Unreadable>) {
        let mut finding = Finding { account, project, ways: Ways::of_reality(project), found: HashSet::new() };
        let error = finding.search_path().and_then(|()| finding.git(paths)).err();
        let places = finding.found.into_iter().map(|(path, reach)| Place { parts: folded::parts(&path), reach });
        (Self(places.collect()), error)
    }

    /// Whether the change is at such a path, or a link on the way to one or to what is in it.
    pub(super) fn hold(&self, change: &Change, targets: &[PathBuf], project: &Path) -> bool {
        if self.0.is_empty() || change.is_directory() {
            return false;
        }
        let is_link = change.after.as_ref().is_some_and(|after| after.node.kind == Kind::Link);
        let path = folded::parts(&change.path);
        let targets = targets.iter().filter(|target| !project.starts_with(target));
        let targets: Vec<Vec<String>> = targets.map(|target| folded::parts(target)).collect();
        let is_led_to = |place: &Place| targets.iter().any(|target| place.has(target) || place.is_in(target));
        self.0.iter().any(|place| place.has(&path) || is_link && place.is_in(&path) || is_led_to(place))
    }
}

impl Place {
    fn has(&self, path: &[String]) -> bool {
        let length = self.parts.len();
        let is_far_enough = match self.reach {
            Reach::Itself => path.len() == length,
            Reach::Entries => path.len() == length + 1,
            Reach::All => path.len() >= length,
        };
        is_far_enough && are_same(&self.parts, path)
    }

    fn is_in(&self, directory: &[String]) -> bool {
        self.parts.len() >= directory.len() && are_same(&self.parts, directory)
    }
}

/// As far as both go.
fn are_same(place: &[String], path: &[String]) -> bool {
    place.iter().zip(path).all(|(place, path)| place == path || is_short_for(path, place))
}

struct Finding<'a> {
    account: &'a Account,
    project: &'a Path,
    ways: Ways<'a>,
    found: HashSet<(PathBuf, Reach)>,
}

impl Finding<'_> {
    /// The caller's own programs, and those of the project, if they are called by their name. Those of the system are not: whoever
    /// applies a change to `/usr` wants it there.
    fn search_path(&mut self) -> Result<(), Unreadable> {
        let (account, project) = (self.account, self.project);
        let homes = account.homes.iter().map(|home| (home.join("bin"), Reach::All));
        // With `.` in it every directory is one.
        let searched = account.search_path.iter().map(|directory| (without_steps_up(&project.join(directory)), Reach::Entries));
        for (directory, reach) in homes.chain(searched).filter(|(directory, _)| directory != project) {
            self.add_own(self.leads_to(&directory)?, reach);
            // There are thousands of the system's, and who makes links there decides what is run anyway.
            let links = if self.is_own(&directory) { links_in(&directory)? } else { Vec::new() };
            for link in links {
                self.add_own(self.leads_to(&link)?, Reach::Itself);
            }
            self.add_own(vec![directory], reach);
        }
        Ok(())
    }

    fn add_own(&mut self, paths: Vec<PathBuf>, reach: Reach) {
        let own: Vec<PathBuf> = paths.into_iter().filter(|path| path != self.project && self.is_own(path)).collect();
        self.found.extend(own.into_iter().map(|path| (path, reach)));
    }

    fn is_own(&self, path: &Path) -> bool {
        path.starts_with(self.project) || self.account.homes.iter().any(|home| path.starts_with(home))
    }

    fn git<'p>(&mut self, paths: impl Iterator<Item = &'p Path>) -> Result<(), Unreadable> {
        let work_trees = work_tree::around(paths)?;
        let homes = &self.account.homes;
        let general = Configured::files(&self.account.git_settings, homes)?;
        // A project without a repository may get one.
        self.add_read(&general, self.project)?;
        for tree in work_trees {
            let own = Configured::files(&tree.settings, homes)?;
            self.add_read(&general, &tree.root)?;
            self.add_read(&own, &tree.root)?;
            self.add_links(&tree.hooks, &tree.root)?;
            // What is in the repository itself is known by its name.
            for place in [&tree.hooks, &tree.attributes].into_iter().chain(&tree.settings) {
                let real = self.leads_to(place)?.into_iter().filter(|real| !real.starts_with(&tree.common));
                self.found.extend(real.map(|real| (real, Reach::All)));
            }
        }
        Ok(())
    }

    /// What is named in settings, seen from the top of a work tree.
    fn add_read(&mut self, read: &Configured, root: &Path) -> Result<(), Unreadable> {
        for path in &read.included {
            self.add(path, root, Reach::All)?;
        }
        for setting in &read.settings {
            let is_in_shell = setting.value.contains(['$', '`']);
            for (named, word) in words::of(setting) {
                for path in words::paths(&word, root, &self.account.homes, is_in_shell) {
                    let path = without_steps_up(&path);
                    match named {
                        Named::Directory => {
                            let reach = if self.is_above(&path, root) { Reach::Entries } else { Reach::All };
                            self.add_whatever_it_holds(&path, reach)?;
                            self.add_links(&path, root)?;
                        }
                        Named::Path => self.add(&path, root, Reach::All)?,
                        Named::Word => self.add(&path, root, Reach::Itself)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn add_links(&mut self, directory: &Path, root: &Path) -> Result<(), Unreadable> {
        for link in links_in(directory)? {
            for path in self.leads_to(&link)? {
                self.add(&path, root, Reach::All)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, root: &Path, reach: Reach) -> Result<(), Unreadable> {
        // A command that mentions where everything is names nothing of it.
        if self.is_above(path, root) { Ok(()) } else { self.add_whatever_it_holds(path, reach) }
    }

    fn add_whatever_it_holds(&mut self, path: &Path, reach: Reach) -> Result<(), Unreadable> {
        if self.found.insert((path.to_owned(), reach)) {
            let real = self.leads_to(path)?;
            self.found.extend(real.into_iter().map(|real| (real, reach)));
        }
        Ok(())
    }

    /// What else a path is in reality, through links, whether or not something is there already.
    fn leads_to(&self, path: &Path) -> Result<Vec<PathBuf>, Unreadable> {
        match self.ways.lead(Path::new("/"), path) {
            Ok(led) => Ok(led.through.into_iter().chain(led.to).filter(|real| real != path).collect()),
            // What is closed to the caller is closed to their tools, and not every word is a path.
            Err(error) if error.is_closed() || matches!(error.cause, Errno::NAMETOOLONG | Errno::LOOP) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn is_above(&self, path: &Path, root: &Path) -> bool {
        let mut ours = self.account.homes.iter().map(PathBuf::as_path).chain([root, self.project]);
        ours.any(|ours| ours.starts_with(path))
    }
}
