//! A look at the records without opening them, which takes twenty times as long.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::migrations::MIGRATIONS;

/// Whether this process has opened records. Closing any file ends all locks that its process holds on it, those of SQLite among them:
/// nothing is looked at here that SQLite has open.
static HAS_OPENED: Mutex<bool> = Mutex::new(false);

/// The parts of a database's header that are looked at (<https://sqlite.org/fileformat.html>).
const HEADER: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";
const PAGE_SIZE: usize = 16;
const WAYS_OF_WRITING: [usize; 2] = [18, 19];
const WRITE_AHEAD: u8 = 2;
const USER_VERSION: usize = 60;

/// Which byte of the index a writer has locked (<https://sqlite.org/walformat.html>).
const WRITER: u64 = 120;

/// To be called before records are opened.
pub(super) fn forbid() {
    *has_opened() = true;
}

/// Whether they look as they should, and nobody holds them. `None` if they cannot be looked at without harm.
pub(super) fn at_ease(path: &Path) -> Option<bool> {
    let has_opened = has_opened();
    if *has_opened {
        return None;
    }
    let mut index = path.as_os_str().to_owned();
    index.push("-shm");
    Some(is_ours(path) && is_free(Path::new(&index)))
}

fn has_opened() -> MutexGuard<'static, bool> {
    HAS_OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_ours(path: &Path) -> bool {
    let mut header = [0; HEADER];
    let Ok(size) = File::open(path).and_then(|mut file| file.read_exact(&mut header).and_then(|()| Ok(file.metadata()?.len())))
    else {
        return false;
    };
    let page = u64::from(u16::from_be_bytes([header[PAGE_SIZE], header[PAGE_SIZE + 1]]));
    let version = u32::from_be_bytes([0, 1, 2, 3].map(|byte| header[USER_VERSION + byte]));
    header.starts_with(MAGIC)
        && WAYS_OF_WRITING.iter().all(|&way| header[way] == WRITE_AHEAD)
        && page != 0
        && size % page == 0
        // A newer one may be in the log alone; then whoever records something is told.
        && u64::from(version) <= MIGRATIONS.len() as u64
}

/// Without an index nobody has them open.
fn is_free(index: &Path) -> bool {
    let lock = Flock { start: WRITER, length: 1, ..Flock::from(FlockType::WriteLock) };
    match File::open(index) {
        Ok(file) => matches!(fcntl_getlk(file, &lock), Ok(None)),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
