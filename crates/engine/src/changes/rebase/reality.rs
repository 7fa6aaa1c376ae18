//! Reads what reality has at a path, from one descriptor: nothing leads out of the tree through a link, and what was read is one
//! state of the file, or is not used.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, openat2, readlinkat, statx};
use rustix::io::Errno;
use whatif_diff::content::LONGEST_TEXT;
use whatif_diff::{Kind, Node, State, attributes};

/// How often a file may change while it is read.
const TRIES: usize = 5;

/// A tree of reality, held.
#[derive(Debug)]
pub(super) struct Tree {
    path: PathBuf,
    root: OwnedFd,
}

/// What was found at a path.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    /// It can be looked at, but is too long to be read as a whole.
    TooLong,
    /// It does not stand still, or cannot be read.
    Unsteady,
    There(Box<State>),
}

impl Tree {
    pub(super) fn hold(path: &Path) -> io::Result<Self> {
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let root = openat2(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), resolve)?;
        Ok(Self { path: path.to_owned(), root })
    }

    /// What is at an absolute path in this tree.
    pub(super) fn read(&self, path: &Path) -> io::Result<Found> {
        for _ in 0..TRIES {
            let Some(file) = self.open(path)? else { return Ok(Found::Nothing) };
            let before = node(&file)?;
            let state = match before.kind {
                Kind::File if before.size > LONGEST_TEXT => return Ok(Found::TooLong),
                Kind::File => State::read_once(before.clone(), path.to_owned(), attributes::of_open(&file)?, bytes(&file)?),
                Kind::Link => {
                    let target = readlinkat(&file, "", Vec::new())?.into_bytes();
                    State::read_once(before.clone(), path.to_owned(), attributes::Attributes::new(), target)
                }
                Kind::Directory => {
                    let mut state = State::new(before.clone(), path.to_owned(), whatif_overlay::Format::None);
                    state.set_attributes(attributes::of_open(&file)?);
                    state
                }
                _ => return Ok(Found::Unsteady),
            };
            let after = node(&file)?;
            // Names come and go in a directory without changing what it is.
            if after.is_untouched_since(&before) || before.kind == Kind::Directory && after.ctime == before.ctime {
                return Ok(Found::There(Box::new(state)));
            }
        }
        Ok(Found::Unsteady)
    }

    fn open(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        let Ok(relative) = path.strip_prefix(&self.path) else { return Ok(None) };
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..1000 {
            match openat2(&self.root, relative, flags, Mode::empty(), resolve) {
                Ok(file) => return Ok(Some(file)),
                // Something is being renamed: the kernel asks to try again.
                Err(Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
                // What lies behind a link or on another file system is not in this tree.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::AGAIN.into())
    }
}

fn node(file: &OwnedFd) -> io::Result<Node> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    Ok(Node::from(&statx(file, "", flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?))
}

/// The bytes of the very file that is held.
fn bytes(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let again = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let file = rustix::fs::open(again, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::new();
    File::from(file).take(LONGEST_TEXT + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
