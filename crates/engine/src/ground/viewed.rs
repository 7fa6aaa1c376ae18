//! Since when a sandbox's view of reality is fresh.

pub(crate) mod moment;

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use whatif_diff::Node;
use whatif_sys::patience;
use whatif_types::sandbox::Viewed;
use whatif_types::{Backend, Sandbox, Status};

use crate::ground::keepers::instance_in;
use crate::{EngineError, roots};

/// In the sandbox's directory: when its view was last made fresh, if that was after it was put together.
const FILE: &str = "viewed.json";

/// Longer than what is written there ever is: it is written over.
const NOTE_LENGTH: usize = 256;

/// How long a command waits for its turn. Others take less than a millisecond each, unless they are stopped.
const TURN_PATIENCE: Duration = Duration::from_secs(1);

/// The present moment, for a view of these trees that is about to be put together.
pub(crate) fn viewed_now<'a>(project: &Path, trees: impl Iterator<Item = (usize, &'a Path)>) -> Viewed {
    // Without it, the project's directory is one like the others.
    let project = Node::of(project).ok().flatten().map(|n| (n.dev, n.ino));
    let roots = roots::of(trees);
    Viewed { since: moment::now(), project, roots }
}

/// Since when everything that the sandbox sees was looked up.
pub(crate) fn viewed(sandbox: &Sandbox, directory: &Path) -> Option<Viewed> {
    let made = sandbox.details.position.viewed.clone();
    let refreshed = fs::read(directory.join(FILE)).ok().and_then(|text| serde_json::from_slice::<Viewed>(&text).ok());
    let roots = made.as_ref().map(|made| made.roots.clone()).unwrap_or_default();
    // Looking up again what lies in a tree gives it no other root.
    made.into_iter().chain(refreshed).max_by_key(|v| v.since).map(|latest| Viewed { roots, ..latest })
}

/// The root directory of a living sandbox, to look at what it sees. Only the kernel's own overlays answer by themselves: what is
/// served by a process may be held still.
pub(crate) fn enter(sandbox: &Sandbox, directory: &Path) -> Option<OwnedFd> {
    if sandbox.status != Status::Active || sandbox.details.backend != Backend::Overlay {
        return None;
    }
    instance_in(sandbox, directory).ok()?.view().ok()
}

/// The turn of one command to make the view of a sandbox fresh.
///
/// That takes two steps with each overlay, and all commands use the same descriptors for it: if two of them took the steps at the same
/// time, the kernel would refuse the second one, and from then on any.
#[derive(Debug)]
pub(crate) struct Turn {
    file: File,
    path: PathBuf,
}

impl Turn {
    pub fn wait(directory: &Path) -> Result<Self, EngineError> {
        let path = directory.join(FILE);
        let take = || -> io::Result<File> {
            let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            let taken = patience::try_until(TURN_PATIENCE, || match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(())),
                Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
                Err(errno) => Err(errno),
            })?;
            taken.map(|()| file).ok_or_else(|| io::ErrorKind::TimedOut.into())
        };
        match take() {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => Err(EngineError::io("lock", &path, error)),
        }
    }

    /// It need not outlast a power cut, which no view does. A reader who finds half of it takes the view for older than it is.
    pub fn note(&self, fresh: &Viewed) -> Result<(), EngineError> {
        let note = || -> io::Result<()> {
            let mut text = serde_json::to_vec(fresh)?;
            text.resize(text.len().max(NOTE_LENGTH), b' ');
            self.file.write_all_at(&text, 0)
        };
        note().map_err(|e| EngineError::io("write", &self.path, e))
    }
}
