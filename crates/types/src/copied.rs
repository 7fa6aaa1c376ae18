//! What a copied tree was made from: an inventory of reality at the moment of the copy.
//!
//! An overlay shows by itself what a sandbox changed. A copy does not: without a record of what was copied, a file that reality
//! deleted later looks like one that the sandbox made.
//!
//! ```text
//! file     "whatif copied 2\n", then entries
//! entry    length of the path, path relative to the tree (empty for the tree itself), mode, uid, gid, nlink, size, blocks, dev,
//!          ino, mtime and ctime of the original; 0 if its attributes are not known, or 1, their number, and each one's name and
//!          value with their lengths; 0 if the copy was changed since, or 1 and its ino, ctime, mode, uid, gid, and 0 or 1 and
//!          the time of its birth
//! ```
//!
//! Numbers are LEB128; seconds are stored as unsigned. The last bytes are "end\n": an inventory that was cut short is none.
//!
//! Version 1 had the attributes of directories only, after the copy's gid, and no times of birth.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"whatif copied 2\n";
const MAGIC_1: &[u8] = b"whatif copied 1\n";
const END: &[u8] = b"end\n";

/// Where the inventory of a copied tree lies: next to the copy, in the same head or layer.
#[must_use]
pub fn beside(copy: &Path) -> PathBuf {
    let mut name = OsString::from("copied-");
    name.push(copy.file_name().unwrap_or_default());
    copy.with_file_name(name)
}

/// Seconds and nanoseconds.
pub type Time = (i64, u32);

/// Extended attributes, by name.
pub type Attributes = Vec<(OsString, Vec<u8>)>;

/// One entry of reality that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Relative to the tree.
    pub path: PathBuf,
    /// With the kind of file.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub size: u64,
    pub blocks: u64,
    pub dev: u64,
    pub ino: u64,
    pub mtime: Time,
    pub ctime: Time,
    /// Those of its attributes that the copy got; None if an earlier version did not write them down.
    pub attributes: Option<Attributes>,
    /// None once the sandbox has replaced or changed it.
    pub copy: Option<Copy>,
}

/// What the copy was when it was finished. As long as it is that, the sandbox did not touch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    pub ino: u64,
    pub ctime: Time,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// When this inode was made, where the file system tells: numbers of inodes are used again.
    pub btime: Option<Time>,
}

impl Copy {
    /// Whether this inode is the one that the copy was made as.
    #[must_use]
    pub fn is(&self, ino: u64, btime: Option<Time>) -> bool {
        self.ino == ino && self.btime.zip(btime).is_none_or(|(known, now)| known == now)
    }
}

#[must_use]
pub fn encode(originals: &[Original]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for original in originals {
        write_bytes(original.path.as_os_str().as_bytes(), &mut out);
        let small = [original.mode, original.uid, original.gid, original.nlink].map(u64::from);
        let large = [original.size, original.blocks, original.dev, original.ino];
        small.into_iter().chain(large).for_each(|n| write_number(n, &mut out));
        write_time(original.mtime, &mut out);
        write_time(original.ctime, &mut out);
        write_option(original.attributes.as_ref(), &mut out, |attributes, out| {
            write_number(attributes.len() as u64, out);
            for (name, value) in attributes {
                write_bytes(name.as_bytes(), out);
                write_bytes(value, out);
            }
        });
        write_option(original.copy.as_ref(), &mut out, |copy, out| {
            write_number(copy.ino, out);
            write_time(copy.ctime, out);
            [copy.mode, copy.uid, copy.gid].into_iter().for_each(|n| write_number(n.into(), out));
            write_option(copy.btime, out, write_time);
        });
    }
    out.extend(END);
    out
}

/// None if this is not a whole inventory.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Vec<Original>> {
    let (rest, version) = match bytes.strip_prefix(MAGIC) {
        Some(rest) => (rest, 2),
        None => (bytes.strip_prefix(MAGIC_1)?, 1),
    };
    let mut rest = Reader(rest.strip_suffix(END)?);
    let mut originals = Vec::new();
    while !rest.0.is_empty() {
        let original = Original {
            path: PathBuf::from(OsString::from_vec(rest.bytes()?)),
            mode: rest.small()?,
            uid: rest.small()?,
            gid: rest.small()?,
            nlink: rest.small()?,
            size: rest.number()?,
            blocks: rest.number()?,
            dev: rest.number()?,
            ino: rest.number()?,
            mtime: rest.time()?,
            ctime: rest.time()?,
            attributes: None,
            copy: None,
        };
        originals.push(if version == 1 { rest.end_of_version_1(original)? } else { rest.end(original)? });
    }
    Some(originals)
}

fn write_option<T>(value: Option<T>, out: &mut Vec<u8>, write: impl Fn(T, &mut Vec<u8>)) {
    write_number(value.is_some().into(), out);
    if let Some(value) = value {
        write(value, out);
    }
}

fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn write_time((seconds, nanoseconds): Time, out: &mut Vec<u8>) {
    write_number(seconds.cast_unsigned(), out);
    write_number(nanoseconds.into(), out);
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_number(bytes.len() as u64, out);
    out.extend(bytes);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn time(&mut self) -> Option<Time> {
        Some((self.number()?.cast_signed(), self.small()?))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    fn is_some(&mut self) -> Option<bool> {
        self.number().map(|n| n != 0)
    }

    fn attributes(&mut self) -> Option<Attributes> {
        (0..self.number()?).map(|_| Some((OsString::from_vec(self.bytes()?), self.bytes()?))).collect()
    }

    fn copy(&mut self) -> Option<Copy> {
        let (ino, ctime) = (self.number()?, self.time()?);
        Some(Copy { ino, ctime, mode: self.small()?, uid: self.small()?, gid: self.small()?, btime: None })
    }

    fn end(&mut self, mut original: Original) -> Option<Original> {
        if self.is_some()? {
            original.attributes = Some(self.attributes()?);
        }
        if self.is_some()? {
            let copy = self.copy()?;
            let btime = if self.is_some()? { Some(self.time()?) } else { None };
            original.copy = Some(Copy { btime, ..copy });
        }
        Some(original)
    }

    fn end_of_version_1(&mut self, mut original: Original) -> Option<Original> {
        const KIND: u32 = 0o170_000;
        const DIRECTORY: u32 = 0o040_000;
        if self.is_some()? {
            original.copy = Some(self.copy()?);
            let attributes = self.attributes()?;
            original.attributes = (original.mode & KIND == DIRECTORY).then_some(attributes);
        }
        Some(original)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_survives_and_a_torn_one_is_none() {
        let file = Original {
            path: "a/b\n".into(),
            mode: 0o100_644,
            uid: 0,
            gid: u32::MAX,
            nlink: 1,
            size: u64::MAX,
            blocks: 8,
            dev: 65_024,
            ino: 77,
            mtime: (-5, 999_999_999),
            ctime: (1_700_000_000, 1),
            attributes: None,
            copy: None,
        };
        let attributes = Some(vec![("user.x".into(), b"\0y".to_vec()), ("user.empty".into(), Vec::new())]);
        let copy = Copy { ino: 9, ctime: (1, 2), mode: 0o40_755, uid: 3, gid: 4, btime: Some((5, 6)) };
        let link = Original { attributes: Some(Vec::new()), copy: Some(Copy { btime: None, ..copy.clone() }), ..file.clone() };
        let directory = Original { path: PathBuf::new(), mode: 0o40_755, attributes, copy: Some(copy), ..file.clone() };
        let all = vec![directory, file, link];
        let bytes = encode(&all);
        assert_eq!(decode(&bytes), Some(all));
        assert_eq!(decode(&encode(&[])), Some(Vec::new()));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "cut at {cut}");
        }
    }

    /// Written by hand, as version 1 wrote it.
    #[test]
    fn an_inventory_of_version_1_is_read() {
        let mut bytes = MAGIC_1.to_vec();
        let entry = |path: &str, mode: u32, bytes: &mut Vec<u8>| {
            write_bytes(path.as_bytes(), bytes);
            [mode, 1, 2, 3].into_iter().for_each(|n| write_number(n.into(), bytes));
            [4, 5, 6, 7].into_iter().for_each(|n| write_number(n, bytes));
            write_time((8, 9), bytes);
            write_time((10, 11), bytes);
        };
        let copy = |bytes: &mut Vec<u8>| {
            [1, 12].into_iter().for_each(|n| write_number(n, bytes));
            write_time((13, 14), bytes);
            [0o755, 15, 16].into_iter().for_each(|n| write_number(n, bytes));
        };
        entry("d", 0o40_755, &mut bytes);
        copy(&mut bytes);
        write_number(1, &mut bytes);
        write_bytes(b"user.x", &mut bytes);
        write_bytes(b"y", &mut bytes);
        entry("d/f", 0o100_644, &mut bytes);
        copy(&mut bytes);
        write_number(0, &mut bytes);
        entry("gone", 0o40_755, &mut bytes);
        write_number(0, &mut bytes);
        bytes.extend(END);
        let read = decode(&bytes).expect("an inventory");
        let attributes: Vec<_> = read.iter().map(|o| o.attributes.clone()).collect();
        assert_eq!(attributes, [Some(vec![("user.x".into(), b"y".to_vec())]), None, None]);
        assert_eq!(read[1].copy, Some(Copy { ino: 12, ctime: (13, 14), mode: 0o755, uid: 15, gid: 16, btime: None }));
        assert_eq!((&read[2].path, &read[2].copy), (&PathBuf::from("gone"), &None));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_inode() {
        let copy = Copy { ino: 9, ctime: (1, 2), mode: 0, uid: 0, gid: 0, btime: Some((1, 2)) };
        assert!(copy.is(9, Some((1, 2))) && copy.is(9, None));
        assert!(!copy.is(9, Some((1, 3))) && !copy.is(8, Some((1, 2))));
    }
}
