//! Where links lead, component by component, as the kernel goes. Their words alone do not tell: what they name may be a link too.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;
use whatif_sys::absence::MeansAbsent;
use whatif_types::mask::without_steps_up;

use crate::change::Change;
use crate::node::Kind;
use crate::unreadable::Unreadable;

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;
/// Names that are looked at for one link. With links in the place of others there may be many ways to go.
const MOST_STEPS: usize = 4096;

/// Links that may be there after an apply.
#[derive(Debug)]
pub(super) struct Ways<'a> {
    project: &'a Path,
    /// What the sandbox has, if that is a link; it may have taken one away.
    changed: HashMap<PathBuf, Option<PathBuf>>,
    /// What reality has, as far as it was asked.
    real: RefCell<HashMap<PathBuf, Option<PathBuf>>>,
}

/// Where a path leads.
#[derive(Debug, Default)]
pub(super) struct Led {
    /// What it would be if a link on the way were none, for each of them.
    pub through: Vec<PathBuf>,
    /// More than one if it depends on what is applied.
    pub to: Vec<PathBuf>,
}

/// A place on a way, and what is still ahead.
struct Walker {
    at: PathBuf,
    ahead: PathBuf,
    links: usize,
}

impl<'a> Ways<'a> {
    /// As reality is.
    pub(super) fn of_reality(project: &'a Path) -> Self {
        Self { project, changed: HashMap::new(), real: RefCell::default() }
    }

    /// As it will be after an apply of all changes or of some of them: each link may be applied or not.
    pub(super) fn after(changes: &[Change], project: &'a Path) -> Self {
        let mut ways = Self::of_reality(project);
        let is_link = |change: &&Change| {
            let states = [&change.before, &change.after].into_iter().flatten();
            states.map(|state| state.node.kind).any(|kind| kind == Kind::Link)
        };
        for change in changes.iter().filter(is_link) {
            let link = change.after.as_ref().filter(|after| after.node.kind == Kind::Link);
            // One that cannot be read is reported where it is judged itself.
            ways.changed.insert(change.path.clone(), link.and_then(|link| link.target().ok()));
        }
        ways
    }

    /// Where `path` leads, seen from a directory without links on its way. An error means that it may be anywhere.
    pub(super) fn lead(&self, directory: &Path, path: &Path) -> Result<Led, Unreadable> {
        let mut led = Led::default();
        let mut walkers = vec![Walker { at: directory.to_owned(), ahead: path.to_owned(), links: 0 }];
        for _ in 0..MOST_STEPS {
            let Some(walker) = walkers.pop() else { return Ok(led) };
            self.step(walker, &mut walkers, &mut led)?;
        }
        Err(Unreadable::new(&directory.join(path), Errno::LOOP))
    }

    fn step(&self, walker: Walker, walkers: &mut Vec<Walker>, led: &mut Led) -> Result<(), Unreadable> {
        let Walker { mut at, ahead, links } = walker;
        let mut components = ahead.components();
        let name = match components.next() {
            None => {
                led.to.push(at);
                return Ok(());
            }
            Some(Component::Normal(name)) => name,
            Some(other) => {
                match other {
                    Component::ParentDir => _ = at.pop(),
                    Component::RootDir => at = PathBuf::from("/"),
                    _ => {}
                }
                walkers.push(Walker { at, ahead: components.as_path().to_owned(), links });
                return Ok(());
            }
        };
        let (next, ahead) = (at.join(name), components.as_path());
        let (targets, is_plain) = self.alternatives(&next)?;
        if !targets.is_empty() {
            // Nobody gets further, so this way leads nowhere.
            if links == MOST_LINKS {
                return Ok(());
            }
            led.through.push(without_steps_up(&next.join(ahead)));
        }
        walkers.extend(targets.into_iter().map(|target| Walker { at: at.clone(), ahead: target.join(ahead), links: links + 1 }));
        if is_plain {
            walkers.push(Walker { at: next, ahead: ahead.to_owned(), links });
        }
        Ok(())
    }

    /// The targets that a link may have here, and whether there may be something else than a link, or nothing.
    fn alternatives(&self, path: &Path) -> Result<(Vec<PathBuf>, bool), Unreadable> {
        // A project has no links above it, and an apply changes none there.
        if self.project.starts_with(path) {
            return Ok((Vec::new(), true));
        }
        let real = self.real(path)?;
        let changed = self.changed.get(path);
        let is_plain = real.is_none() || changed.is_some_and(Option::is_none);
        let mut targets = Vec::from_iter(real);
        targets.extend(changed.cloned().flatten().filter(|changed| !targets.contains(changed)));
        Ok((targets, is_plain))
    }

    fn real(&self, path: &Path) -> Result<Option<PathBuf>, Unreadable> {
        if let Some(known) = self.real.borrow().get(path) {
            return Ok(known.clone());
        }
        let found = match std::fs::read_link(path) {
            Ok(target) => Some(target),
            Err(error) => match Errno::from_io_error(&error) {
                // Not a link, or nothing.
                Some(Errno::INVAL | Errno::LOOP) => None,
                Some(errno) if errno.means_absent() => None,
                _ => return Err(Unreadable::of(path, &error)),
            },
        };
        self.real.borrow_mut().insert(path.to_owned(), found.clone());
        Ok(found)
    }
}
