//! A sandbox of what reality would be after an apply, for checks that shall see the merged result.

use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, utimensat};
use whatif_apply::{Attributes, Change as Act, Operation, Plan, Source};
use whatif_layers::{StateDir, copy, remove};
use whatif_overlay::whiteout;
use whatif_sys::absence;
use whatif_types::network::NetWish;
use whatif_types::sandbox::Position;
use whatif_types::{Limits, PlaceKind, Plan as Mounted, Sandbox};

use crate::EngineError;
use crate::lifecycle::Lifecycle;
use crate::lifecycle::create::{Created, Making, NewSandbox, Start, with_a_name};
use crate::trees::copied_trees;

impl Lifecycle {
    /// Makes the sandbox. It is nobody's but the caller's, who discards it.
    pub(crate) fn trial(&self, sandbox: &Sandbox, plan: &Plan) -> Result<Created, EngineError> {
        let new = NewSandbox {
            provider: Some(sandbox.provider.clone()),
            backend: Some(sandbox.details.backend),
            mask: sandbox.details.masked.clone(),
            expose: sandbox.details.exposed.clone(),
            grants: sandbox.details.grants.clone(),
            cwd: Some(sandbox.project.clone()),
            // It lives as long as the checks take.
            limits: Limits { ttl: None, idle: None, ..sandbox.details.limits.clone() },
            disposable: true,
            ..NewSandbox::default()
        };
        self.filled(&new, sandbox, plan)
    }

    /// A sandbox like another one, but with what reality would be after a plan.
    pub(crate) fn filled(&self, new: &NewSandbox, sandbox: &Sandbox, plan: &Plan) -> Result<Created, EngineError> {
        let mut validated = self.validate(new)?;
        validated.net = sandbox.details.net;
        validated.network = NetWish { publish: Vec::new(), secrets: Vec::new(), ..sandbox.details.network.clone() };
        let fill = |directory: &Path, mounted: &Mounted| {
            StateDir::mark_filled(directory)?;
            let filling = Filling { mounted, copied: copied_trees(mounted), heads: directory.join("head"), plan };
            filling.run().map_err(|e| EngineError::io("prepare", directory, e))
        };
        let trees = &sandbox.details.trees;
        let start = Start { trees, position: Position::default(), beneath: None, is_rebased: false, fill: Some(&fill) };
        with_a_name(new.name.as_deref(), |name| {
            self.create_with(name, new, &validated, &Making { start: Some(&start), ..Making::default() })
        })
    }
}

/// Writes the outcome of a plan into heads that nothing is mounted over yet.
struct Filling<'a> {
    /// What will be. The sandbox that the plan comes from may have been made when reality had other mounts.
    mounted: &'a Mounted,
    /// The trees of it that are copies.
    copied: Vec<usize>,
    heads: PathBuf,
    plan: &'a Plan,
}

impl Filling<'_> {
    fn run(&self) -> io::Result<()> {
        let mut operations: Vec<(PathBuf, &Operation)> =
            self.plan.operations.iter().map(|o| (o.absolute(&self.plan.roots), o)).collect();
        // Parents first: what is in a directory that goes, goes with it.
        operations.sort_by(|a, b| a.0.cmp(&b.0));
        // Further names last: what they are names of may come at any path.
        operations.sort_by_key(|(_, o)| matches!(&o.change, Act::Put { source: Source::HardLink(_), .. }));
        for (path, operation) in &operations {
            match &operation.change {
                Act::Remove => self.take_away(path)?,
                Act::Put { source, attributes } => self.put(path, source, attributes)?,
                Act::Set { attributes } => self.set(path, attributes)?,
            }
        }
        Ok(())
    }

    /// The place of a path in the heads, and whether its tree is a copy.
    fn place(&self, path: &Path) -> io::Result<(PathBuf, bool)> {
        let tree = self.mounted.place_of(path).and_then(|place| match place.kind {
            PlaceKind::Writable { tree } | PlaceKind::Skeleton { tree } => Some((tree, &place.path)),
            PlaceKind::ReadOnly | PlaceKind::Private { .. } | PlaceKind::Hidden => None,
        });
        let (number, tree) = tree.ok_or_else(|| io::Error::other(format!("{} lies in no tree of the sandbox", path.display())))?;
        let relative = path.strip_prefix(tree).unwrap_or(path);
        Ok((self.heads.join(number.to_string()).join(relative), self.copied.contains(&number)))
    }

    /// Directories above it, as they are in reality. False if one of them is gone.
    fn parents(&self, path: &Path, place: &Path) -> io::Result<bool> {
        let (Some(above), Some(parent)) = (path.parent(), place.parent()) else { return Ok(true) };
        if let Some(found) = absence::look(parent)? {
            return Ok(found.is_dir());
        }
        if !self.parents(above, parent)? {
            return Ok(false);
        }
        fs::create_dir(parent)?;
        if let Some(metadata) = absence::look(above)? {
            copy::copy_attributes(above, parent, &metadata).map_err(|e| e.source)?;
        }
        Ok(true)
    }

    fn take_away(&self, path: &Path) -> io::Result<()> {
        let (place, is_copy) = self.place(path)?;
        if !self.parents(path, &place)? {
            return Ok(());
        }
        clear(&place)?;
        if is_copy {
            return Ok(());
        }
        Ok(whiteout::make(CWD, &place)?)
    }

    fn put(&self, path: &Path, source: &Source, attributes: &Attributes) -> io::Result<()> {
        let (place, _) = self.place(path)?;
        if !self.parents(path, &place)? {
            return Ok(());
        }
        let is_kept = matches!(source, Source::Directory) && absence::is_dir(&place)?;
        if !is_kept {
            clear(&place)?;
        }
        match source {
            Source::File(from) | Source::Original(from) => {
                fs::copy(from, &place)?;
            }
            Source::Approved(approved) => approved.copy_to(&place)?,
            Source::Bytes(bytes) => fs::write(&place, bytes)?,
            Source::Link(target) => symlink(target, &place)?,
            Source::Directory if is_kept => {}
            Source::Directory => fs::create_dir(&place)?,
            Source::Existing(existing) => {
                let first = existing.absolute(&self.plan.roots);
                let (copy, _) = self.place(&first)?;
                if fs::symlink_metadata(&copy).is_err() {
                    self.parents(&first, &copy)?;
                    fs::copy(&first, &copy)?;
                    give(&copy, attributes)?;
                }
                return fs::hard_link(copy, &place);
            }
            Source::HardLink(other) => {
                let first = self.plan.operations.get(*other).map(|o| o.absolute(&self.plan.roots));
                let first = first.ok_or_else(|| io::Error::other("a link to nothing"))?;
                return fs::hard_link(self.place(&first)?.0, &place);
            }
        }
        give(&place, attributes)
    }

    fn set(&self, path: &Path, attributes: &Attributes) -> io::Result<()> {
        let (place, _) = self.place(path)?;
        if !self.parents(path, &place)? {
            return Ok(());
        }
        if !absence::leads_somewhere(&place)? {
            match absence::look(path)? {
                Some(found) if found.is_dir() => fs::create_dir(&place)?,
                Some(found) if found.is_file() => drop(fs::copy(path, &place)?),
                _ => {}
            }
        }
        give(&place, attributes)
    }
}

fn clear(place: &Path) -> io::Result<()> {
    match absence::look(place)? {
        Some(found) if found.is_dir() => remove::tree(place).map_err(|e| e.source),
        Some(_) => fs::remove_file(place),
        None => Ok(()),
    }
}

fn give(place: &Path, attributes: &Attributes) -> io::Result<()> {
    let is_link = fs::symlink_metadata(place)?.is_symlink();
    lchown(place, Some(attributes.uid), Some(attributes.gid))?;
    if !is_link {
        fs::set_permissions(place, fs::Permissions::from_mode(attributes.mode))?;
        for (name, value) in &attributes.xattrs {
            rustix::fs::setxattr(place, name.as_os_str(), value, XattrFlags::empty())?;
        }
    }
    if let Some((seconds, nanoseconds)) = attributes.mtime {
        let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
        utimensat(CWD, place, &Timestamps { last_access: time, last_modification: time }, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}
