//! What a copied tree was made from: an inventory of reality at the moment of the copy.
//!
//! An overlay shows by itself what a sandbox changed. A copy does not: without a record of what was copied, a file that reality
//! deleted later looks like one that the sandbox made.
//!
//! ```text
//! file     "whatif copied 1\n", then entries
//! entry    length of the path, path relative to the tree (empty for the tree itself), mode, uid, gid, nlink, size, blocks, dev,
//!          ino, mtime and ctime of the original; 1 and ino, ctime, mode, uid and gid of the copy, or 0 if it was changed since;
//!          the number of attributes of the copy's directory, and each one's name and value with their lengths
//! ```
//!
//! Numbers are LEB128; seconds are stored as unsigned. The last bytes are "end\n": an inventory that was cut short is none.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"whatif copied 1\n";
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
    /// Only of directories, whose times say nothing about themselves.
    pub attributes: Vec<(OsString, Vec<u8>)>,
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
        let Some(copy) = &original.copy else {
            write_number(0, &mut out);
            continue;
        };
        write_number(1, &mut out);
        write_number(copy.ino, &mut out);
        write_time(copy.ctime, &mut out);
        [copy.mode, copy.uid, copy.gid].into_iter().for_each(|n| write_number(n.into(), &mut out));
        write_number(copy.attributes.len() as u64, &mut out);
        for (name, value) in &copy.attributes {
            write_bytes(name.as_bytes(), &mut out);
            write_bytes(value, &mut out);
        }
    }
    out.extend(END);
    out
}

/// None if this is not a whole inventory.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Vec<Original>> {
    let mut rest = Reader(bytes.strip_prefix(MAGIC)?.strip_suffix(END)?);
    let mut originals = Vec::new();
    while !rest.0.is_empty() {
        originals.push(Original {
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
            copy: if rest.number()? == 0 { None } else { Some(rest.copy()?) },
        });
    }
    Some(originals)
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

    fn copy(&mut self) -> Option<Copy> {
        let (ino, ctime) = (self.number()?, self.time()?);
        let (mode, uid, gid) = (self.small()?, self.small()?, self.small()?);
        let mut attributes = Vec::new();
        for _ in 0..self.number()? {
            attributes.push((OsString::from_vec(self.bytes()?), self.bytes()?));
        }
        Some(Copy { ino, ctime, mode, uid, gid, attributes })
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
            copy: None,
        };
        let attributes = vec![("user.x".into(), b"\0y".to_vec()), ("user.empty".into(), Vec::new())];
        let copy = Some(Copy { ino: 9, ctime: (1, 2), mode: 0o40_755, uid: 3, gid: 4, attributes });
        let directory = Original { path: PathBuf::new(), mode: 0o40_755, copy, ..file.clone() };
        let all = vec![directory, file];
        let bytes = encode(&all);
        assert_eq!(decode(&bytes), Some(all));
        assert_eq!(decode(&encode(&[])), Some(Vec::new()));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "cut at {cut}");
        }
    }
}
