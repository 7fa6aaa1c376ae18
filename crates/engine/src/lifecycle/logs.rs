//! The output of commands that were started in the background, and what is recorded of them.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use whatif_keeper::client::Client;
pub use whatif_keeper::log::Part;
use whatif_keeper::log::Reader;
use whatif_keeper::log::record::{self, Record, Started};
use whatif_sys::absence::OrAbsent;
use whatif_types::boot::PROTOCOL_VERSION;
use whatif_types::{Chosen, CommandId, Sandbox, Selector, Status};

use crate::lifecycle::exec::Kept;
use crate::lifecycle::{Lifecycle, LifecycleError};
use crate::{EngineError, private_file};

/// Of one sandbox. When there is more, the oldest go whose commands have ended.
const MOST_LOGS: usize = 50;
const MOST_BYTES: u64 = 128 << 20;
/// Nobody takes this long to start a command; one whose record still says nothing lost its maker.
const LONGEST_START: Duration = Duration::from_secs(3600);
/// How logs of earlier versions are called until their command runs.
const STARTING: &str = "starting-";

/// The log of one background command, read from its beginning.
#[derive(Debug)]
pub struct Log {
    pub sandbox: Sandbox,
    pub pid: i32,
    /// One that an earlier version started has none.
    pub id: Option<CommandId>,
    path: PathBuf,
    reader: Reader,
    /// Of its standard error, if that is kept apart.
    errors: Option<Reader>,
}

/// One of the streams that a command writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, and standard error as well unless that is kept apart.
    Output,
    /// Standard error, if it is kept apart.
    Errors,
}

/// A part of what a command wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Where in the stream it begins.
    pub start: u64,
    pub bytes: Vec<u8>,
    /// Where to go on.
    pub next: u64,
    /// Where the stream ends so far.
    pub end: u64,
}

impl Log {
    /// From here on there is no more than there is now; or there is again, `as_it_grows`.
    pub fn bound(&mut self, as_it_grows: bool) -> Result<(), EngineError> {
        let mut all = std::iter::once(&mut self.reader).chain(&mut self.errors);
        all.try_for_each(|reader| reader.bound(as_it_grows)).map_err(|e| EngineError::io("read", &self.path, e))
    }

    /// What comes next, or `None` if there is nothing more yet. Where standard error is kept apart, it follows what there is of
    /// standard output.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Option<Part>, EngineError> {
        let mut next = self.reader.next(buffer);
        if let (Ok(None), Some(errors)) = (&next, &mut self.errors) {
            next = errors.next(buffer);
        }
        next.map_err(|e| EngineError::io("read", &self.path, e))
    }

    /// At most so many bytes of one stream: from an offset on, or the last of what there is.
    pub fn excerpt(&mut self, stream: Stream, from: Option<u64>, most: usize) -> Result<Excerpt, EngineError> {
        let failed = |e| EngineError::io("read", &self.path, e);
        let Some(reader) = (match stream {
            Stream::Output => Some(&mut self.reader),
            Stream::Errors => self.errors.as_mut(),
        }) else {
            return Ok(Excerpt::default());
        };
        reader.bound(false).map_err(failed)?;
        let end = reader.end().map_err(failed)?;
        let start = from.unwrap_or_else(|| end.saturating_sub(most as u64)).min(end);
        reader.go_to(start);
        let mut excerpt = Excerpt { start, next: start, end, ..Excerpt::default() };
        let mut buffer = vec![0; most.clamp(1, 256 << 10)];
        while excerpt.bytes.len() < most {
            let room = buffer.len().min(most - excerpt.bytes.len());
            match reader.next(&mut buffer[..room]).map_err(failed)? {
                Some(Part::Output(length)) => excerpt.bytes.extend_from_slice(&buffer[..length]),
                // What is gone is told by where the rest begins.
                Some(Part::Dropped(_)) if excerpt.bytes.is_empty() => excerpt.start = reader.position(),
                Some(Part::Dropped(_)) | None => break,
            }
        }
        excerpt.next = excerpt.start + excerpt.bytes.len() as u64;
        Ok(excerpt)
    }

    /// Up to where everything was read, or told to be gone.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    pub(crate) fn reader(&mut self) -> &mut Reader {
        &mut self.reader
    }

    pub(crate) fn end(&self) -> Result<u64, EngineError> {
        self.reader.end().map_err(|e| EngineError::io("read", &self.path, e))
    }
}

/// The files for a command that is about to start. They go again if it does not.
#[derive(Debug)]
pub(crate) struct NewLog {
    pub id: CommandId,
    paths: Vec<PathBuf>,
    files: [File; 2],
    record: File,
    errors: Option<[File; 2]>,
}

impl NewLog {
    /// Those of the log, then that of the record, then those for standard error.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let files = self.files.iter().chain([&self.record]).chain(self.errors.iter().flatten());
        files.map(AsFd::as_fd).collect()
    }

    /// In the place of a keeper of an earlier version, which does not know of records.
    pub(crate) fn record_start(&self, pid: i32, command: String) -> Result<(), EngineError> {
        let started = Started { pid, has_input: false, is_terminal: false, command };
        let recorded = self.record.try_clone().and_then(|file| record::Writer::new(file).started(&started));
        recorded.map_err(|e| EngineError::io("write", &self.paths[2], e))
    }
}

impl Drop for NewLog {
    fn drop(&mut self) {
        // Whatever became of us: what runs keeps its log.
        if !matches!(Record::read(&self.record), Ok(None)) {
            return;
        }
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Lifecycle {
    /// The log of one background command, or of the latest.
    pub fn log(&self, which: &Selector, chosen: Option<Chosen>) -> Result<Log, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let found = self.commands(&sandbox)?.into_iter().rfind(|found| found.is(chosen));
        let Some(found) = found else {
            return Err(LifecycleError::NoLog { sandbox: sandbox.name, chosen }.into());
        };
        self.open_log(sandbox, &found)
    }

    pub(crate) fn open_log(&self, sandbox: Sandbox, found: &Found) -> Result<Log, EngineError> {
        let [path, older, errors, older_errors] = found.paths(&self.ground.directory(&sandbox)?);
        let open = |path: &Path| File::open(path).or_absent().map_err(|e| EngineError::io("read", path, e));
        let mut files = vec![File::open(&path).map_err(|e| EngineError::io("read", &path, e))?];
        files.extend(open(&older)?);
        let errors: Vec<File> = [open(&errors)?, open(&older_errors)?].into_iter().flatten().collect();
        let errors = (!errors.is_empty()).then(|| Reader::new(errors));
        Ok(Log { sandbox, pid: found.pid, id: found.id, path, reader: Reader::new(files), errors })
    }

    /// Whether a background command still runs.
    pub fn is_running(&self, log: &Log) -> bool {
        let knows_ids = log.sandbox.details.keeper_version == PROTOCOL_VERSION;
        log.sandbox.status == Status::Active
            && self
                .ground
                .connect(&log.sandbox)
                .and_then(|mut c| Ok(c.list()?))
                .is_ok_and(|all| all.iter().any(|p| p.pid == log.pid && p.is_exec && (!knows_ids || p.id == log.id)))
    }

    pub(crate) fn new_log(&self, sandbox: &Sandbox, kept: Kept) -> Result<NewLog, EngineError> {
        let directory = self.ground.directory(sandbox)?;
        for part in [LOGS, RECORDS] {
            let path = directory.join(part);
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(EngineError::io("create", &path, error)),
                _ => {}
            }
        }
        remove_abandoned(&directory);
        let (id, path, record) = claim(&directory)?;
        let [log, older, errors, older_errors] = log_paths(&directory, &id.to_string());
        let mut paths = vec![log, older, path];
        if kept == Kept::Apart {
            paths.extend([errors, older_errors]);
        }
        // Whatever fails from here on, none of them stays.
        let pair = |first: &Path, second: &Path| Ok([create(first)?, create(second)?]);
        let prepared = pair(&paths[0], &paths[1]).and_then(|files| {
            Record::prepare(&record).map_err(|e| EngineError::io("write", &paths[2], e))?;
            let errors = if kept == Kept::Apart { Some(pair(&paths[3], &paths[4])?) } else { None };
            Ok((files, errors))
        });
        match prepared {
            Ok((files, errors)) => Ok(NewLog { id, paths, files, record, errors }),
            Err(error) => {
                for path in &paths {
                    let _ = std::fs::remove_file(path);
                }
                Err(error)
            }
        }
    }

    /// Makes room if there are many logs, or large ones.
    pub(crate) fn bound_logs(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let directory = self.ground.directory(sandbox)?;
        let all = self.commands(sandbox)?;
        let (mut count, mut bytes) = (all.len(), all.iter().map(|l| l.bytes).sum::<u64>());
        if count <= MOST_LOGS && bytes <= MOST_BYTES {
            return Ok(());
        }
        let alive = self.ground.connect(sandbox).and_then(|mut client: Client| Ok(client.list()?))?;
        // The latest stays: its id says which one is next.
        let older = &all[..all.len().saturating_sub(1)];
        for log in older.iter().filter(|log| !alive.iter().any(|p| p.is_exec && p.pid == log.pid)) {
            if count <= MOST_LOGS && bytes <= MOST_BYTES {
                break;
            }
            let record = log.id.map(|id| directory.join(RECORDS).join(id.to_string()));
            for path in log.paths(&directory).into_iter().chain(record) {
                remove(&path).map_err(|e| EngineError::io("delete", &path, e))?;
            }
            (count, bytes) = (count - 1, bytes - log.bytes);
        }
        Ok(())
    }

    /// The background commands that something is kept of, in the order in which they started.
    pub(crate) fn commands(&self, sandbox: &Sandbox) -> Result<Vec<Found>, EngineError> {
        let directory = self.ground.directory(sandbox)?;
        let logs = directory.join(LOGS);
        let mut found = Vec::new();
        for entry in entries(&logs).map_err(|e| EngineError::io("read", &logs, e))? {
            let name = entry.file_name();
            let Some(name) = name.to_str().and_then(|n| n.strip_suffix(".log")) else { continue };
            found.extend(Found::look(&directory, name)?);
        }
        found.sort_unstable_by_key(|f| (f.started, f.id, f.pid));
        Ok(found)
    }

    /// `None` for one that went meanwhile.
    pub(crate) fn record_of(&self, sandbox: &Sandbox, found: &Found) -> Result<Option<Record>, EngineError> {
        let directory = self.ground.directory(sandbox)?;
        found.id.map_or(Ok(None), |id| read_record(&directory, id))
    }

    pub(crate) fn open_record(&self, sandbox: &Sandbox, id: CommandId) -> Result<File, EngineError> {
        let path = self.ground.directory(sandbox)?.join(RECORDS).join(id.to_string());
        File::open(&path).map_err(|e| EngineError::io("read", &path, e))
    }
}

const LOGS: &str = "logs";
const RECORDS: &str = "commands";

/// The next id, with its record.
fn claim(directory: &Path) -> Result<(CommandId, PathBuf, File), EngineError> {
    let records = directory.join(RECORDS);
    let io = |e| EngineError::io("read", &records, e);
    let latest = entries(&records).map_err(io)?.iter().filter_map(|e| e.file_name().to_str()?.parse::<CommandId>().ok()).max();
    let mut id = match latest {
        Some(latest) => latest.next(),
        None => Some(CommandId::FIRST),
    };
    while let Some(candidate) = id {
        let path = records.join(candidate.to_string());
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            // Another command was quicker.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => id = candidate.next(),
            opened => return opened.map(|file| (candidate, path.clone(), file)).map_err(|e| EngineError::io("create", &path, e)),
        }
    }
    Err(EngineError::io("create", &records, io::Error::from(io::ErrorKind::AlreadyExists)))
}

fn create(path: &Path) -> Result<File, EngineError> {
    // Not for appending: the keeper writes at places of its choice.
    private_file::create(path).map_err(|e| EngineError::io("create", path, e))
}

/// The two files of one log, then those of standard error where that is kept apart.
fn log_paths(directory: &Path, name: &str) -> [PathBuf; 4] {
    let logs = directory.join(LOGS);
    ["log", "older.log", "errors.log", "errors.older.log"].map(|end| logs.join(format!("{name}.{end}")))
}

fn read_record(directory: &Path, id: CommandId) -> Result<Option<Record>, EngineError> {
    let path = directory.join(RECORDS).join(id.to_string());
    let read = || match File::open(&path).or_absent()? {
        Some(file) => Record::read(&file),
        None => Ok(None),
    };
    read().map_err(|e| EngineError::io("read", &path, e))
}

/// A background command as it is found by its log.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    started: SystemTime,
    /// Earlier versions gave none; the log is called by the number of the process then.
    pub id: Option<CommandId>,
    pub pid: i32,
    bytes: u64,
}

impl Found {
    /// `None` for what is no log, or one of a command that has not started.
    fn look(directory: &Path, name: &str) -> Result<Option<Self>, EngineError> {
        let (id, pid) = match name.parse() {
            Ok(Chosen::Pid(pid)) => (None, pid),
            Ok(Chosen::Id(id)) => match read_record(directory, id)? {
                Some(record) => (Some(id), record.started.pid),
                None => return Ok(None),
            },
            Err(_) => return Ok(None),
        };
        let [path, others @ ..] = log_paths(directory, name);
        let metadata = |path: &Path| std::fs::metadata(path).or_absent().map_err(|e| EngineError::io("read", path, e));
        let Some(found) = metadata(&path)? else { return Ok(None) };
        let mut bytes = found.len();
        for other in &others {
            bytes += metadata(other)?.map_or(0, |m| m.len());
        }
        let started = found.created().or_else(|_| found.modified()).map_err(|e| EngineError::io("read", &path, e))?;
        Ok(Some(Self { started, id, pid, bytes }))
    }

    pub(crate) fn is(&self, chosen: Option<Chosen>) -> bool {
        match chosen {
            None => true,
            Some(Chosen::Id(id)) => self.id == Some(id),
            Some(Chosen::Pid(pid)) => self.pid == pid,
        }
    }

    /// Milliseconds since 1970.
    pub(crate) fn started_ms(&self) -> u64 {
        self.started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    fn paths(&self, directory: &Path) -> [PathBuf; 4] {
        log_paths(directory, &self.id.map_or_else(|| self.pid.to_string(), |id| id.to_string()))
    }
}

/// What nobody is going to use any more; if it cannot be removed now, it is the next time.
fn remove_abandoned(directory: &Path) {
    let is_old = |entry: &std::fs::DirEntry| {
        let age = entry.metadata().and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
        age.is_some_and(|age| age > LONGEST_START)
    };
    for entry in entries(&directory.join(LOGS)).unwrap_or_default() {
        if entry.file_name().to_string_lossy().starts_with(STARTING) && is_old(&entry) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    for entry in entries(&directory.join(RECORDS)).unwrap_or_default() {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<CommandId>().ok());
        if let Some(id) = id.filter(|_| is_old(&entry))
            && matches!(read_record(directory, id), Ok(None))
        {
            for path in log_paths(directory, &id.to_string()).into_iter().chain([entry.path()]) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn entries(directory: &Path) -> io::Result<Vec<std::fs::DirEntry>> {
    match std::fs::read_dir(directory).or_absent()? {
        Some(entries) => entries.collect(),
        None => Ok(Vec::new()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path).or_absent().map(|_| ())
}
