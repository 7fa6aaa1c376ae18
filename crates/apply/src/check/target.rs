//! What is there now: it must be what is expected, and it must be possible to take it away or to change it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use whatif_types::remedy::Call;
use whatif_types::{Remedy, remedy};

use super::Surveyor;
use crate::attributes::{self, Xattrs};
use crate::backup;
use crate::error::Problem;
use crate::held::in_the_way;
use crate::look::{Seen, look, look_at};
use crate::plan::{Attributes, Identity, Kind, Operation};
use crate::unmanaged::Unmanaged;

/// Reality is not what the plan was made for.
fn look_again() -> Remedy {
    remedy!["nothing was written; reality changed meanwhile. See what it has now (", Call::Status, "), then apply again"]
}

impl Surveyor<'_> {
    /// What is there must be what is expected, and we must be able to take it away and keep it.
    pub(super) fn target(&mut self, n: usize, operation: &Operation, parent: &Rc<OwnedFd>, parent_seen: &Seen) {
        let layout = self.layout;
        let (path, name) = (layout.steps[n].path.as_path(), layout.steps[n].target.name.as_os_str());
        let Some(seen) = self.as_expected(operation, path, look(parent, name)) else { return };
        self.problems.extend(self.who.against_entry(parent_seen, &seen, path));
        if seen.identity.kind == Kind::Directory {
            self.emptied(n, parent, path);
        } else if !self.store.takes(parent_seen) && operation.stays_as().is_none() {
            self.problems.extend(self.who.against_copy(parent, name, &seen.identity, path));
            self.needs.add(self.store.seen.identity.dev, seen.bytes);
            self.found.copied.push(n);
        }
    }

    fn as_expected(&mut self, operation: &Operation, path: &Path, seen: std::io::Result<Option<Seen>>) -> Option<Seen> {
        match (seen, operation.before()) {
            (Err(error), _) => self.problem(path, format!("cannot be examined: {error}"), ""),
            (Ok(None), None) => {}
            (Ok(None), Some(_)) => self.problem(path, "does not exist any more", look_again()),
            (Ok(Some(_)), None) => self.problem(path, "exists now", look_again()),
            (Ok(Some(seen)), Some(before)) => match before.difference(&seen.identity) {
                None => return Some(seen),
                Some(what) => self.problem(path, what, look_again()),
            },
        }
        None
    }

    /// A directory that goes may hold nothing that stays.
    fn emptied(&mut self, n: usize, parent: &Rc<OwnedFd>, path: &Path) {
        let layout = self.layout;
        let name = &layout.steps[n].target.name;
        match backup::names_in(parent, name) {
            Ok(names) => {
                let staying: Vec<OsString> =
                    names.into_iter().filter(|name| !self.removed.contains(path.join(name).as_path())).collect();
                if let Some(first) = staying.first() {
                    let what = format!("would be removed, but holds '{}', which would not", first.to_string_lossy());
                    self.problem(path, what, look_again());
                }
            }
            Err(error) => self.problem(path, format!("cannot be listed: {error}"), ""),
        }
        match attributes::hold(parent, name).and_then(|held| attributes::xattrs(&held)) {
            Ok(xattrs) => drop(self.found.xattrs.insert(n, xattrs)),
            Err(error) => self.problem(path, format!("cannot be examined: {error}"), ""),
        }
        match Unmanaged::of(parent, name) {
            Ok(unmanaged) if unmanaged.is_empty() => {}
            Ok(unmanaged) => drop(self.found.unmanaged.insert(n, unmanaged)),
            Err(error) => self.problem(path, format!("cannot be examined: {error}"), ""),
        }
    }

    pub(super) fn set(&mut self, n: usize, operation: &Operation, path: &Path) {
        let layout = self.layout;
        let step = &layout.steps[n];
        let opened = self.held.directory(operation.root, &step.target.directory);
        let held = match opened {
            Ok(parent) if operation.path.as_os_str().is_empty() => Ok(Some(parent)),
            Ok(parent) => match attributes::hold(&*parent, &step.target.name) {
                Ok(descriptor) => Ok(Some(Rc::new(descriptor))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let (held, seen) = match held {
            Ok(Some(held)) => {
                let seen = look_at(&held).map(Some);
                (Some(held), seen)
            }
            Ok(None) => (None, Ok(None)),
            Err(error) => {
                let what = in_the_way(&error).map_or_else(|| format!("cannot be examined: {error}"), ToOwned::to_owned);
                return self.problem(path, what, "");
            }
        };
        let (Some(seen), Some(held), Some(wanted)) = (self.as_expected(operation, path, seen), held, operation.attributes()) else {
            return;
        };
        let root_mount = self.held.roots[operation.root].seen.mount;
        if seen.mount.is_some() && seen.mount != root_mount {
            return self.problem(path, "is a mount point", "unmount it first");
        }
        if crate::permission::is_read_only(&*self.held.roots[operation.root].descriptor) {
            return self.problem(path, "lies on a file system that is mounted read-only", "");
        }
        self.problems.extend(self.who.against_set(&seen, wanted, path));
        match attributes::xattrs(&*held) {
            Ok(xattrs) => {
                if seen.identity.kind == Kind::File {
                    self.problems.extend(against_file_in_place(&seen.identity, &xattrs, wanted, path));
                } else if wanted.xattrs_now.as_ref().is_some_and(|planned| !attributes::same(planned, &xattrs)) {
                    self.problem(path, "has other extended attributes now", look_again());
                }
                self.found.xattrs.insert(n, xattrs);
            }
            Err(error) => self.problem(path, format!("cannot be examined: {error}"), ""),
        }
    }
}

/// A change in place cannot be made all at once, so a file gets no more of it than a mode.
fn against_file_in_place(now: &Identity, xattrs: &Xattrs, wanted: &Attributes, path: &Path) -> Option<Problem> {
    let others = |list: &Xattrs| -> Xattrs { list.iter().filter(|(n, _)| n.as_bytes() != attributes::ACL).cloned().collect() };
    let (mut present, mut asked) = (others(xattrs), others(&wanted.xattrs));
    present.sort();
    asked.sort();
    let same = (now.uid, now.gid) == (wanted.uid, wanted.gid) && wanted.mtime.is_none_or(|t| t == now.mtime) && present == asked;
    let what = if now.nlink > 1 {
        "has several names, so its mode is not changed in place"
    } else if !same {
        "can only have its mode changed in place"
    } else {
        return None;
    };
    Some(Problem::new(path, what, "put a new version instead"))
}
