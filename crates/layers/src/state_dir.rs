//! Where everything lies in the state directory.
//!
//! ```text
//! state.db          records
//! sandboxes/<id>/   head/<tree>  work/<tree>  nothing/  keeper.sock  logs/
//! layers/<id>/      a frozen head: <tree>/  base/
//! names/<name>      a link to the directory of a sandbox that runs, so that `exec` need not open the records
//! pool/<key>/<id>/  sandboxes made beforehand
//! spare/<id>/       directories of sandboxes that changed nothing, for the next ones
//! applies/<id>/     journals and earlier versions of what was applied, for undo
//! remains/          versions of files that an apply met and could not put back
//! transient/<id>/   the same, while a command is still making it, deciding about it, or deleting it
//! cache/            what was costly to find out; may be deleted at any time
//! ```
//!
//! A directory in `transient/` whose owner is gone is what a crash left; an empty `transient/` means there is nothing to repair.

mod lock;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags, XattrFlags, renameat_with};
use whatif_sys::absence::{self, MeansAbsent, OrAbsent};
use whatif_sys::patience;
use whatif_types::{LayerId, SandboxId};

pub use self::lock::{AliveLock, SandboxLock};
pub use crate::spares::Kept;
use crate::{PathError, durable, on, spares};

/// An attribute that says which process a directory in `transient/` belongs to.
const OWNER: &str = "user.whatif.owner";
/// A file that says that everything in a new sandbox's directory was put there from another sandbox.
const FILLED: &str = "filled";
/// Applies lie beside sandboxes while they are under way.
const APPLY: &str = "apply-";
pub(crate) const SHIFT: &str = "shift-";
const SQUASH: &str = "squash-";
const LAST_MOMENTS: Duration = Duration::from_secs(2);

/// The copy of a sandbox's record in its own directory.
pub(crate) const RECORD: &str = "sandbox.json";

/// A file that says to the `run` that made a sandbox that another command removes it.
const UNWANTED: &str = "unwanted";

/// A file whose time says when a sandbox was last used, in its directory.
const USED: &str = "used";

/// Where a keeper that ends by itself says why, in a sandbox's directory.
pub const FAREWELL: &str = "farewell";

/// A directory that stays empty, in a sandbox's directory (see `assemble::overlay`).
pub(crate) const NOTHING: &str = "nothing";

/// Names the layers of an import, in its directory.
const COMING: &str = "coming.json";
/// Where the note of a shift waits for the next one, in a sandbox's directory.
pub(crate) const NOTE: &str = "shift";
/// What the note says, where a journal keeps it in order with the renames that it speaks of.
pub(crate) const NOTE_ATTRIBUTE: &str = "user.whatif.note";

/// Something under way, or what a crash left of it.
#[derive(Debug)]
pub enum Unsettled {
    Sandbox(SandboxId),
    Apply(PathBuf),
    Shift {
        note: PathBuf,
        sandbox: SandboxId,
    },
    /// Layers that are being merged, or on their way to be deleted: nothing that is nowhere else.
    Layers(PathBuf),
}

#[derive(Clone, Debug)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// Opens the state directory, making what is missing. All of it is for its owner only.
    pub fn open(root: &Path) -> Result<Self, PathError> {
        let state = Self { root: root.to_owned() };
        if let Some(metadata) = fs::metadata(root).or_absent().map_err(on("examine", root))? {
            check_owner(root, &metadata)?;
        }
        if !Self::is_made(root)? {
            let parent = root.parent().unwrap_or(root);
            fs::create_dir_all(parent).map_err(on("create", root))?;
            let before = fs::metadata(parent).map_err(on("examine", parent))?;
            state.make()?;
            // The directory we were put into is part of reality; it need not look touched.
            let _ = File::open(parent).and_then(|d| d.set_modified(before.modified()?));
        }
        Ok(state)
    }

    /// Whether there is one. The last directory made is the sign that all of them are there.
    pub fn is_made(root: &Path) -> Result<bool, PathError> {
        absence::is_dir(&root.join("cache")).map_err(on("examine", root))
    }

    fn make(&self) -> Result<(), PathError> {
        make_private(&self.root)?;
        ["sandboxes", "names", "spare", "transient", "cache"].iter().try_for_each(|name| make_private(&self.root.join(name)))
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join("state.db")
    }

    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    #[must_use]
    pub fn transient(&self) -> PathBuf {
        self.root.join("transient")
    }

    #[must_use]
    pub fn sandboxes(&self) -> PathBuf {
        self.root.join("sandboxes")
    }

    /// Where running sandboxes are found by their names.
    #[must_use]
    pub fn names(&self) -> PathBuf {
        self.root.join("names")
    }

    /// Where the frozen layers lie.
    #[must_use]
    pub fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }

    #[must_use]
    pub fn layer_path(&self, id: &LayerId) -> PathBuf {
        self.layers().join(id.as_str())
    }

    /// Where ready-made sandboxes wait.
    #[must_use]
    pub fn pool(&self) -> PathBuf {
        self.root.join("pool")
    }

    /// Moves a sandbox that was just made to where it waits.
    pub fn shelve(&self, id: &SandboxId, shelf: &Path) -> Result<(), PathError> {
        let to = shelf.join(id.as_str());
        fs::rename(self.transient_path(id), &to).map_err(on("keep", &to))
    }

    /// Moves a sandbox that waited to `transient/`, where it belongs to whoever holds the lock.
    pub fn adopt(&self, place: &Path, id: &SandboxId, lock: &SandboxLock) -> Result<(), PathError> {
        own(lock);
        let to = self.transient_path(id);
        fs::rename(place, &to).map_err(on("take", &to))
    }

    /// Moves it back.
    pub fn give_back(&self, id: &SandboxId, place: &Path) -> Result<(), PathError> {
        fs::rename(self.transient_path(id), place).map_err(on("put back", place))
    }

    fn settled_path(&self, id: &SandboxId) -> PathBuf {
        self.sandboxes().join(id.as_str())
    }

    fn transient_path(&self, id: &SandboxId) -> PathBuf {
        self.transient().join(id.as_str())
    }

    /// Where a sandbox's directory is now.
    pub fn find(&self, id: &SandboxId) -> Result<Option<PathBuf>, PathError> {
        // Looked for twice: one that is settled in between would be at neither place.
        let places = [self.settled_path(id), self.transient_path(id)];
        for path in places.clone().into_iter().chain(places) {
            if absence::is_dir(&path).map_err(on("examine", &path))? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Makes the directory of a new sandbox, in `transient/`, owned by the returned lock.
    pub fn create(&self, id: &SandboxId) -> Result<(PathBuf, SandboxLock), PathError> {
        let path = self.transient_path(id);
        let spares = self.spares();
        let lock = match spares::claim(&spares, &path) {
            Some(lock) => lock,
            None => match spares::make(&spares, &path) {
                Err(error) if error.source.means_absent() => {
                    // Their place may have been deleted by hand.
                    self.make()?;
                    spares::make(&spares, &path)?
                }
                other => other?,
            },
        };
        own(&lock);
        Ok((path, lock))
    }

    /// Where directories wait for the next sandbox.
    #[must_use]
    pub fn spares(&self) -> PathBuf {
        self.root.join("spare")
    }

    /// Keeps the directory of an ended sandbox that changed nothing for another one. The caller holds its lock.
    #[must_use]
    pub fn recycle(&self, directory: &Path) -> bool {
        self.recycle_in_time(directory, &|| true) == Kept::Spare
    }

    /// The same as far as there is time.
    #[must_use]
    pub fn recycle_in_time(&self, directory: &Path, has_time: &dyn Fn() -> bool) -> Kept {
        spares::keep(&self.spares(), directory, has_time)
    }

    /// The same for one that is just ending, and that no record knows: once its keeper is gone, somebody else recycles it.
    pub fn spend(&self, id: &SandboxId) -> Result<(), PathError> {
        spares::spend(&self.spares(), &self.transient_path(id), id)
    }

    /// Those that are waiting for that.
    #[must_use]
    pub fn spent(&self) -> Vec<(SandboxId, PathBuf)> {
        spares::spent(&self.spares())
    }

    /// Makes a sandbox that runs findable by its name, with what `exec` needs to know about it.
    pub fn publish(&self, name: &str, id: &SandboxId, record: &[u8]) -> Result<(), PathError> {
        Self::write_note(&self.settled_path(id), record)?;
        let link = self.root.join("names").join(name);
        let target = Path::new("../sandboxes").join(id.as_str());
        if fs::read_link(&link).is_ok_and(|there| there == target) {
            return Ok(());
        }
        let _ = fs::remove_file(&link);
        match std::os::unix::fs::symlink(&target, &link) {
            Err(error) if error.means_absent() => {
                // Their place may have been deleted by hand.
                self.make()?;
                std::os::unix::fs::symlink(&target, &link).map_err(on("create", &link))
            }
            other => other.map_err(on("create", &link)),
        }
    }

    /// Puts a copy of its record into a sandbox's directory. Over an earlier one, which is how a spare directory has it.
    pub fn write_note(directory: &Path, record: &[u8]) -> Result<(), PathError> {
        let path = directory.join(RECORD);
        let write = || -> io::Result<()> {
            let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            let before = file.metadata()?.len();
            file.write_all_at(record, 0)?;
            if before > record.len() as u64 { file.set_len(record.len() as u64) } else { Ok(()) }
        };
        write().map_err(on("write", &path))
    }

    /// That copy, as it is now.
    pub fn read_note(directory: &Path) -> Result<Option<Vec<u8>>, PathError> {
        let path = directory.join(RECORD);
        fs::read(&path).or_absent().map_err(on("read", &path))
    }

    pub fn unpublish(&self, name: &str) {
        let _ = fs::remove_file(self.root.join("names").join(name));
    }

    /// The directory and the record of a sandbox published under this name. It may have stopped since.
    #[must_use]
    pub fn published(&self, name: &str) -> Option<(PathBuf, Vec<u8>)> {
        whatif_types::name::validate(name).ok()?;
        let directory = self.root.join("names").join(name);
        fs::read(directory.join(RECORD)).ok().map(|record| (directory, record))
    }

    /// A part of each of these layers, of those that have it, in the same order.
    pub fn parts_of(&self, layers: &[LayerId], part: &str) -> Result<Vec<PathBuf>, PathError> {
        let mut found = Vec::new();
        for path in layers.iter().map(|layer| self.layer_path(layer).join(part)) {
            if absence::is_dir(&path).map_err(on("examine", &path))? {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Sandboxes that were settled so far are on the disk where they are.
    pub fn flush_settled(&self) -> Result<(), PathError> {
        durable::names_in(&self.sandboxes())
    }

    /// Directories of sandboxes that were made so far are on the disk, wherever they are.
    pub fn flush_begun(&self) -> Result<(), PathError> {
        durable::names_in(&self.transient())
    }

    /// Everything written so far, on the disk.
    pub fn flush_all(&self) -> Result<(), PathError> {
        durable::all_around(&self.root)
    }

    /// The sandbox is complete and kept.
    pub fn settle(&self, id: &SandboxId) -> Result<PathBuf, PathError> {
        let to = self.settled_path(id);
        match fs::rename(self.transient_path(id), &to) {
            Err(error) if error.means_absent() && absence::is_dir(&to).map_err(on("examine", &to))? => Ok(to),
            Err(error) if error.means_absent() => {
                // Its place may have been deleted by hand.
                self.make()?;
                fs::rename(self.transient_path(id), &to).map(|()| to.clone()).map_err(on("keep", &to))
            }
            Err(error) => Err(on("keep", &to)(error)),
            Ok(()) => Ok(to),
        }
    }

    /// The sandbox is to be deleted: out of sight at once, deleted when nothing holds it any more.
    pub fn condemn(&self, id: &SandboxId) -> Result<PathBuf, PathError> {
        let to = self.transient_path(id);
        match fs::rename(self.settled_path(id), &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(on("remove", &to)(error)),
            _ => Ok(to),
        }
    }

    /// Lets its owner delete by other means what is being deleted here, or kept for another sandbox.
    pub fn open_up(&self) {
        for place in [self.transient(), self.spares()] {
            // What cannot be listed is found by whoever deletes it.
            let entries = fs::read_dir(place).into_iter().flatten().flatten();
            entries.for_each(|entry| crate::remove::open_up(&entry.path()));
        }
    }

    /// From here on whoever holds the lock is deleting it; there is no owner to ask about.
    pub fn disown(&self, id: &SandboxId) {
        if let Ok(Some(path)) = self.find(id) {
            let _ = rustix::fs::removexattr(&path, OWNER);
        }
    }

    /// Whether a directory in `transient/` belongs, or belonged, to a command that was making it; one that is being deleted does not.
    /// One of which that cannot be found out is treated with the care that work deserves.
    pub fn was_being_made(&self, id: &SandboxId) -> bool {
        match rustix::fs::getxattr(self.transient_path(id), OWNER, &mut [0_u8; 16][..]) {
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOENT) => false,
            Ok(_) | Err(_) => true,
        }
    }

    /// Whether a command that removes the sandbox has taken it out of sight.
    pub fn is_being_deleted(&self, id: &SandboxId) -> bool {
        let is_there = |path: PathBuf| absence::exists(&path).unwrap_or(true);
        !is_there(self.settled_path(id)) && is_there(self.transient_path(id)) && !self.was_being_made(id)
    }

    /// Says to the `run` that holds a sandbox that it is not to be kept.
    pub fn mark_unwanted(directory: &Path) -> Result<(), PathError> {
        File::create(directory.join(UNWANTED)).map(drop).map_err(on("mark", directory))
    }

    /// Notes that a sandbox is used now. It only decides which one is taken where none is named, so a full disk is no reason to fail.
    pub fn mark_used(directory: &Path) {
        let mark = File::options().write(true).create(true).truncate(false).open(directory.join(USED));
        let _ = mark.and_then(|mark| mark.set_modified(SystemTime::now()));
    }

    /// When a sandbox was last used, if that was noted.
    pub fn last_used(directory: &Path) -> Result<Option<SystemTime>, PathError> {
        let mark = directory.join(USED);
        let found = fs::metadata(&mark).or_absent().map_err(on("examine", &mark))?;
        Ok(found.and_then(|metadata| metadata.modified().ok()))
    }

    pub fn is_unwanted(directory: &Path) -> Result<bool, PathError> {
        let mark = directory.join(UNWANTED);
        absence::exists(&mark).map_err(on("examine", &mark))
    }

    /// Says of the directory of a new sandbox that it holds nothing of its own until it has a record.
    pub fn mark_filled(directory: &Path) -> Result<(), PathError> {
        File::create(directory.join(FILLED)).map(drop).map_err(on("mark", directory))
    }

    pub fn is_filled(&self, id: &SandboxId) -> Result<bool, PathError> {
        let mark = self.transient_path(id).join(FILLED);
        absence::exists(&mark).map_err(on("examine", &mark))
    }

    /// Takes the lock of a directory in `transient/` if its owner is gone. A child that a killed owner was just starting
    /// may hold the lock for a moment longer; that moment is waited for.
    pub fn inherit(&self, id: &SandboxId) -> Result<Option<SandboxLock>, PathError> {
        let path = self.transient_path(id);
        let look = || match SandboxLock::take(&path)? {
            None if has_dead_owner(&path) => Ok(None),
            other => Ok(Some(other)),
        };
        Ok(patience::try_until(LAST_MOMENTS, look)?.flatten())
    }

    /// What is in `transient/`. Normally nothing.
    pub fn unsettled(&self) -> Result<Vec<Unsettled>, PathError> {
        let path = self.transient();
        // Each command looks, and to look for anything at all is quicker than to list.
        if absence::is_empty_dir(&path).is_ok_and(|is_empty| is_empty) {
            return Ok(Vec::new());
        }
        let Some(entries) = fs::read_dir(&path).or_absent().map_err(on("list", &path))? else {
            // Deleted by hand. Other directories may have gone with it.
            self.make()?;
            return Ok(Vec::new());
        };
        let mut unsettled = Vec::new();
        for entry in entries {
            let entry = entry.map_err(on("list", &path))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = entry.path();
            unsettled.extend(match name.split_once('-') {
                Some(("apply", _)) => Some(Unsettled::Apply(path)),
                Some(("shift", id)) => SandboxId::parse(id).map(|sandbox| Unsettled::Shift { note: path, sandbox }),
                Some(("squash" | "layers", _)) => Some(Unsettled::Layers(path)),
                _ => SandboxId::parse(&name).map(Unsettled::Sandbox),
            });
        }
        Ok(unsettled)
    }

    /// Makes the directory of an apply, in `transient/`, owned by the returned lock.
    pub fn begin_apply(&self, id: &str) -> Result<(PathBuf, SandboxLock), PathError> {
        self.begin(&format!("{APPLY}{id}"))
    }

    /// The note of a shift of this sandbox, if one is under way.
    #[must_use]
    pub fn shift_note(&self, sandbox: &SandboxId) -> PathBuf {
        self.transient().join(format!("{SHIFT}{sandbox}"))
    }

    /// Makes the note of a shift, in `transient/`, owned by the returned lock.
    /// The file is kept in the sandbox's directory for the next time: making one can take longer than all the rest.
    pub(crate) fn begin_shift(&self, sandbox: &SandboxId, text: &[u8]) -> Result<(PathBuf, SandboxLock), PathError> {
        // Locked before anybody can find it and take it for what a crash left.
        let (hidden, path) = (self.settled_path(sandbox).join(NOTE), self.shift_note(sandbox));
        let lock = SandboxLock::on_new_file(&hidden, text)?;
        fs::rename(&hidden, &path).map_err(on("create", &path))?;
        Ok((path, lock))
    }

    /// Makes room for layers that are being merged, in `transient/`, owned by the returned lock. Fails if somebody is at it.
    pub fn begin_squash(&self, sandbox: &SandboxId) -> Result<(PathBuf, SandboxLock), PathError> {
        self.begin(&format!("{SQUASH}{sandbox}"))
    }

    /// The place for layers, before there are any.
    pub fn make_layers(&self) -> Result<(), PathError> {
        make_private(&self.layers())
    }

    /// Moves a merged layer to the others.
    pub fn keep_layer(&self, place: &Path, id: &LayerId) -> Result<(), PathError> {
        self.make_layers()?;
        let to = self.layer_path(id);
        fs::rename(place.join(id.as_str()), &to).map_err(on("keep", &to))
    }

    /// Makes room for layers that come from outside, in `transient/`, owned by the returned lock.
    pub fn begin_import(&self, id: &str) -> Result<(PathBuf, SandboxLock), PathError> {
        self.begin(&format!("layers-{id}"))
    }

    /// Names the layers that will soon be recorded, so that nobody takes them for unneeded ones.
    pub fn note_import(&self, place: &Path, layers: &[LayerId]) -> Result<(), PathError> {
        // Under another name first: whoever finds half of it could not tell which layers it speaks of.
        let (new, path) = (place.join("coming.new"), place.join(COMING));
        let text = serde_json::to_vec(layers).map_err(io::Error::from);
        text.and_then(|text| fs::write(&new, text)).map_err(on("write", &new))?;
        fs::rename(&new, &path).map_err(on("write", &path))
    }

    /// The layers that an import under way is about to record.
    pub fn coming(&self, place: &Path) -> Result<Vec<LayerId>, PathError> {
        let path = place.join(COMING);
        match fs::read(&path) {
            // It has not come so far, or it is something else.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(on("read", &path)(error)),
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from).map_err(on("understand", &path)),
        }
    }

    /// Takes layers out of sight; they are deleted from there.
    pub fn condemn_layers(&self, id: &str, layers: &[LayerId]) -> Result<Option<(PathBuf, SandboxLock)>, PathError> {
        if layers.is_empty() {
            return Ok(None);
        }
        let (directory, lock) = self.begin(&format!("layers-{id}"))?;
        for layer in layers {
            let to = directory.join(layer.as_str());
            match fs::rename(self.layer_path(layer), &to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(on("remove", &to)(error)),
                _ => {}
            }
        }
        Ok(Some((directory, lock)))
    }

    /// The layers that exist.
    pub fn list_layers(&self) -> Result<Vec<LayerId>, PathError> {
        let path = self.layers();
        match fs::read_dir(&path) {
            Ok(entries) => entries
                .map(|entry| Ok(LayerId::parse(&entry.map_err(on("list", &path))?.file_name().to_string_lossy())))
                .filter_map(Result::transpose)
                .collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(on("list", &path)(error)),
        }
    }

    fn begin(&self, name: &str) -> Result<(PathBuf, SandboxLock), PathError> {
        // Locked before anybody can find it and take it for what a crash left.
        let hidden = self.cache().join(name);
        make_private(&hidden)?;
        let lock = SandboxLock::take(&hidden)?.ok_or_else(|| on("lock", &hidden)(io::Error::from(io::ErrorKind::WouldBlock)))?;
        let path = self.transient().join(name);
        rename_to_free(&hidden, &path).map_err(on("create", &path))?;
        Ok((path, lock))
    }

    /// An apply is done and everything about it is written down.
    pub fn file_apply(&self, id: &str) -> Result<(), PathError> {
        make_private(&self.root.join("applies"))?;
        let (from, to) = (self.transient().join(format!("{APPLY}{id}")), self.apply_path(id));
        fs::rename(&from, &to).map_err(on("keep", &to))
    }

    /// Keeps the remains of an apply that did not happen, because there are versions of files in them that are nowhere else.
    pub fn set_aside(&self, directory: &Path) -> Result<(), PathError> {
        let aside = self.root.join("remains");
        make_private(&aside)?;
        let to = aside.join(directory.file_name().unwrap_or(directory.as_os_str()));
        fs::rename(directory, &to).map_err(on("keep", &to))
    }

    /// Where the record of a finished apply lies.
    #[must_use]
    pub fn apply_path(&self, id: &str) -> PathBuf {
        self.root.join("applies").join(id)
    }

    /// The records of all finished applies.
    pub fn applies(&self) -> Result<Vec<PathBuf>, PathError> {
        let path = self.root.join("applies");
        match fs::read_dir(&path) {
            Ok(entries) => entries.map(|e| e.map(|e| e.path())).collect::<io::Result<_>>().map_err(on("list", &path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(on("list", &path)(error)),
        }
    }

    pub fn settled(&self) -> Result<Vec<SandboxId>, PathError> {
        ids_in(&self.sandboxes())
    }
}

/// Writes down which process a directory in `transient/` belongs to.
fn own(lock: &SandboxLock) {
    let pid = rustix::process::getpid().as_raw_nonzero().to_string();
    // Where a file system has no such attributes, only a wait after a crash is lost.
    let _ = rustix::fs::fsetxattr(&lock.directory, OWNER, pid.as_bytes(), XattrFlags::empty());
}

fn has_dead_owner(path: &Path) -> bool {
    let mut text = [0_u8; 16];
    let pid = rustix::fs::getxattr(path, OWNER, &mut text[..])
        .ok()
        .and_then(|length| std::str::from_utf8(&text[..length]).ok()?.parse::<i32>().ok())
        .and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

fn ids_in(directory: &Path) -> Result<Vec<SandboxId>, PathError> {
    // Deleted by hand: then each sandbox that has a record is incomplete, and there are no others.
    let Some(entries) = fs::read_dir(directory).or_absent().map_err(on("list", directory))? else { return Ok(Vec::new()) };
    entries
        .map(|entry| Ok(SandboxId::parse(&entry.map_err(on("list", directory))?.file_name().to_string_lossy())))
        .filter_map(Result::transpose)
        .collect()
}

/// Whoever else could write here could put heads and records under us.
fn check_owner(root: &Path, metadata: &fs::Metadata) -> Result<(), PathError> {
    let refuse = |why: &str| Err(on("use", root)(io::Error::other(why.to_owned())));
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("the state directory belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 {
        return refuse("others can write the state directory");
    }
    Ok(())
}

/// Whether nothing is in a directory; one that is not there holds nothing either. One that cannot be looked into may hold
/// somebody's work.
#[must_use]
pub fn is_empty(directory: &Path) -> bool {
    absence::is_empty_dir(directory).unwrap_or_else(|error| error.kind() == io::ErrorKind::NotFound)
}

pub(crate) fn make_private(path: &Path) -> Result<(), PathError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(on("create", path)),
    }
}

/// Renames a directory to a name that nobody has. One that its holder has emptied and is about to remove is still theirs.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can.
        Err(rustix::io::Errno::INVAL) => fs::rename(from, to),
        other => Ok(other?),
    }
}
