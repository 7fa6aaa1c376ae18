//! A layer on disk, entry by entry, in the order of an archive.
//!
//! What lies there was made by whatever ran in a sandbox: nothing is followed, and nothing is opened but files and directories.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Statx, StatxFlags, makedev};
use whatif_overlay::whiteout;

use crate::attributes::{self, Attributes, by_descriptor};
use crate::beneath::Beneath;
use crate::codec;
use crate::entry::{About, Entry, Kind, Time};
use crate::error::{ArchiveError, on, shown};
use crate::names;
use crate::write::{Layer, LeftOut};

#[derive(Debug)]
pub(crate) struct Tree<'l> {
    layer: &'l Layer,
    beneath: Beneath,
    /// Paths relative to the layer; the next one is the last.
    pending: Vec<Vec<u8>>,
    /// Files with several names, by device and inode, and the name that came first.
    named: HashMap<(u32, u32, u64), Vec<u8>>,
    pub left_out: LeftOut,
}

impl<'l> Tree<'l> {
    pub(crate) fn open(layer: &'l Layer) -> Result<Self, ArchiveError> {
        let beneath = Beneath::open(&layer.directory)?;
        Ok(Self { layer, beneath, pending: vec![Vec::new()], named: HashMap::new(), left_out: LeftOut::default() })
    }

    /// The next entry, with its content if it is a file.
    pub(crate) fn next(&mut self) -> Result<Option<(Entry, Option<File>)>, ArchiveError> {
        while let Some(path) = self.pending.pop() {
            if self.layer.without.iter().any(|without| without.as_bytes() == path) {
                continue;
            }
            if let Some(found) = self.look_at(&path)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// For messages only.
    pub(crate) fn full_path(&self, entry: &Entry) -> PathBuf {
        self.beneath.full_path(names::within_layer(&entry.path))
    }

    fn look_at(&mut self, path: &[u8]) -> Result<Option<(Entry, Option<File>)>, ArchiveError> {
        let full = self.beneath.full_path(path);
        let held = self.hold(path)?;
        let seen = rustix::fs::statx(&held, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map_err(on("look at", &full))?;
        let mut file = None;
        let kind = match FileType::from_raw_mode(seen.stx_mode.into()) {
            FileType::Directory => {
                self.list(&held, path).map_err(on("list", &full))?;
                Kind::Directory
            }
            FileType::RegularFile => match self.earlier_name(&seen, path) {
                Some(earlier) => Kind::HardLink { to: self.in_archive(&earlier) },
                None => {
                    file = Some(File::open(by_descriptor(&held)).map_err(on("open", &full))?);
                    Kind::File { size: seen.stx_size }
                }
            },
            FileType::Symlink => {
                let to = rustix::fs::readlinkat(&held, "", Vec::new()).map_err(on("read the link", &full))?;
                Kind::Link { to: to.into_bytes() }
            }
            FileType::Fifo => Kind::Pipe,
            kind if whiteout::is_device(kind, makedev(seen.stx_rdev_major, seen.stx_rdev_minor)) => Kind::Whiteout,
            other => {
                match other {
                    FileType::Socket => self.left_out.sockets += 1,
                    _ => self.left_out.devices += 1,
                }
                // What it took the place of stays gone.
                if self.is_copied(path) {
                    return Ok(None);
                }
                Kind::Whiteout
            }
        };
        let mut entry = Entry { path: self.in_archive(path), kind, about: About::default(), attributes: Attributes::default() };
        if !matches!(entry.kind, Kind::HardLink { .. }) {
            entry.about = about(&seen);
            entry.attributes = self.attributes(&entry, &held, &full)?;
        }
        if let Some(what) = codec::objection(&entry) {
            return Err(ArchiveError::Unsupported { name: shown(&entry.path), what });
        }
        attributes::check(&entry)?;
        Ok(Some((entry, file)))
    }

    fn is_copied(&self, path: &[u8]) -> bool {
        let part = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        self.layer.copied.iter().any(|copied| copied.as_bytes() == part)
    }

    fn attributes(&mut self, entry: &Entry, held: &OwnedFd, full: &Path) -> Result<Attributes, ArchiveError> {
        // Links and whiteouts have none that mean something elsewhere, and users cannot give them any.
        if matches!(entry.kind, Kind::Link { .. } | Kind::Whiteout) {
            return Ok(Attributes::default());
        }
        let mut found = attributes::find(held, &entry.kind, self.layer.marks).map_err(on("read the attributes of", full))?;
        if found.is_partial {
            let what = "is a file whose content lies in another layer";
            return Err(ArchiveError::Unsupported { name: shown(&entry.path), what });
        }
        if entry.kind == Kind::Pipe {
            found.attributes.marks.clear();
        }
        if attributes::has_strangers(&found.attributes) {
            // What changes started from is bytes; its attributes are written down elsewhere.
            if entry.path.split(|byte| *byte == b'/').nth(1) != Some(b"base") {
                return Err(ArchiveError::Strangers { name: shown(&entry.path) });
            }
            attributes::drop_lists(&mut found.attributes);
        }
        self.left_out.attributes += found.left_out;
        Ok(found.attributes)
    }

    /// Holds the entry itself, whatever it is, without waking it.
    fn hold(&mut self, path: &[u8]) -> Result<OwnedFd, ArchiveError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let full = self.beneath.full_path(path);
        if path.is_empty() {
            return self.beneath.resolve(b".", OFlags::PATH).map_err(on("open", &full));
        }
        let (directory, name) = self.beneath.place(path)?;
        rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(on("open", &full))
    }

    fn list(&mut self, held: &OwnedFd, path: &[u8]) -> rustix::io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut children = Vec::new();
        for entry in Dir::new(rustix::fs::openat(held, ".", flags, Mode::empty())?)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                children.push(if path.is_empty() { name } else { [path, b"/", &name].concat() });
            }
        }
        // They share all but the last component, so the order of the bytes is that of the components.
        children.sort_unstable_by(|a, b| b.cmp(a));
        self.pending.append(&mut children);
        Ok(())
    }

    /// Remembers a file of several names when it comes first.
    fn earlier_name(&mut self, seen: &Statx, path: &[u8]) -> Option<Vec<u8>> {
        if seen.stx_nlink < 2 {
            return None;
        }
        let file = (seen.stx_dev_major, seen.stx_dev_minor, seen.stx_ino);
        let earlier = self.named.get(&file).cloned();
        if earlier.is_none() {
            self.named.insert(file, path.to_owned());
        }
        earlier
    }

    fn in_archive(&self, path: &[u8]) -> Vec<u8> {
        let id = self.layer.id.as_bytes();
        if path.is_empty() { id.to_owned() } else { [id, b"/", path].concat() }
    }
}

fn about(seen: &Statx) -> About {
    About {
        mode: u32::from(seen.stx_mode) & 0o7777,
        uid: seen.stx_uid,
        gid: seen.stx_gid,
        mtime: Time { seconds: seen.stx_mtime.tv_sec, nanoseconds: seen.stx_mtime.tv_nsec },
    }
}
