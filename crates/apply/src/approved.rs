//! A file of a sandbox that was looked at, and what it must be when it becomes real.
//!
//! Something in the sandbox may be alive, held still or not. So what is taken is this inode as it was found, read from a descriptor
//! that no link led to; and where its times alone do not prove that nobody wrote to it, what was made of it has the very bytes that
//! were looked at.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use whatif_sys::direct;
use whatif_types::text;

use crate::content::{Copier, create_file};
use crate::error::{Fault, on};
use crate::fingerprint::{Hash, hash_of};
use crate::look::look_at;
use crate::plan::{Identity, Kind};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    /// As it was found.
    pub identity: Identity,
    /// Of its bytes as they were looked at, where something was alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Hash>,
}

impl Approved {
    /// Copies it into an empty file that can be read, for `target` in reality.
    pub(crate) fn copy(&self, copier: &mut Copier<'_>, to: &OwnedFd, device: u64, target: &Path) -> Result<(), Fault> {
        let source = self.open().map_err(|error| self.fault(error, target))?;
        copier
            .copy(&source, to, device)
            .map_err(|error| if is_cancelled(&error) { on("stage", target)(error) } else { self.fault(error, target) })?;
        self.require(&source).map_err(|error| self.fault(error, target))?;
        match self.hash {
            Some(hash) if hash_of(to).map_err(on("read", target))? != hash => Err(Self::changed(target)),
            _ => Ok(()),
        }
    }

    /// Copies it to a path where nothing is: for a trial of what would become real.
    pub fn copy_to(&self, place: &Path) -> io::Result<()> {
        let to = create_file(rustix::fs::CWD, place)?;
        let device = look_at(&to)?.identity.dev;
        self.copy(&mut Copier::new(), &to, device, place).map_err(|fault| io::Error::other(fault.to_string()))
    }

    /// Its bytes, if there are not more than `longest`.
    pub fn read(&self, longest: u64) -> io::Result<Vec<u8>> {
        let source = self.open()?;
        if self.identity.size > longest {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(std::fs::File::from(source.try_clone()?), self.identity.size + 1), &mut bytes)?;
        self.require(&source)?;
        match self.hash {
            Some(hash) if Hash(Sha256::digest(&bytes).into()) != hash => Err(Errno::STALE.into()),
            _ => Ok(bytes),
        }
    }

    /// `ESTALE` if it is not what was found any more.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let source = direct::open(&self.path, flags).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Errno::STALE,
            other => other,
        })?;
        self.require(&source)?;
        Ok(source)
    }

    /// Owner and mode are the plan's; a rename moves the time of change, too.
    fn require(&self, source: &OwnedFd) -> io::Result<()> {
        let now = look_at(source)?.identity;
        let (was, is) = (&self.identity, &now);
        let is_same = is.kind == Kind::File && (was.ino, was.size, was.mtime, was.ctime) == (is.ino, is.size, is.mtime, is.ctime);
        if is_same { Ok(()) } else { Err(Errno::STALE.into()) }
    }

    fn fault(&self, error: io::Error, target: &Path) -> Fault {
        match Errno::from_io_error(&error) {
            // Without a number: the source was written to while it was copied.
            Some(Errno::STALE) | None => Self::changed(target),
            Some(_) => on("stage", target)(error),
        }
    }

    fn changed(target: &Path) -> Fault {
        Fault::changed(target, "was changed in the sandbox after it was looked at")
    }
}

fn is_cancelled(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::CANCELED)
}
