//! What may be done in a sandbox, by chance.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::fs::{CWD, RenameFlags, XattrFlags, renameat_with, setxattr};

use super::NOTE;

/// Something done inside. What the file system refuses is not done.
#[derive(Clone, Debug)]
pub enum Act {
    Write(String, u8),
    Append(String, u8),
    MakeDirectory(String),
    Remove(String),
    Rename(String, String),
    Exchange(String, String),
    BecomeFile(String),
    BecomeDirectory(String),
    Mode(String, u32),
    /// An extended attribute.
    Note(String, u8),
    Symlink(String, String),
    Link(String, String),
    /// Gone in one step and back in the next: a whiteout that something else covers.
    Again(String, u8),
}

/// Few names, so that they meet.
fn path() -> impl Strategy<Value = String> {
    vec(prop_oneof!["a", "b", "c"], 1..4).prop_map(|names| names.join("/"))
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (path(), any::<u8>()).prop_map(|(p, b)| Act::Write(p, b)),
        1 => (path(), any::<u8>()).prop_map(|(p, b)| Act::Append(p, b)),
        2 => path().prop_map(Act::MakeDirectory),
        2 => path().prop_map(Act::Remove),
        8 => (path(), path()).prop_map(|(p, q)| Act::Rename(p, q)),
        2 => (path(), path()).prop_map(|(p, q)| Act::Exchange(p, q)),
        1 => path().prop_map(Act::BecomeFile),
        1 => path().prop_map(Act::BecomeDirectory),
        1 => (path(), prop_oneof![Just(0o700), Just(0o755), Just(0o640)]).prop_map(|(p, m)| Act::Mode(p, m)),
        1 => (path(), any::<u8>()).prop_map(|(p, b)| Act::Note(p, b)),
        1 => (path(), path()).prop_map(|(p, q)| Act::Symlink(p, q)),
        1 => (path(), path()).prop_map(|(p, q)| Act::Link(p, q)),
        1 => (path(), any::<u8>()).prop_map(|(p, b)| Act::Again(p, b)),
    ]
}

/// One to six layers of them.
pub fn layers() -> impl Strategy<Value = Vec<Vec<Act>>> {
    vec(vec(act(), 1..8), 1..7)
}

impl Act {
    pub fn perform(&self, root: &Path) {
        let at = |path: &String| root.join(path);
        let _ = match self {
            Self::Write(path, byte) => fs::write(at(path), [*byte; 3]),
            Self::Append(path, byte) => OpenOptions::new().append(true).open(at(path)).and_then(|mut f| f.write_all(&[*byte])),
            Self::MakeDirectory(path) => fs::create_dir(at(path)),
            Self::Remove(path) => {
                remove(&at(path));
                Ok(())
            }
            Self::Rename(path, to) => fs::rename(at(path), at(to)),
            Self::Exchange(path, with) => {
                renameat_with(CWD, at(path), CWD, at(with), RenameFlags::EXCHANGE).map_err(std::io::Error::from)
            }
            Self::BecomeFile(path) => {
                remove(&at(path));
                fs::write(at(path), "was something else")
            }
            Self::BecomeDirectory(path) => {
                remove(&at(path));
                fs::create_dir(at(path)).and_then(|()| fs::write(at(path).join("a"), "in the new one"))
            }
            Self::Mode(path, _) | Self::Note(path, _) if at(path).is_symlink() => Ok(()),
            Self::Mode(path, mode) => fs::set_permissions(at(path), Permissions::from_mode(*mode)),
            Self::Note(path, byte) => setxattr(at(path), NOTE, &[*byte], XattrFlags::empty()).map_err(std::io::Error::from),
            // Never in circles: git takes no patch over such a link.
            Self::Symlink(path, to) => symlink(format!("nowhere/{to}"), at(path)),
            Self::Link(path, to) => fs::hard_link(at(path), at(to)),
            Self::Again(path, byte) => {
                remove(&at(path));
                fs::write(at(path), [*byte; 2])
            }
        };
    }
}

fn remove(path: &Path) {
    let _ = if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Directories in directories, each with a file that tells where it came from.
pub fn furnish(base: &Path) {
    for directory in ["a", "a/a", "a/b", "a/b/c", "b", "b/c", "b/c/a", "c/b"] {
        fs::create_dir_all(base.join(directory)).unwrap();
        fs::write(base.join(directory).join("origin"), directory).unwrap();
    }
    fs::write(base.join("a/c"), "a file").unwrap();
    symlink("nowhere", base.join("c/a")).unwrap();
}
