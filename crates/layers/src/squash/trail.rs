//! Paths of any depth: a sandbox can nest directories deeper than any path the kernel takes at once.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};

/// What the kernel surely takes at once.
const LONGEST_LEG: usize = 4000;

/// A path below the root of a tree, as a chain of names: many that begin alike cost little more than one.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail(Option<Rc<Step>>);

#[derive(Debug)]
struct Step {
    parent: Trail,
    name: OsString,
}

impl Trail {
    pub(super) fn join(&self, name: &OsStr) -> Self {
        Self(Some(Rc::new(Step { parent: self.clone(), name: name.to_owned() })))
    }

    pub(super) fn is_root(&self) -> bool {
        self.0.is_none()
    }

    /// The directory and the name in it, except for the root.
    pub(super) fn split(&self) -> Option<(&Trail, &OsStr)> {
        self.0.as_ref().map(|step| (&step.parent, step.name.as_os_str()))
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        let (mut one, mut two) = (self, other);
        loop {
            match (&one.0, &two.0) {
                (None, None) => return true,
                (Some(a), Some(b)) if Rc::ptr_eq(a, b) => return true,
                (Some(a), Some(b)) if a.name == b.name => (one, two) = (&a.parent, &b.parent),
                _ => return false,
            }
        }
    }

    pub(super) fn to_path(&self) -> PathBuf {
        self.names().into_iter().collect()
    }

    fn names(&self) -> Vec<&OsStr> {
        self.names_after(None).1
    }

    /// The names that lead here from another trail if this one begins with it, else from the root; and whether it does.
    fn names_after(&self, start: Option<&Trail>) -> (bool, Vec<&OsStr>) {
        let mut names = Vec::new();
        let mut rest = self;
        let mut begins_with_it = false;
        while let Some(step) = &rest.0 {
            begins_with_it = start.and_then(|start| start.0.as_ref()).is_some_and(|start| Rc::ptr_eq(start, step));
            if begins_with_it {
                break;
            }
            names.push(step.name.as_os_str());
            rest = &step.parent;
        }
        names.reverse();
        (begins_with_it, names)
    }
}

/// A tree whose directories are opened by trails.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    /// A walk goes down most of the time: from here it is one name, and from the root perhaps ten thousand.
    recent: RefCell<Option<(Trail, Rc<OwnedFd>)>>,
}

impl Tree {
    pub(super) fn new(path: &Path) -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { root: open(path, flags, Mode::empty())?, recent: RefCell::default() })
    }

    /// Opens a directory for listing. Nothing on the way may be a link.
    pub(super) fn open(&self, trail: &Trail) -> rustix::io::Result<Rc<OwnedFd>> {
        let mut recent = self.recent.borrow_mut();
        let (is_below_recent, names) = trail.names_after(recent.as_ref().map(|(trail, _)| trail));
        let start = match recent.as_ref() {
            Some((_, directory)) if is_below_recent => directory,
            _ => &self.root,
        };
        let opened = Rc::new(open_from(start, &names)?);
        *recent = Some((trail.clone(), Rc::clone(&opened)));
        Ok(opened)
    }
}

/// Opens a directory however many names lead to it.
fn open_from(start: &OwnedFd, names: &[&OsStr]) -> rustix::io::Result<OwnedFd> {
    let mut reached: Option<OwnedFd> = None;
    let mut leg = PathBuf::from(".");
    for name in names {
        if leg.as_os_str().len() + name.len() > LONGEST_LEG {
            reached = Some(open_leg(reached.as_ref().unwrap_or(start), &leg, OFlags::PATH)?);
            leg = PathBuf::from(".");
        }
        leg.push(name);
    }
    open_leg(reached.as_ref().unwrap_or(start), &leg, OFlags::RDONLY)
}

/// Opens a directory beneath a held one.
pub(super) fn open_leg(at: impl AsFd, path: impl rustix::path::Arg, access: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(at, path, access | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// One after the other: the nested drops of a long chain would overflow the call stack.
impl Drop for Step {
    fn drop(&mut self) {
        let mut next = self.parent.0.take();
        while let Some(mut step) = next.and_then(Rc::into_inner) {
            next = step.parent.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(path: &str) -> Trail {
        path.split('/').fold(Trail::default(), |trail, name| trail.join(OsStr::new(name)))
    }

    #[test]
    fn paths_are_what_was_joined() {
        assert_eq!(trail("a/b/c").to_path(), PathBuf::from("a/b/c"));
        assert_eq!(Trail::default().to_path(), PathBuf::new());
    }

    #[test]
    fn the_same_path_is_the_same_however_it_was_made() {
        assert!(trail("a/b").is(&trail("a/b")));
        assert!(!trail("a/b").is(&trail("b")));
        assert!(!trail("a/b").is(&trail("c/b")));
        assert!(Trail::default().is(&Trail::default()));
    }

    #[test]
    fn a_million_steps_are_dropped_without_recursion() {
        let mut deep = Trail::default();
        for _ in 0..1_000_000 {
            deep = deep.join(OsStr::new("d"));
        }
        drop(deep);
    }
}
