//! The output of commands that were started in the background.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use whatif_keeper::log::Part;
use whatif_keeper::log::Reader;
use whatif_types::{Sandbox, Status};

use crate::{Engine, EngineError, private_file};

/// Of one sandbox. When there is more, the oldest go whose commands have ended.
const MOST_LOGS: usize = 50;
const MOST_BYTES: u64 = 128 << 20;
/// Nobody takes this long to start a command; a log that still has no name lost its maker.
const LONGEST_START: Duration = Duration::from_secs(3600);
const STARTING: &str = "starting-";

/// The log of one background command, read from its beginning.
#[derive(Debug)]
pub struct Log {
    pub sandbox: Sandbox,
    pub pid: i32,
    path: PathBuf,
    reader: Reader,
}

impl Log {
    /// From here on there is no more than there is now; or there is again, `as_it_grows`.
    pub fn bound(&mut self, as_it_grows: bool) -> Result<(), EngineError> {
        self.reader.bound(as_it_grows).map_err(|e| EngineError::io("read", &self.path, e))
    }

    /// What comes next, or `None` if there is nothing more yet.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Option<Part>, EngineError> {
        self.reader.next(buffer).map_err(|e| EngineError::io("read", &self.path, e))
    }
}

/// The files for a command that is about to start. They go again if it does not.
#[derive(Debug)]
pub(crate) struct NewLog {
    directory: PathBuf,
    starting: [PathBuf; 2],
    files: [File; 2],
}

impl NewLog {
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.files[0].as_fd(), self.files[1].as_fd()]
    }

    /// Gives it the number of the command.
    pub(crate) fn name(self, pid: i32) -> Result<(), EngineError> {
        let [path, older] = paths(&self.directory, pid);
        // Numbers are used again when a sandbox starts again. Whoever looks finds both files of one log, or none.
        let named = remove(&path)
            .and_then(|()| std::fs::rename(&self.starting[1], &older))
            .and_then(|()| std::fs::rename(&self.starting[0], &path));
        named.map_err(|e| EngineError::io("name", &path, e))
    }
}

impl Drop for NewLog {
    fn drop(&mut self) {
        for path in &self.starting {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Engine {
    /// The log of one background command, or of the latest.
    pub fn log(&self, name: Option<&str>, pid: Option<i32>) -> Result<Log, EngineError> {
        let sandbox = self.resolve(name)?;
        let directory = self.directory(&sandbox)?.join("logs");
        let latest = all(&directory).into_iter().rfind(|log| pid.is_none_or(|p| p == log.pid));
        let Some(Found { pid, .. }) = latest else {
            return Err(EngineError::Usage {
                message: match pid {
                    Some(pid) => format!("sandbox '{}' has no log of a process {pid}", sandbox.name),
                    None => format!("sandbox '{}' has no logs", sandbox.name),
                },
                hint: "commands started with 'whatif exec -d' have logs".to_owned(),
            });
        };
        let [path, older] = paths(&directory, pid);
        let mut files = vec![File::open(&path).map_err(|e| EngineError::io("read", &path, e))?];
        match File::open(&older) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => files.push(other.map_err(|e| EngineError::io("read", &older, e))?),
        }
        Ok(Log { sandbox, pid, path, reader: Reader::new(files) })
    }

    /// Whether a background command still runs.
    pub fn is_running(&self, sandbox: &Sandbox, pid: i32) -> bool {
        sandbox.status == Status::Active
            && self.connect(sandbox).and_then(|mut c| Ok(c.list()?)).is_ok_and(|all| all.iter().any(|p| p.pid == pid && p.is_exec))
    }

    pub(crate) fn new_log(&self, sandbox: &Sandbox) -> Result<NewLog, EngineError> {
        let directory = self.directory(sandbox)?.join("logs");
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(EngineError::io("create", &directory, error)),
            _ => remove_abandoned(&directory),
        }
        let name = format!("{STARTING}{}", rustix::process::getpid().as_raw_nonzero());
        let starting = [directory.join(&name), directory.join(format!("{name}.older"))];
        let files = [create(&starting[0])?, create(&starting[1])?];
        Ok(NewLog { directory, starting, files })
    }

    /// Makes room if there are many logs, or large ones.
    pub(crate) fn bound_logs(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let directory = self.directory(sandbox)?.join("logs");
        let all = all(&directory);
        let (mut count, mut bytes) = (all.len(), all.iter().map(|l| l.bytes).sum::<u64>());
        if count <= MOST_LOGS && bytes <= MOST_BYTES {
            return Ok(());
        }
        let alive = self.connect(sandbox)?.list()?;
        for log in all.iter().filter(|log| !alive.iter().any(|p| p.is_exec && p.pid == log.pid)) {
            if count <= MOST_LOGS && bytes <= MOST_BYTES {
                break;
            }
            for path in paths(&directory, log.pid) {
                remove(&path).map_err(|e| EngineError::io("delete", &path, e))?;
            }
            (count, bytes) = (count - 1, bytes - log.bytes);
        }
        Ok(())
    }
}

fn create(path: &Path) -> Result<File, EngineError> {
    // Not for appending: the keeper writes at places of its choice.
    private_file::create(path).map_err(|e| EngineError::io("create", path, e))
}

/// The two files of one log.
fn paths(directory: &Path, pid: i32) -> [PathBuf; 2] {
    [directory.join(format!("{pid}.log")), directory.join(format!("{pid}.older.log"))]
}

/// A log as it is found in its directory; in the order in which the commands started.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    started: SystemTime,
    pid: i32,
    bytes: u64,
}

fn all(directory: &Path) -> Vec<Found> {
    let mut found: Vec<Found> = entries(directory)
        .filter_map(|e| {
            let pid = e.file_name().to_str()?.strip_suffix(".log")?.parse().ok()?;
            let metadata = e.metadata().ok()?;
            let older = std::fs::metadata(&paths(directory, pid)[1]).map_or(0, |m| m.len());
            Some(Found { started: metadata.created().or_else(|_| metadata.modified()).ok()?, pid, bytes: metadata.len() + older })
        })
        .collect();
    found.sort_unstable();
    found
}

fn remove_abandoned(directory: &Path) {
    for entry in entries(directory).filter(|e| e.file_name().to_string_lossy().starts_with(STARTING)) {
        let age = entry.metadata().and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > LONGEST_START) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = std::fs::DirEntry> {
    std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
