//! The files in which events wait to be recorded.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use whatif_store::Spooled;
use whatif_sys::absence::OrAbsent;

use crate::now;

/// One file takes the events of so many milliseconds.
pub(super) const SEGMENT: u64 = 600_000;
/// How much is read, and recorded in one transaction.
const PART: u64 = 256 << 10;

/// A line of the spool.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub at: u64,
    pub kind: String,
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The principal.
    pub who: String,
    /// Whether the audit log gets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_deed: bool,
    pub body: Map<String, Value>,
}

pub(super) fn segment_of(at: u64) -> String {
    format!("{:012}", at / SEGMENT)
}

/// Appends a line, and returns how long the file is then.
pub(super) fn append(directory: &Path, line: &[u8]) -> io::Result<u64> {
    // A line of its own even if the one before it was cut short.
    let line = [b"\n", line, b"\n"].concat();
    for is_last in [false, true] {
        let path = directory.join(segment_of(now()));
        let opened = File::options().append(true).create(true).mode(0o600).open(&path);
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_last => {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
                continue;
            }
            other => other?,
        };
        file.write_all(&line)?;
        let found = file.metadata()?;
        // Whoever is held up for minutes may find that its file was recorded and removed meanwhile.
        if found.nlink() > 0 {
            return Ok(found.len());
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

pub(super) fn segments(directory: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = fs::read_dir(directory).or_absent()? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Nothing else is ours, and a pipe would hold up whoever reads it.
        if entry.file_type()?.is_file() {
            names.extend(entry.file_name().into_string().ok().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// By which name the records know a file: another one of the same name, because somebody removed the first one, is read from its
/// beginning. `None` if there is none.
pub(super) fn identity_of(name: &str, path: &Path) -> io::Result<Option<String>> {
    let Some(found) = fs::symlink_metadata(path).or_absent()? else { return Ok(None) };
    let born = found.created().ok().and_then(|at| Some(at.duration_since(UNIX_EPOCH).ok()?.as_nanos())).unwrap_or(0);
    Ok(Some(format!("{name} {:x} {born:x}", found.ino())))
}

pub(super) struct Part {
    pub lines: Vec<Line>,
    pub to: u64,
}

pub(super) enum Read {
    Part(Part),
    Nothing,
    /// The file ends before the place.
    Shorter,
}

/// Whole lines from there on.
pub(super) fn read_part(path: &Path, from: u64) -> io::Result<Read> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = File::options().read(true).custom_flags(flags.bits() as i32).open(path);
    let Some(mut file) = opened.or_absent()? else { return Ok(Read::Nothing) };
    if file.metadata()?.len() < from {
        return Ok(Read::Shorter);
    }
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(PART).read_to_end(&mut bytes)?;
    let is_full = bytes.len() as u64 == PART;
    let end = match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => end + 1,
        // No line of ours is as long as a part.
        None if is_full => bytes.len(),
        None => return Ok(Read::Nothing),
    };
    let lines = bytes[..end].split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    Ok(Read::Part(Part { lines, to: from + end as u64 }))
}

impl From<Line> for Spooled {
    fn from(line: Line) -> Self {
        let Line { at, kind, subject, owner, who, is_deed, body } = line;
        Self { at, kind, subject, owner, body: Value::Object(body), deed_of: is_deed.then_some(who) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u64) -> String {
        format!("{{\"at\":{n},\"kind\":\"k\",\"subject\":\"s\",\"who\":\"user:0\",\"body\":{{}}}}")
    }

    fn read(path: &Path, from: u64) -> (Vec<u64>, u64) {
        let Read::Part(part) = read_part(path, from).unwrap() else { panic!("there is something") };
        (part.lines.iter().map(|line| line.at).collect(), part.to)
    }

    #[test]
    fn whole_lines_are_read_and_torn_ones_lose_nothing_but_themselves() {
        let directory = std::env::temp_dir().join(format!("whatif-spool-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        assert!(segments(&directory).unwrap().is_empty());
        append(&directory, line(1).as_bytes()).unwrap();
        append(&directory, line(2).as_bytes()).unwrap();
        let path = directory.join(&segments(&directory).unwrap()[0]);
        let (events, to) = read(&path, 0);
        assert_eq!((events, to), (vec![1, 2], fs::metadata(&path).unwrap().len()));
        assert!(matches!(read_part(&path, to).unwrap(), Read::Nothing));
        assert!(matches!(read_part(&path, to + 1).unwrap(), Read::Shorter));

        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(&format!("\n{}", line(3)).as_bytes()[..20]).unwrap();
        let (events, torn) = read(&path, to);
        assert!(events.is_empty() && torn == to + 1, "{torn}");
        append(&directory, line(4).as_bytes()).unwrap();
        let (events, end) = read(&path, torn);
        assert_eq!((events, end), (vec![4], fs::metadata(&path).unwrap().len()));
        assert!(matches!(read_part(&directory.join("gone"), 0).unwrap(), Read::Nothing));
        assert!(identity_of("a", &directory.join("gone")).unwrap().is_none());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn segments_sort_by_time() {
        assert!(segment_of(1_700_000_000_000) < segment_of(1_700_000_000_000 + SEGMENT));
        assert_eq!(segment_of(SEGMENT), segment_of(2 * SEGMENT - 1));
    }
}
