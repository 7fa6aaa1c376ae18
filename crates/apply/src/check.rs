//! Finds everything that stands against a plan, before anything is written. It also collects what the journal has to remember.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Access, AtFlags, CWD};

use crate::attributes::{self, Xattrs};
use crate::backup::{self, Store};
use crate::error::{ApplyError, Fault, Problem};
use crate::held::{Held, in_the_way};
use crate::journal::Parent;
use crate::layout::{Layout, Role, link_base};
use crate::look::{Seen, look, look_at};
use crate::permission::Who;
use crate::plan::{Attributes, Change, Identity, Kind, Operation, Plan, Source};
use crate::space::Needs;

/// Whether the plan could be applied now, with backups in `backups`. Lists everything that is against it; writes nothing.
pub fn check(plan: &Plan, backups: &Path) -> Result<(), ApplyError> {
    let layout = Layout::of(plan, "0000000000000000").map_err(ApplyError::Problems)?;
    let mut held = open_roots(plan)?;
    survey(plan, &layout, &mut held, &Store::open(backups)?).map(|_| ())
}

pub(crate) fn open_roots(plan: &Plan) -> Result<Held, ApplyError> {
    let problem = |fault: Fault| match fault {
        Fault::Io { path, source, .. } => {
            let what = in_the_way(&source).map_or_else(|| format!("cannot be opened: {source}"), ToOwned::to_owned);
            Problem::new(path, what, "")
        }
        Fault::Changed { path, why } => Problem::new(path, why, ""),
    };
    Held::open(&plan.roots).map_err(|faults| ApplyError::Problems(faults.into_iter().map(problem).collect()))
}

/// What is known after the check.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub xattrs: BTreeMap<usize, Xattrs>,
    pub parents: Vec<Parent>,
    pub copied: Vec<usize>,
}

pub(crate) fn survey(plan: &Plan, layout: &Layout, held: &mut Held, store: &Store) -> Result<Survey, ApplyError> {
    let who = Who::now().map_err(crate::error::on("examine", Path::new("/proc/self")))?;
    let mut surveyor = Surveyor {
        plan,
        layout,
        held,
        store,
        who,
        needs: Needs::default(),
        problems: Vec::new(),
        parents: HashMap::new(),
        removed: layout.remove.iter().map(|n| layout.steps[*n].path.as_path()).collect(),
        found: Survey::default(),
    };
    surveyor.places();
    surveyor.parents();
    for n in 0..plan.operations.len() {
        surveyor.operation(n);
    }
    let mut problems = surveyor.problems;
    problems.extend(surveyor.needs.problems());
    if problems.is_empty() { Ok(surveyor.found) } else { Err(ApplyError::Problems(problems)) }
}

struct Surveyor<'a> {
    plan: &'a Plan,
    layout: &'a Layout,
    held: &'a mut Held,
    store: &'a Store,
    who: Who,
    needs: Needs,
    problems: Vec<Problem>,
    /// What is wrong with a directory is said once, not for each of its files.
    parents: HashMap<(usize, PathBuf), Seen>,
    removed: HashSet<&'a Path>,
    found: Survey,
}

impl Surveyor<'_> {
    fn problem(&mut self, path: &Path, what: impl Into<String>, hint: &str) {
        self.problems.push(Problem::new(path, what, hint));
    }

    fn places(&mut self) {
        for root in &self.held.roots {
            self.needs.place(root.seen.identity.dev, &*root.descriptor, &root.path, self.who.is_root());
        }
        self.needs.place(self.store.seen.identity.dev, &self.store.descriptor, &self.store.path, self.who.is_root());
    }

    /// Every directory in which names come and go.
    fn parents(&mut self) {
        for (root, path) in &self.layout.parents {
            let absolute = self.held.roots[*root].path.join(path);
            let descriptor = match self.held.directory(*root, path) {
                Ok(descriptor) => descriptor,
                Err(error) => {
                    let what = in_the_way(&error).map_or_else(
                        || format!("cannot be reached: {error}"),
                        |w| format!("cannot be worked in: what is in it {w}"),
                    );
                    self.problems.push(Problem::new(absolute, what, ""));
                    continue;
                }
            };
            match look_at(&descriptor) {
                Ok(seen) => {
                    // What goes itself is opened first, if it is ours.
                    let opened = self.removed.contains(absolute.as_path()) && seen.identity.uid == self.who.uid && !seen.locked;
                    if !opened {
                        self.problems.extend(self.who.against_directory(&descriptor, &absolute));
                    }
                    self.needs.place(seen.identity.dev, &*self.held.roots[*root].descriptor, &absolute, self.who.is_root());
                    let Identity { ino, mtime, .. } = seen.identity;
                    self.found.parents.push(Parent { root: *root, path: path.clone(), ino, mtime });
                    self.parents.insert((*root, path.clone()), seen);
                }
                Err(error) => self.problems.push(Problem::new(absolute, format!("cannot be examined: {error}"), "")),
            }
        }
    }

    fn operation(&mut self, n: usize) {
        let (plan, layout) = (self.plan, self.layout);
        let (operation, step) = (&plan.operations[n], &layout.steps[n]);
        match step.role {
            Role::Nested { top } => {
                let directory = &layout.steps[top].target.directory;
                let device = self.parents.get(&(operation.root, directory.clone())).map(|s| s.identity.dev);
                self.source(n, operation, device);
            }
            Role::Set => self.set(n, operation, &step.path),
            Role::Publish | Role::Remove => {
                let Some(parent) = self.parents.get(&(operation.root, step.target.directory.clone())).cloned() else { return };
                let Ok(descriptor) = self.held.directory(operation.root, &step.target.directory) else { return };
                self.target(n, operation, &descriptor, &parent);
                if step.role == Role::Publish {
                    self.source(n, operation, Some(parent.identity.dev));
                }
            }
        }
    }

    /// What is there must be what is expected, and we must be able to take it away and keep it.
    fn target(&mut self, n: usize, operation: &Operation, parent: &Rc<OwnedFd>, parent_seen: &Seen) {
        let layout = self.layout;
        let (path, name) = (layout.steps[n].path.as_path(), layout.steps[n].target.name.as_os_str());
        let Some(seen) = self.as_expected(operation, path, look(parent, name)) else { return };
        self.problems.extend(self.who.against_entry(&parent_seen.identity, &seen, path));
        if seen.mount.is_some() && seen.mount != parent_seen.mount {
            return self.problem(path, "is a mount point", "unmount it first");
        }
        if seen.identity.kind == Kind::Directory {
            self.emptied(n, parent, path);
        } else if !self.store.takes(parent_seen) {
            self.problems.extend(self.who.against_copy(parent, name, &seen.identity, path));
            self.needs.add(self.store.seen.identity.dev, seen.bytes);
            self.found.copied.push(n);
        }
    }

    fn as_expected(&mut self, operation: &Operation, path: &Path, seen: std::io::Result<Option<Seen>>) -> Option<Seen> {
        let hint = "look at the change again";
        match (seen, operation.before()) {
            (Err(error), _) => self.problem(path, format!("cannot be examined: {error}"), ""),
            (Ok(None), None) => {}
            (Ok(None), Some(_)) => self.problem(path, "does not exist any more", hint),
            (Ok(Some(_)), None) => self.problem(path, "exists now", hint),
            (Ok(Some(seen)), Some(before)) => match before.difference(&seen.identity) {
                None => return Some(seen),
                Some(what) => self.problem(path, what, hint),
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
                    self.problem(path, what, "look at the change again");
                }
            }
            Err(error) => self.problem(path, format!("cannot be listed: {error}"), ""),
        }
        match attributes::hold(parent, name).and_then(|held| attributes::xattrs(&held)) {
            Ok(xattrs) => drop(self.found.xattrs.insert(n, xattrs)),
            Err(error) => self.problem(path, format!("cannot be examined: {error}"), ""),
        }
    }

    fn set(&mut self, n: usize, operation: &Operation, path: &Path) {
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
                }
                self.found.xattrs.insert(n, xattrs);
            }
            Err(error) => self.problem(path, format!("cannot be examined: {error}"), ""),
        }
    }

    /// Where the new version comes from, and the room for it.
    fn source(&mut self, n: usize, operation: &Operation, device: Option<u64>) {
        let layout = self.layout;
        let path = layout.steps[n].path.as_path();
        let Change::Put { source, attributes } = &operation.change else { return };
        if !matches!(source, Source::Original(_) | Source::HardLink(_)) {
            self.problems.extend(self.who.against_attributes(attributes, path));
        }
        let bytes = match source {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Link(_) | Source::Directory => 0,
            Source::HardLink(_) => {
                let base = link_base(self.plan, n).map_or(operation.root, |base| self.plan.operations[base].root);
                let mount = |root: usize| (self.held.roots[root].seen.identity.dev, self.held.roots[root].seen.mount);
                if mount(base) != mount(operation.root) {
                    self.problem(path, "shall be a hard link to something on another file system", "");
                }
                return;
            }
            Source::File(from) | Source::Original(from) => {
                let original = matches!(source, Source::Original(_));
                match look(CWD, from) {
                    Ok(Some(seen)) if original && matches!(seen.identity.kind, Kind::Link | Kind::Other) => 0,
                    Ok(Some(seen)) if seen.identity.kind == Kind::File => {
                        if rustix::fs::accessat(CWD, from, Access::READ_OK, AtFlags::EACCESS).is_err() && !original {
                            self.problem(path, format!("cannot be put there: {} cannot be read", from.display()), "");
                        }
                        // What can be moved back needs no room.
                        if original && Some(seen.identity.dev) == device { 0 } else { seen.bytes }
                    }
                    Ok(Some(_)) => return self.problem(path, format!("cannot be put there: {} is not a file", from.display()), ""),
                    Ok(None) => return self.problem(path, format!("cannot be put there: {} is gone", from.display()), ""),
                    Err(e) => return self.problem(path, format!("cannot be put there: {}: {e}", from.display()), ""),
                }
            }
        };
        if let Some(device) = device {
            self.needs.add(device, bytes);
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
