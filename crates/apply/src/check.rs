//! Finds everything that stands against a plan, before anything is written. It also collects what the journal has to remember.

mod target;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use whatif_sys::absence;
use whatif_types::Remedy;

use crate::attributes::Xattrs;
use crate::backup::Store;
use crate::error::{ApplyError, Fault, Problem, look_again};
use crate::held::{Held, in_the_way};
use crate::journal::Parent;
use crate::layout::{Layout, Role, Staging, link_base};
use crate::look::{Seen, look, look_at};
use crate::permission::Who;
use crate::plan::{Change, Existing, Identity, Kind, Operation, Plan, Source};
use crate::space::Needs;
use crate::unmanaged::Unmanaged;

/// Whether the plan could be applied now, with backups in `backups`. Lists everything that is against it; writes nothing.
pub fn check(plan: &Plan, backups: &Path) -> Result<(), ApplyError> {
    let layout = Layout::of(plan, "0000000000000000").map_err(ApplyError::Problems)?;
    let mut held = open_roots(plan)?;
    survey(plan, &layout, &mut held, &Store::open(backups)?, Wanted::Apart).map(|_| ())
}

pub(crate) fn open_roots(plan: &Plan) -> Result<Held, ApplyError> {
    open_held(&plan.roots)
}

/// A root that is not there, or that we may not enter, is a problem of the plan; that one cannot be looked at just now is not.
pub(crate) fn open_held(roots: &[PathBuf]) -> Result<Held, ApplyError> {
    let is_lasting = |source: &io::Error| in_the_way(source).is_some() || source.kind() == io::ErrorKind::PermissionDenied;
    let problem = |fault: Fault| match fault {
        Fault::Io { path, source, .. } => {
            let what = in_the_way(&source).map_or_else(|| format!("cannot be opened: {source}"), ToOwned::to_owned);
            Problem::new(path, what, "")
        }
        Fault::Changed { path, why } => Problem::new(path, why, ""),
        Fault::Cancelled | Fault::Refused { .. } => Problem::new("", fault.to_string(), ""),
    };
    Held::open(roots).map_err(|mut faults| {
        match faults.iter().position(|fault| matches!(fault, Fault::Io { source, .. } if !is_lasting(source))) {
            Some(n) => faults.swap_remove(n).into(),
            None => ApplyError::Problems(faults.into_iter().map(problem).collect()),
        }
    })
}

/// Where new versions are wanted to be staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Where no tool comes across them.
    Apart,
    /// In the very directory of their target: the one place from where everything can be renamed.
    Beside,
}

/// What is known after the check.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub xattrs: BTreeMap<usize, Xattrs>,
    /// What else the directories have that go, by operation.
    pub unmanaged: BTreeMap<usize, Unmanaged>,
    pub parents: Vec<Parent>,
    pub copied: Vec<usize>,
}

pub(crate) fn survey(plan: &Plan, layout: &Layout, held: &mut Held, store: &Store, wanted: Wanted) -> Result<Survey, ApplyError> {
    let who = Who::now().map_err(crate::error::on("examine", Path::new("/proc/self")))?;
    let mut surveyor = Surveyor {
        plan,
        layout,
        held,
        store,
        wanted,
        // If that cannot be found out, near the target is right either way.
        has_labels: absence::exists(Path::new("/sys/fs/selinux/enforce")).unwrap_or(true),
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
    wanted: Wanted,
    /// New files get a security label from the directory they are made in, so it must be the one they are made for.
    has_labels: bool,
    who: Who,
    needs: Needs,
    problems: Vec<Problem>,
    /// What is wrong with a directory is said once, not for each of its files.
    parents: HashMap<(usize, PathBuf), Seen>,
    removed: HashSet<&'a Path>,
    found: Survey,
}

impl Surveyor<'_> {
    fn problem(&mut self, path: &Path, what: impl Into<String>, remedy: impl Into<Remedy>) {
        self.problems.push(Problem::new(path, what, remedy));
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
                    let staging = match self.wanted {
                        Wanted::Beside => Staging::Beside,
                        Wanted::Apart if self.store.takes(&seen) && !self.has_labels => Staging::Store,
                        Wanted::Apart => Staging::Near,
                    };
                    self.found.parents.push(Parent { root: *root, path: path.clone(), ino, mtime, staging });
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
                let descriptor = match self.held.directory(operation.root, &step.target.directory) {
                    Ok(descriptor) => descriptor,
                    Err(error) => return self.problem(&step.path, format!("cannot be reached: {error}"), ""),
                };
                self.target(n, operation, &descriptor, &parent);
                if step.role == Role::Publish {
                    self.source(n, operation, Some(parent.identity.dev));
                }
            }
        }
    }

    /// Where the new version comes from, and the room for it.
    fn source(&mut self, n: usize, operation: &Operation, device: Option<u64>) {
        let layout = self.layout;
        let path = layout.steps[n].path.as_path();
        let Change::Put { source, attributes } = &operation.change else { return };
        if !matches!(source, Source::Original(_) | Source::HardLink(_) | Source::Existing(_)) {
            self.problems.extend(self.who.against_attributes(attributes, path));
        }
        let bytes = match source {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Link(_) | Source::Directory => 0,
            Source::HardLink(_) => {
                let base = link_base(self.plan, n).map_or(operation.root, |base| self.plan.operations[base].root);
                let mount = |root: usize| (self.held.roots[root].seen.identity.dev, self.held.roots[root].seen.mount);
                if mount(base) != mount(operation.root) {
                    self.problem(path, "is to be a hard link to something on another file system", "");
                }
                return;
            }
            Source::Existing(existing) => return self.existing(existing),
            Source::Approved(approved) => match approved.open() {
                Ok(source) => look_at(&source).map_or(approved.identity.size, |seen| seen.bytes),
                Err(e) if Errno::from_io_error(&e) == Some(Errno::STALE) => {
                    return self.problem(path, "was changed in the sandbox after it was looked at", look_again());
                }
                Err(e) => return self.problem(path, format!("cannot be put there: {}: {e}", approved.path.display()), ""),
            },
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

    /// What gets a further name must be what is expected.
    fn existing(&mut self, existing: &Existing) {
        let path = existing.absolute(&self.plan.roots);
        let hint = "look at the change again";
        match existing.look(self.held, &path) {
            Err(fault) => self.problem(&path, fault.to_string(), ""),
            Ok((_, None)) => self.problem(&path, "does not exist any more", hint),
            Ok((_, Some(seen))) => {
                if let Some(what) = existing.identity.difference(&seen.identity) {
                    self.problem(&path, what, hint);
                }
            }
        }
    }
}
