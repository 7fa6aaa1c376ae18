//! Where a path of reality really lies. Every link on the way to it is followed, also to what is not there yet.
//!
//! A mask that is put where a path is only named leaves the secret in the open at its real place.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;
use whatif_sys::absence::MeansAbsent;

use crate::{PathError, on};

/// The kernel follows no more of them for one path.
const MOST_LINKS: u32 = 40;

/// Follows links. It remembers the directories it went through, because most paths that are asked about share a few of them.
#[derive(Debug, Default)]
pub struct Links {
    /// As they are named, and where they are.
    directories: HashMap<OsString, PathBuf>,
    /// The names in some of them, sorted: what is not there is no link.
    listed: HashMap<OsString, Vec<OsString>>,
}

/// The real places of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    /// The name in the directory that really holds it. It may be a link.
    pub entry: PathBuf,
    /// What it leads to: the same if it is no link, nothing if it leads in circles.
    pub target: Option<PathBuf>,
}

impl Real {
    /// Both of them, or the one there is.
    pub fn places(self) -> impl Iterator<Item = PathBuf> {
        let target = self.target.filter(|target| *target != self.entry);
        [self.entry].into_iter().chain(target)
    }
}

impl Links {
    /// What is closed to this user or absent counts as no link.
    pub fn follow(&mut self, path: &Path) -> Result<Real, PathError> {
        let mut left = MOST_LINKS;
        let entry = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => match self.directory(parent, &mut left)? {
                Some(directory) => directory.join(name),
                None => return Ok(Real { entry: path.to_owned(), target: None }),
            },
            _ => path.to_owned(),
        };
        let target = self.target(&entry, &mut left)?;
        Ok(Real { entry, target })
    }

    /// Whoever has listed a directory saves many looks at what is not in it. The names are sorted.
    pub fn list(&mut self, directory: &Path, names: Vec<OsString>) -> Result<(), PathError> {
        if let Some(real) = self.directory(directory, &mut { MOST_LINKS })? {
            self.listed.insert(real.into(), names);
        }
        Ok(())
    }

    fn is_absent(&self, entry: &Path) -> bool {
        let names = entry.parent().and_then(|directory| self.listed.get(directory.as_os_str()));
        names.zip(entry.file_name()).is_some_and(|(names, name)| names.binary_search_by(|n| n.as_os_str().cmp(name)).is_err())
    }

    fn directory(&mut self, path: &Path, left: &mut u32) -> Result<Option<PathBuf>, PathError> {
        if let Some(known) = self.directories.get(path.as_os_str()) {
            return Ok(Some(known.clone()));
        }
        let above = match path.parent() {
            Some(parent) => self.directory(parent, left)?,
            None => return Ok(Some(path.to_owned())),
        };
        let real = match (above, path.components().next_back()) {
            (Some(above), Some(Component::Normal(name))) => self.target(&above.join(name), left)?,
            (Some(above), Some(Component::ParentDir)) => Some(above.parent().unwrap_or(&above).to_owned()),
            (above, _) => above,
        };
        if let Some(real) = &real {
            self.directories.insert(path.into(), real.clone());
        }
        Ok(real)
    }

    /// `entry` lies in a real directory.
    fn target(&mut self, entry: &Path, left: &mut u32) -> Result<Option<PathBuf>, PathError> {
        if self.is_absent(entry) {
            return Ok(Some(entry.to_owned()));
        }
        match fs::read_link(entry) {
            Ok(target) if *left > 0 => {
                *left -= 1;
                let target = entry.parent().unwrap_or(entry).join(target);
                self.directory(&target, left)
            }
            Ok(_) => Ok(None),
            Err(error) if is_no_link(&error) => Ok(Some(entry.to_owned())),
            Err(error) => Err(on("examine", entry)(error)),
        }
    }
}

/// What this user cannot reach is not reached inside either.
fn is_no_link(error: &io::Error) -> bool {
    let is_other_kind = Errno::from_io_error(error) == Some(Errno::INVAL);
    is_other_kind || error.means_absent() || error.kind() == io::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_on_the_way_is_followed() {
        let place = std::env::temp_dir().join(format!("whatif-links-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).expect("a directory can be made");
        let top = fs::canonicalize(&place).expect("it is there");
        fs::create_dir_all(top.join("real/a/b")).expect("directories can be made");
        for (target, link) in
            [("real", "one"), ("./one/a/../a", "two"), ("b", "real/a/c"), ("../absent/x", "real/gone"), ("round", "round")]
        {
            symlink(target, top.join(link)).expect("a link can be made");
        }
        symlink(top.join("two"), top.join("real/back")).expect("a link can be made");
        let mut links = Links::default();
        // A listing says what is not there, and nothing about what is.
        links.list(&top.join("one"), ["a", "back", "gone"].map(OsString::from).to_vec()).expect("it can be looked at");
        for (path, entry, target) in [
            ("one/unseen", "real/unseen", Some("real/unseen")),
            ("real/a/b", "real/a/b", Some("real/a/b")),
            ("one/a/b/new", "real/a/b/new", Some("real/a/b/new")),
            ("two/c", "real/a/c", Some("real/a/b")),
            ("two/c/x/y", "real/a/b/x/y", Some("real/a/b/x/y")),
            ("one/back/b", "real/a/b", Some("real/a/b")),
            ("one/gone", "real/gone", Some("absent/x")),
            ("one/gone/y", "absent/x/y", Some("absent/x/y")),
            ("round", "round", None),
            ("round/x", "round/x", None),
        ] {
            let found = links.follow(&top.join(path)).expect("it can be looked at");
            assert_eq!(found, Real { entry: top.join(entry), target: target.map(|t| top.join(t)) }, "{path}");
        }
        fs::remove_dir_all(place).expect("it is ours");
    }
}
