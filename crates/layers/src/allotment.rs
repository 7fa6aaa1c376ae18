//! The allotment of a head: how much it may take, where the file system itself holds it to that.
//!
//! The head and the work directories of a sandbox are a project of their own there (see `whatif_sys::quota`). Overlayfs moves things
//! from the one to the other, which works within one project only. The directory `head` itself belongs to the project, but does not
//! pass it on: it keeps the number as long as there is anything, and what lies beside its trees comes and goes as before.
//!
//! A head that becomes a layer stays what it is, without a limit, and the next head is another project. So a number is taken as long
//! as there is a file that has it: nothing else has to be written down. Limits are set only on a number that some file has; one that
//! has limits and no files is left over.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use whatif_sys::absence::{self, OrAbsent};
use whatif_sys::quota::{self, Account, Membership};
use whatif_sys::random;

use crate::{PathError, on};

/// Numbers of ours. Other programs count from 1, or from a million.
const FIRST: u32 = 0x5749_0000;
const COUNT: u32 = 0x1_0000;
/// File systems keep what they know of neighbouring numbers together, so the first ones are used again and again.
const USUAL: u32 = 64;
const TRIES: u32 = 64;
/// Where administrators write down which numbers are whose.
const KNOWN: [(&str, usize); 2] = [("/etc/projid", 1), ("/etc/projects", 0)];

/// What overlayfs makes for one tree besides what is changed: the roots of its head and its work directory, and what it needs there.
const OWN_FILES: u64 = 6;
const OWN_BYTES: u64 = OWN_FILES * 4096;

/// What it takes to make these when everything else is used up. XFS wants to have much more than it will use.
const MOUNTING_FILES: u64 = 2 * OWN_FILES;
const MOUNTING_BYTES: u64 = 1 << 20;

/// Whether a head with so many trees is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounted {
    /// It is about to be, and nothing runs in it. The limit is set again when it is.
    Soon {
        trees: usize,
    },
    With {
        trees: usize,
    },
}

/// Why a file system holds no head to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// The kernel, the file system or this mount of it has no limits on projects.
    Quotas,
    /// Somebody else administers them.
    Rights,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quotas => "the file system of the state directory is mounted without project quotas",
            Self::Rights => "only root can set project quotas",
        })
    }
}

/// The project quotas of the file system that the state directory is on.
#[derive(Debug)]
pub struct Allotments {
    state: OwnedFd,
    path: PathBuf,
}

impl Allotments {
    /// Those of the file system of a state directory, or of the nearest directory above it that exists.
    pub fn of(path: &Path) -> Result<Result<Self, Lacking>, PathError> {
        // Not to be read, which not everybody may.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let state = rustix::fs::open(path, flags, Mode::empty()).map_err(on("open", path))?;
        match quota::are_enforced(&state) {
            Ok(true) => {}
            Ok(false) => return Ok(Err(Lacking::Quotas)),
            Err(error) if is_unsupported(&error) => return Ok(Err(Lacking::Quotas)),
            // In a container even the question may be forbidden.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Err(Lacking::Rights)),
            Err(error) => return Err(on("ask for the quotas of", path)(error)),
        }
        match quota::account(&state, FIRST) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Err(Lacking::Rights)),
            Err(error) => Err(on("read the quotas of", path)(error)),
            Ok(_) => Ok(Ok(Self { state, path: path.to_owned() })),
        }
    }

    /// Makes a new head with nothing in it a project, and its work directory with it.
    pub fn begin(&self, head: &Path, work: &Path) -> Result<u32, PathError> {
        let directory = open(head)?;
        let (taken, mut among) = (taken_by_others()?, USUAL);
        for tried in 0..TRIES {
            if tried % 8 == 7 {
                among = among.saturating_mul(4).min(COUNT);
            }
            let mut bytes = [0; 4];
            random::fill(&mut bytes).map_err(on("choose a project for", head))?;
            let project = FIRST + u32::from_ne_bytes(bytes) % among;
            if taken.contains(&project) || self.account(project)? != Account::default() {
                continue;
            }
            let assign = |project| quota::assign(&directory, Membership { project, passes_on: false });
            assign(project).map_err(on("give a project to", head))?;
            // Whoever chose the same one at the same moment sees two files as well, and both look further.
            if self.account(project)?.files == 1 {
                join(work, project)?;
                return Ok(project);
            }
            assign(0).map_err(on("take the project from", head))?;
        }
        Err(on("find a free project for", head)(io::Error::from(Errno::DQUOT)))
    }

    /// Limits what a head with so many trees takes. One that is beyond that already may be used to clean up.
    pub fn limit(&self, project: u32, bytes: Option<u64>, files: Option<u64>, head: Mounted) -> Result<(), PathError> {
        let taken = self.account(project)?;
        let (trees, room) = match head {
            Mounted::With { trees } => (trees as u64, Account::default()),
            Mounted::Soon { trees } => (trees as u64, Account { bytes: MOUNTING_BYTES, files: MOUNTING_FILES, ..taken }),
        };
        let most = |limit: Option<u64>, own: u64, taken: u64, room: u64| {
            limit.map_or(0, |limit| limit.saturating_add(own).max(taken.saturating_add(room * trees)).max(1))
        };
        // The directory of the head is a file as well.
        let most_files = most(files, trees * OWN_FILES + 1, taken.files, room.files);
        let most_bytes = most(bytes, trees * OWN_BYTES + 4096, taken.bytes, room.bytes);
        quota::limit(&self.state, project, most_bytes, most_files).map_err(on("limit a project on", &self.path))
    }

    /// A head that is no head any more has no limit.
    pub fn release(&self, project: u32) -> Result<(), PathError> {
        quota::limit(&self.state, project, 0, 0).map_err(on("free a project on", &self.path))
    }

    pub fn account(&self, project: u32) -> Result<Account, PathError> {
        quota::account(&self.state, project).map_err(on("read the quotas of", &self.path))
    }

    /// The numbers that have limits and nothing else.
    pub fn left_over(&self) -> Result<Vec<u32>, PathError> {
        let (mut left, mut from) = (Vec::new(), FIRST);
        while let Some((project, account)) =
            quota::next_account(&self.state, from).map_err(on("list the quotas of", &self.path))?.filter(|(p, _)| is_ours(*p))
        {
            if account.files == 0 && (account.most_bytes, account.most_files) != (0, 0) {
                left.push(project);
            }
            from = project + 1;
        }
        Ok(left)
    }
}

/// The project of a head, or of a layer that was one.
pub fn project_of(head: &Path) -> Result<Option<u32>, PathError> {
    let Some(directory) = File::open(head).or_absent().map_err(on("open", head))? else { return Ok(None) };
    match quota::membership(&directory) {
        Ok(found) => Ok(Some(found.project).filter(|project| is_ours(*project))),
        Err(error) if is_unsupported(&error) => Ok(None),
        Err(error) => Err(on("examine", head)(error)),
    }
}

/// How many trees a head has.
pub fn trees_of(head: &Path) -> Result<usize, PathError> {
    let entries = fs::read_dir(head).map_err(on("list", head))?;
    entries
        .map(|entry| Ok(entry?.file_type()?.is_dir()))
        .filter(|is| !matches!(is, Ok(false)))
        .collect::<io::Result<Vec<_>>>()
        .map(|trees| trees.len())
        .map_err(on("list", head))
}

/// What is made in this directory from now on belongs to the project.
pub fn join(directory: &Path, project: u32) -> Result<(), PathError> {
    let assigned = open(directory).map(|d| quota::assign(&d, Membership { project, passes_on: true }))?;
    assigned.map_err(on("give a project to", directory))
}

/// What is made in this directory can be moved to that one.
pub fn join_like(directory: &Path, other: &Path) -> Result<(), PathError> {
    match quota::membership(open(other)?) {
        Ok(Membership { project, passes_on: true }) if is_ours(project) => join(directory, project),
        Ok(_) => Ok(()),
        Err(error) if is_unsupported(&error) => Ok(()),
        Err(error) => Err(on("examine", other)(error)),
    }
}

/// Where something can be made in a sandbox's directory that is then moved into its head.
pub fn beside_head(directory: &Path) -> Result<PathBuf, PathError> {
    Ok(match project_of(&directory.join("head"))? {
        Some(_) => directory.join("work"),
        None => directory.to_owned(),
    })
}

fn open(directory: &Path) -> Result<File, PathError> {
    File::open(directory).map_err(on("open", directory))
}

fn is_ours(project: u32) -> bool {
    (FIRST..FIRST + COUNT).contains(&project)
}

/// What a kernel says that cannot answer, or not for this file system.
fn is_unsupported(error: &io::Error) -> bool {
    const UNSUPPORTED: [Errno; 7] =
        [Errno::NOSYS, Errno::INVAL, Errno::SRCH, Errno::NOTTY, Errno::OPNOTSUPP, Errno::NODEV, Errno::NOTBLK];
    Errno::from_io_error(error).is_some_and(|errno| UNSUPPORTED.contains(&errno))
}

fn taken_by_others() -> Result<BTreeSet<u32>, PathError> {
    let mut taken = BTreeSet::new();
    for (file, field) in KNOWN {
        let path = Path::new(file);
        let text = fs::read_to_string(path).or_absent().map_err(on("read", path))?.unwrap_or_default();
        taken.extend(text.lines().filter_map(|line| line.split(':').nth(field)?.trim().parse::<u32>().ok()));
    }
    Ok(taken)
}

/// Whether nothing is in a directory yet.
pub fn is_untouched(head: &Path) -> Result<bool, PathError> {
    absence::is_empty_dir(head).map_err(on("list", head))
}
