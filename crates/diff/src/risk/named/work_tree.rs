//! Work trees of reality, and the files that configure git in them.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use whatif_sys::absence::OrAbsent;
use whatif_types::mask::without_steps_up;

use super::settings::{self, Setting};
use crate::unreadable::Unreadable;

/// No configuration is longer.
const LONGEST: u64 = 1 << 20;
/// As deep as git goes.
const DEEPEST_INCLUDE: usize = 10;

#[derive(Debug)]
pub(super) struct WorkTree {
    pub root: PathBuf,
    /// The repository.
    pub common: PathBuf,
    pub attributes: PathBuf,
    /// Where hooks are if nothing else is configured.
    pub hooks: PathBuf,
    /// Its configuration, and what only this one of several work trees has.
    pub settings: [PathBuf; 2],
}

/// The work trees that these paths are in.
pub(super) fn around<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<Vec<WorkTree>, Unreadable> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for path in paths {
        for directory in path.ancestors().skip(1) {
            // Who has been here has been further up as well.
            if !seen.insert(directory) {
                break;
            }
            found.extend(WorkTree::at(directory)?);
        }
    }
    Ok(found)
}

impl WorkTree {
    fn at(root: &Path) -> Result<Option<Self>, Unreadable> {
        let dot_git = root.join(".git");
        let own = match std::fs::metadata(&dot_git).or_absent() {
            Ok(None) => return Ok(None),
            Ok(Some(metadata)) if metadata.is_dir() => dot_git,
            // A submodule, or one of several work trees: a file that says where the repository is.
            Ok(Some(_)) => match text(&dot_git)?.and_then(|text| text.strip_prefix("gitdir:").map(|path| root.join(path.trim()))) {
                Some(own) => own,
                None => return Ok(None),
            },
            Err(error) => return if is_closed(&error) { Ok(None) } else { Err(Unreadable::of(&dot_git, &error)) },
        };
        let common = text(&own.join("commondir"))?.map_or_else(|| own.clone(), |path| own.join(path.trim()));
        let settings = [common.join("config"), own.join("config.worktree")];
        let (hooks, attributes) = (common.join("hooks"), common.join("info/attributes"));
        Ok(Some(Self { root: root.to_owned(), common, attributes, hooks, settings }))
    }
}

/// The settings of files, and of those that they include, which are named too. Conditions of an include may hold tomorrow.
#[derive(Debug, Default)]
pub(super) struct Configured {
    pub settings: Vec<Setting>,
    pub included: Vec<PathBuf>,
}

impl Configured {
    pub(super) fn files(files: &[PathBuf], homes: &[PathBuf]) -> Result<Self, Unreadable> {
        let mut read = Self::default();
        for file in files {
            read.file(file, homes, DEEPEST_INCLUDE)?;
        }
        Ok(read)
    }

    fn file(&mut self, file: &Path, homes: &[PathBuf], depth: usize) -> Result<(), Unreadable> {
        for setting in text(file)?.map(|text| settings::of(&text)).unwrap_or_default() {
            if !matches!(setting.key.as_str(), "include.path" | "includeif.path") {
                self.settings.push(setting);
                continue;
            }
            let beside = file.parent().unwrap_or(Path::new("/"));
            for path in super::words::paths(&setting.value, beside, homes, false) {
                let path = without_steps_up(&path);
                let is_new = !self.included.contains(&path);
                self.included.push(path.clone());
                if is_new && depth > 0 {
                    self.file(&path, homes, depth - 1)?;
                }
            }
        }
        Ok(())
    }
}

/// Links in a directory of programs: they lead to what is really run.
pub(super) fn links_in(directory: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let failed = |error: io::Error| Unreadable::of(directory, &error);
    let entries = match std::fs::read_dir(directory).or_absent() {
        Ok(entries) => entries,
        Err(error) if is_closed(&error) => None,
        // Not every word is a path.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NAMETOOLONG | Errno::INVAL)) => None,
        Err(error) => return Err(failed(error)),
    };
    let mut links = Vec::new();
    for entry in entries.into_iter().flatten() {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_symlink() {
            links.push(entry.path());
        }
    }
    Ok(links)
}

/// The text of a regular file. Git would wait for a pipe, and `/dev/null` is how a file is configured away.
fn text(path: &Path) -> Result<Option<String>, Unreadable> {
    let failed = |error: io::Error| Unreadable::of(path, &error);
    let file = match File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path).or_absent() {
        Ok(None) => return Ok(None),
        Ok(Some(file)) => file,
        Err(error) if is_closed(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LONGEST {
        return Err(Unreadable::new(path, Errno::FBIG));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// What is closed to whoever asks is closed to their git, and links that lead to each other lead git nowhere, too.
fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied || Errno::from_io_error(error) == Some(Errno::LOOP)
}
