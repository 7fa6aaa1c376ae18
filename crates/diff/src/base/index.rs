//! The lines of an index, in a form that thousands of them are read from in a moment.
//!
//! ```text
//! line       length of the rest (u32), kind of line (u8), then
//! known (3)  flags (u16), content (u64), an equal inode of the head (u64) and its ctime (u64, u32), 4 bytes of 0xff,
//!            node, path (length u32, bytes), sections
//! gone (2)   path
//! gone (4)   path (length u32, bytes), sections: of an apply that may be undone
//! known (1)  flags (u8), content (u64), equal inode and ctime (3 × u64), node, path: version 1, still read
//! node       kind (u8), whether it has a time of birth (u8), then numbers (u64): mode, uid, gid, nlink, size, blocks, dev, ino,
//!            rdev, and seconds and nanoseconds of mtime, ctime and btime
//! section    tag (u8), length (u32), bytes: what not every record has (`sections.rs`). One with an unknown tag is skipped
//! ```
//!
//! The four bytes stand where version 1 has the kind of the node, so that a reader of version 1 leaves the line out.
//! All numbers are little-endian. A line that a crash cut short ends the index; what follows it was never written.

mod sections;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{Made, Record};
use crate::node::{Kind, Node, Time};

const KNOWN_1: u8 = 1;
const FORGOTTEN: u8 = 2;
const KNOWN: u8 = 3;
const FORGOTTEN_BY: u8 = 4;
const RECONCILED: u16 = 1;
const IDENTITY_ONLY: u16 = 2;
const HAS_CONTENT: u16 = 4;
const ABSENT: u16 = 8;
const IS_EQUAL: u16 = 16;
const REAL: u16 = 32;
const IN_PLACE: u16 = 64;
const UNKNOWN: u16 = 128;
/// Besides `UNKNOWN`, which is all that earlier versions look at.
const LOST: u16 = 256;
const MADE_INSIDE: u16 = 512;
const IS_COVERED: u16 = 1024;
/// No kind of node has this number.
const STOPS_VERSION_1: [u8; 4] = [0xff; 4];
const KINDS: [Kind; 6] = [Kind::File, Kind::Directory, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Device];
const NUMBERS: usize = 15;

pub const FILE: &str = "index";

#[expect(clippy::large_enum_variant, reason = "nearly all lines are known ones, and none outlives the loop that reads it")]
pub(super) enum Line {
    Known(Record),
    /// There is nothing to know any more; if an apply said so, until it is undone.
    Forgotten {
        path: PathBuf,
        by: Option<String>,
    },
}

impl Line {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Known(record) => &record.path,
            Self::Forgotten { path, .. } => path,
        }
    }

    /// The apply or undo that said so.
    pub(super) fn by(&self) -> Option<&str> {
        match self {
            Self::Known(Record { by, .. }) | Self::Forgotten { by, .. } => by.as_deref(),
        }
    }
}

pub(super) fn write(line: &Line, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; 4]);
    match line {
        Line::Known(record) => {
            let flag = |wanted: bool, bit: u16| if wanted { bit } else { 0 };
            let flags = flag(record.reconciled, RECONCILED)
                | flag(record.identity_only, IDENTITY_ONLY)
                | flag(record.content.is_some(), HAS_CONTENT)
                | flag(record.absent, ABSENT)
                | flag(record.equal_to.is_some(), IS_EQUAL)
                | flag(record.made >= Made::Real, REAL)
                | flag(record.made >= Made::InPlace, IN_PLACE)
                | flag(record.unknown, UNKNOWN)
                | flag(record.lost, LOST)
                | flag(record.made_inside, MADE_INSIDE)
                | flag(record.is_covered, IS_COVERED);
            out.push(KNOWN);
            out.extend(flags.to_le_bytes());
            let (ino, (seconds, nanoseconds)) = record.equal_to.unwrap_or_default();
            for number in [record.content.unwrap_or(0), ino, seconds.cast_unsigned()] {
                out.extend(number.to_le_bytes());
            }
            out.extend(nanoseconds.to_le_bytes());
            out.extend(STOPS_VERSION_1);
            write_node(&record.node, out);
            sections::write_sized(record.path.as_os_str().as_bytes(), out);
            sections::write(record, out);
        }
        Line::Forgotten { path, by: None } => {
            out.push(FORGOTTEN);
            out.extend(path.as_os_str().as_bytes());
        }
        Line::Forgotten { path, by } => {
            out.push(FORGOTTEN_BY);
            sections::write_sized(path.as_os_str().as_bytes(), out);
            sections::write_by(by.as_deref(), out);
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
    match *kind {
        KNOWN => read_known(rest).map(Line::Known),
        KNOWN_1 => read_version_1(rest).map(Line::Known),
        FORGOTTEN => Some(Line::Forgotten { path: path(rest), by: None }),
        FORGOTTEN_BY => {
            let (name, rest) = sections::read_sized(rest)?;
            Some(Line::Forgotten { path: path(name), by: sections::read_by(rest)? })
        }
        _ => None,
    }
}

fn read_known(bytes: &[u8]) -> Option<Record> {
    let (flags, rest) = bytes.split_first_chunk::<2>()?;
    let (content, rest) = rest.split_first_chunk::<8>()?;
    let (ino, rest) = rest.split_first_chunk::<8>()?;
    let (seconds, rest) = rest.split_first_chunk::<8>()?;
    let (nanoseconds, rest) = rest.split_first_chunk::<4>()?;
    let (_, rest) = rest.split_first_chunk::<4>()?;
    let (node, rest) = read_node(rest)?;
    let (name, rest) = sections::read_sized(rest)?;
    let equal_to = (u64::from_le_bytes(*ino), (i64::from_le_bytes(*seconds), u32::from_le_bytes(*nanoseconds)));
    let mut record = flagged(path(name), node, u16::from_le_bytes(*flags), u64::from_le_bytes(*content), equal_to);
    sections::read(rest, &mut record)?;
    Some(record)
}

fn read_version_1(bytes: &[u8]) -> Option<Record> {
    let (flags, rest) = bytes.split_first()?;
    let (content, rest) = rest.split_first_chunk::<8>()?;
    let (ino, rest) = rest.split_first_chunk::<8>()?;
    let (seconds, rest) = rest.split_first_chunk::<8>()?;
    let (nanoseconds, rest) = rest.split_first_chunk::<8>()?;
    let (node, rest) = read_node(rest)?;
    let equal_to = (u64::from_le_bytes(*ino), (i64::from_le_bytes(*seconds), u64::from_le_bytes(*nanoseconds) as u32));
    Some(flagged(path(rest), node, u16::from(*flags), u64::from_le_bytes(*content), equal_to))
}

fn flagged(path: PathBuf, node: Node, flags: u16, content: u64, equal_to: (u64, Time)) -> Record {
    let is = |bit: u16| flags & bit != 0;
    Record {
        content: is(HAS_CONTENT).then_some(content),
        reconciled: is(RECONCILED),
        identity_only: is(IDENTITY_ONLY),
        absent: is(ABSENT),
        equal_to: is(IS_EQUAL).then_some(equal_to),
        made: match (is(REAL), is(IN_PLACE)) {
            (_, true) => Made::InPlace,
            (true, _) => Made::Real,
            _ => Made::Nothing,
        },
        unknown: is(UNKNOWN),
        lost: is(LOST),
        made_inside: is(MADE_INSIDE),
        is_covered: is(IS_COVERED),
        ..Record::new(&path, node)
    }
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
    use crate::attributes::Attributes;

    fn all_lines(bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        read(bytes, |line| lines.push(line));
        lines
    }

    #[test]
    fn lines_survive_and_a_torn_one_is_no_line() {
        let record = Record {
            content: Some(7),
            reconciled: true,
            equal_to: Some((9, (1, 2))),
            made: Made::InPlace,
            unknown: true,
            hash: Some([3; 32]),
            attributes: Some([("user.a".into(), vec![1, 2]), ("user.b".into(), Vec::new())].into()),
            by: Some("apply".to_owned()),
            ..Record::new(Path::new("/a\u{1}/b"), Node::of(Path::new("/proc/self")).unwrap().unwrap())
        };
        let mut bytes = Vec::new();
        write(&Line::Known(record.clone()), &mut bytes);
        let first = bytes.len();
        write(&Line::Forgotten { path: "/gone".into(), by: None }, &mut bytes);
        for cut in 0..=bytes.len() {
            let lines = all_lines(&bytes[..cut]);
            assert_eq!(lines.len(), usize::from(cut >= first) + usize::from(cut == bytes.len()));
            let length = [0, first, bytes.len()][lines.len()];
            assert_eq!(whole(&bytes[..cut]), length);
            if let Some(Line::Known(read)) = lines.first() {
                assert_eq!(read, &record);
            }
        }
    }

    #[test]
    fn who_said_that_something_is_gone_is_known() {
        let mut bytes = Vec::new();
        for by in [None, Some("apply".to_owned())] {
            write(&Line::Forgotten { path: "/gone".into(), by }, &mut bytes);
        }
        let lines = all_lines(&bytes);
        assert_eq!(lines.iter().map(Line::by).collect::<Vec<_>>(), [None, Some("apply")]);
        assert!(lines.iter().all(|line| line.path() == Path::new("/gone")));
    }

    #[test]
    fn no_attributes_and_unknown_attributes_are_told_apart() {
        let node = Node::of(Path::new("/proc/self")).unwrap().unwrap();
        let none = Record { attributes: Some(Attributes::new()), ..Record::new(Path::new("/a"), node.clone()) };
        let mut bytes = Vec::new();
        for record in [none.clone(), Record::new(Path::new("/a"), node)] {
            write(&Line::Known(record), &mut bytes);
        }
        let lines = all_lines(&bytes);
        let attributes = |line: &Line| match line {
            Line::Known(record) => record.attributes.clone(),
            Line::Forgotten { .. } => panic!("not known"),
        };
        assert_eq!(lines.iter().map(attributes).collect::<Vec<_>>(), [none.attributes, None]);
    }

    /// As the releases before wrote it: kind 1; flags: reconciled, with content, with an equal inode.
    #[test]
    fn a_line_of_version_1_is_still_read() {
        let mut line = vec![1, 0x15];
        for number in [5_u64, 77, 1_700_000_000, 42] {
            line.extend(number.to_le_bytes());
        }
        line.extend([0, 1]);
        for number in [0o644_u64, 1000, 1001, 1, 12, 8, 2049, 55, 0, 10, 11, 20, 21, 30, 31] {
            line.extend(number.to_le_bytes());
        }
        line.extend(b"/home/a.txt");
        let mut bytes = u32::try_from(line.len()).unwrap().to_le_bytes().to_vec();
        bytes.extend(line);
        let node = Node {
            kind: Kind::File,
            mode: 0o644,
            uid: 1000,
            gid: 1001,
            nlink: 1,
            size: 12,
            blocks: 8,
            dev: 2049,
            ino: 55,
            rdev: 0,
            mtime: (10, 11),
            ctime: (20, 21),
            btime: Some((30, 31)),
        };
        let record = Record {
            content: Some(5),
            reconciled: true,
            equal_to: Some((77, (1_700_000_000, 42))),
            ..Record::new(Path::new("/home/a.txt"), node)
        };
        let lines = all_lines(&bytes);
        assert!(matches!(&lines[..], [Line::Known(read)] if *read == record));
    }

    #[test]
    fn what_a_later_version_adds_is_skipped() {
        let record = Record::new(Path::new("/a"), Node::of(Path::new("/proc/self")).unwrap().unwrap());
        let mut bytes = Vec::new();
        write(&Line::Known(record.clone()), &mut bytes);
        bytes.push(200);
        sections::write_sized(b"later", &mut bytes);
        let length = u32::try_from(bytes.len() - 4).unwrap();
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(&all_lines(&bytes)[..], [Line::Known(read)] if *read == record));
    }
}
