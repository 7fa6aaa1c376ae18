//! The inventory of a copied tree, which tells later what the sandbox changed and what reality did.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use whatif_sys::clock;
use whatif_types::copied::{self, Attributes, Copy, Original, Time};

use super::archived::is_untouched;
use super::if_there;
use crate::{PathError, on};

/// What was copied, and what each copy was when it was finished.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    pub(super) originals: Vec<Original>,
}

impl Copied {
    pub(super) fn add(&mut self, inside: &Path, original: &Metadata, copy: &Path, attributes: Attributes) -> Result<(), PathError> {
        let made = fs::symlink_metadata(copy).map_err(on("examine", copy))?;
        self.originals.push(Original {
            path: inside.to_owned(),
            mode: original.mode(),
            uid: original.uid(),
            gid: original.gid(),
            nlink: u32::try_from(original.nlink()).unwrap_or(u32::MAX),
            size: original.size(),
            blocks: original.blocks(),
            dev: original.dev(),
            ino: original.ino(),
            mtime: (original.mtime(), original.mtime_nsec() as u32),
            ctime: (original.ctime(), original.ctime_nsec() as u32),
            attributes: Some(attributes),
            copy: Some(describe(&made)),
        });
        Ok(())
    }

    /// Takes a copy for finished as it is now: it was rewritten on purpose.
    pub fn finished(&mut self, inside: &Path, copy: &Path) -> Result<(), PathError> {
        let made = fs::symlink_metadata(copy).map_err(on("examine", copy))?;
        if let Some(original) = self.originals.iter_mut().find(|o| o.path == inside) {
            original.copy = Some(describe(&made));
        }
        Ok(())
    }

    /// Takes out what is at a path, and below it.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.originals.retain(|original| !original.path.starts_with(path));
    }

    /// Writes it next to the copy, and waits until whatever is written to the copy from here on gets a later time than the copy
    /// and the inventory have.
    pub fn write(&self, copy: &Path) -> Result<(), PathError> {
        let path = copied::beside(copy);
        let new = path.with_extension("new");
        let written = || -> io::Result<Time> {
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&copied::encode(&self.originals))?;
            let finished = file.metadata()?;
            fs::rename(&new, &path)?;
            Ok((finished.mtime(), finished.mtime_nsec() as u32))
        };
        let finished = written().map_err(on("write", &path))?;
        let last = self.originals.iter().filter_map(|o| o.copy.as_ref()).map(|c| c.ctime).max();
        wait_until_after(last.map_or(finished, |last| last.max(finished)));
        Ok(())
    }

    /// The one next to a copy. None if the tree was copied by a version that wrote none.
    pub(super) fn read(copy: &Path) -> Result<Option<Self>, PathError> {
        let path = copied::beside(copy);
        let Some(bytes) = if_there(fs::read(&path)).map_err(on("read", &path))? else { return Ok(None) };
        let originals =
            copied::decode(&bytes).ok_or_else(|| on("understand", &path)(io::Error::from(io::ErrorKind::InvalidData)))?;
        Ok(Some(Self { originals }))
    }

    /// The same for a copy of the copy: what is untouched in one is so in the other.
    pub(super) fn carried(mut self, from: &Path, to: &Path) -> Result<Self, PathError> {
        for original in &mut self.originals {
            let Some(known) = original.copy.take() else { continue };
            let (source, copy) = (from.join(&original.path), to.join(&original.path));
            let Some(found) = if_there(fs::symlink_metadata(&source)).map_err(on("examine", &source))? else { continue };
            if is_untouched(&known, &found) {
                let made = fs::symlink_metadata(&copy).map_err(on("examine", &copy))?;
                let (ino, ctime, btime) = (made.ino(), ctime(&made), btime(&made));
                original.copy = Some(Copy { ino, ctime, btime, ..known });
            }
        }
        Ok(self)
    }
}

pub(super) fn describe(made: &Metadata) -> Copy {
    Copy { ino: made.ino(), ctime: ctime(made), mode: made.mode(), uid: made.uid(), gid: made.gid(), btime: btime(made) }
}

pub(super) fn btime(metadata: &Metadata) -> Option<Time> {
    let since = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((since.as_secs().cast_signed(), since.subsec_nanos()))
}

pub(super) fn ctime(metadata: &Metadata) -> Time {
    (metadata.ctime(), metadata.ctime_nsec() as u32)
}

/// File systems take their times from a clock that moves in ticks of up to 10 ms.
pub(super) fn wait_until_after(time: Time) {
    const LONGEST: usize = 50;
    for _ in 0..LONGEST {
        if clock::ticks() > time {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
