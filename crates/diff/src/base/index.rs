//! The lines of an index, in a form that thousands of them are read from in a moment.
//!
//! ```text
//! line     length of the rest (u32), kind of line (u8: 1 known, 2 forgotten), flags (u8), content (u64), an equal
//!          inode of the head and its ctime (3 × u64), node, path
//! node     kind (u8), whether it has a time of birth (u8), then numbers (u64): mode, uid, gid, nlink, size, blocks, dev, ino,
//!          rdev, and seconds and nanoseconds of mtime, ctime and btime
//! ```
//!
//! All numbers are little-endian. A line that a crash cut short ends the index; what follows it was never written.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{Made, Record};
use crate::node::{Kind, Node};

const KNOWN: u8 = 1;
const FORGOTTEN: u8 = 2;
const RECONCILED: u8 = 1;
const IDENTITY_ONLY: u8 = 2;
const HAS_CONTENT: u8 = 4;
const ABSENT: u8 = 8;
const IS_EQUAL: u8 = 16;
const REAL: u8 = 32;
const IN_PLACE: u8 = 64;
const KINDS: [Kind; 6] = [Kind::File, Kind::Directory, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Device];
const NUMBERS: usize = 15;

pub(super) const FILE: &str = "index";

pub(super) enum Line {
    Known(Record),
    /// There is nothing to know any more.
    Forgotten(PathBuf),
}

impl Line {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Known(record) => &record.path,
            Self::Forgotten(path) => path,
        }
    }
}

pub(super) fn write(line: &Line, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; 4]);
    match line {
        Line::Known(record) => {
            let flag = |wanted: bool, bit: u8| if wanted { bit } else { 0 };
            let flags = flag(record.reconciled, RECONCILED)
                | flag(record.identity_only, IDENTITY_ONLY)
                | flag(record.content.is_some(), HAS_CONTENT)
                | flag(record.absent, ABSENT)
                | flag(record.equal_to.is_some(), IS_EQUAL)
                | flag(record.made >= Made::Real, REAL)
                | flag(record.made >= Made::InPlace, IN_PLACE);
            out.extend([KNOWN, flags]);
            let (ino, time) = record.equal_to.unwrap_or_default();
            for number in [record.content.unwrap_or(0), ino, time.0.cast_unsigned(), time.1.into()] {
                out.extend(number.to_le_bytes());
            }
            write_node(&record.node, out);
            out.extend(record.path.as_os_str().as_bytes());
        }
        Line::Forgotten(path) => {
            out.push(FORGOTTEN);
            out.extend(path.as_os_str().as_bytes());
        }
    }
    let length = u32::try_from(out.len() - start - 4).unwrap_or(0);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// The bytes of a directory's index; none if there is no index.
pub(super) fn load(directory: &Path) -> io::Result<Vec<u8>> {
    match fs::read(directory.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// All lines that are whole. One that a crash cut short says nothing.
pub(super) fn read(bytes: &[u8], mut each: impl FnMut(Line)) {
    let mut rest = bytes;
    while let Some((line, after)) = split(rest) {
        rest = after;
        if let Some(line) = read_line(line) {
            each(line);
        }
    }
}

/// How long the lines that are whole are together.
pub(super) fn whole(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((_, after)) = split(rest) {
        rest = after;
    }
    bytes.len() - rest.len()
}

/// The first line and what follows it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

fn read_line(line: &[u8]) -> Option<Line> {
    let (kind, rest) = line.split_first()?;
    if *kind == FORGOTTEN {
        return Some(Line::Forgotten(path(rest)));
    }
    let (flags, rest) = rest.split_first()?;
    let (content, rest) = rest.split_first_chunk::<8>()?;
    let (ino, rest) = rest.split_first_chunk::<8>()?;
    let (seconds, rest) = rest.split_first_chunk::<8>()?;
    let (nanoseconds, rest) = rest.split_first_chunk::<8>()?;
    let time = (i64::from_le_bytes(*seconds), u64::from_le_bytes(*nanoseconds) as u32);
    let (node, rest) = read_node(rest)?;
    (*kind == KNOWN).then(|| {
        Line::Known(Record {
            path: path(rest),
            node,
            content: (flags & HAS_CONTENT != 0).then_some(u64::from_le_bytes(*content)),
            reconciled: flags & RECONCILED != 0,
            identity_only: flags & IDENTITY_ONLY != 0,
            absent: flags & ABSENT != 0,
            equal_to: (flags & IS_EQUAL != 0).then_some((u64::from_le_bytes(*ino), time)),
            made: match (flags & REAL != 0, flags & IN_PLACE != 0) {
                (_, true) => Made::InPlace,
                (true, _) => Made::Real,
                _ => Made::Nothing,
            },
        })
    })
}

fn path(bytes: &[u8]) -> PathBuf {
    Path::new(&OsString::from_vec(bytes.to_vec())).to_owned()
}

fn write_node(node: &Node, out: &mut Vec<u8>) {
    out.push(KINDS.iter().position(|k| *k == node.kind).unwrap_or(0) as u8);
    out.push(u8::from(node.btime.is_some()));
    let btime = node.btime.unwrap_or_default();
    let numbers: [u64; NUMBERS] = [
        node.mode.into(),
        node.uid.into(),
        node.gid.into(),
        node.nlink.into(),
        node.size,
        node.blocks,
        node.dev,
        node.ino,
        node.rdev,
        node.mtime.0.cast_unsigned(),
        node.mtime.1.into(),
        node.ctime.0.cast_unsigned(),
        node.ctime.1.into(),
        btime.0.cast_unsigned(),
        btime.1.into(),
    ];
    for number in numbers {
        out.extend(number.to_le_bytes());
    }
}

fn read_node(bytes: &[u8]) -> Option<(Node, &[u8])> {
    let ([kind, has_btime], rest) = bytes.split_first_chunk::<2>()?;
    let (numbers, rest) = rest.split_at_checked(NUMBERS * 8)?;
    let number = |n: usize| numbers.get(n * 8..).and_then(|b| b.first_chunk::<8>()).map_or(0, |b| u64::from_le_bytes(*b));
    let small = |n: usize| number(n) as u32;
    let time = |n: usize| (number(n).cast_signed(), small(n + 1));
    let node = Node {
        kind: *KINDS.get(usize::from(*kind))?,
        mode: small(0),
        uid: small(1),
        gid: small(2),
        nlink: small(3),
        size: number(4),
        blocks: number(5),
        dev: number(6),
        ino: number(7),
        rdev: number(8),
        mtime: time(9),
        ctime: time(11),
        btime: (*has_btime != 0).then(|| time(13)),
    };
    Some((node, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_and_a_torn_one_is_no_line() {
        let node = Node::of(Path::new("/proc/self")).unwrap();
        let record = Record {
            path: "/a\u{1}/b".into(),
            node,
            content: Some(7),
            reconciled: true,
            identity_only: false,
            absent: false,
            equal_to: Some((9, (1, 2))),
            made: Made::InPlace,
        };
        let mut bytes = Vec::new();
        write(&Line::Known(record.clone()), &mut bytes);
        let first = bytes.len();
        write(&Line::Forgotten("/gone".into()), &mut bytes);
        for cut in 0..=bytes.len() {
            let mut lines = Vec::new();
            read(&bytes[..cut], |line| lines.push(line));
            assert_eq!(lines.len(), usize::from(cut >= first) + usize::from(cut == bytes.len()));
            let length = [0, first, bytes.len()][lines.len()];
            assert_eq!(whole(&bytes[..cut]), length);
            if let Some(Line::Known(read)) = lines.first() {
                assert_eq!((&read.path, &read.node, read.content), (&record.path, &record.node, record.content));
                assert!(read.reconciled && !read.identity_only && !read.absent);
                assert_eq!((read.equal_to, read.made), (record.equal_to, record.made));
            }
        }
    }
}
