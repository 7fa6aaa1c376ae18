//! What git's index says: which file is staged with which content. The rest of it is a memory of times and inodes, which git
//! brings up to date whenever it looks. So two versions of an index can differ in their bytes and mean the same.

use std::ffi::OsStr;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::set::is_in_repository;

/// Longer ones are rare, and are compared by their bytes.
pub const LONGEST: u64 = 32 << 20;

/// Whether a path is that of an index: a repository's, a work tree's or a submodule's.
#[must_use]
pub fn is_one(path: &Path) -> bool {
    path.file_name() == Some(OsStr::new("index")) && is_in_repository(path)
}

/// Whether two versions of an index stage the same. False if git alone can tell.
#[must_use]
pub fn mean_the_same(one: &[u8], two: &[u8]) -> bool {
    entries(one).is_some_and(|entries| self::entries(two) == Some(entries))
}

/// The same for all versions that stage the same, and for no others. `None` if git alone can tell.
#[must_use]
pub fn meaning(bytes: &[u8]) -> Option<String> {
    let mut digest = Sha256::new();
    for Entry { name, mode, id, flags } in entries(bytes)? {
        digest.update((name.len() as u64).to_be_bytes());
        digest.update(&name);
        digest.update(mode);
        digest.update([id.len() as u8]);
        digest.update(id);
        digest.update(flags.to_be_bytes());
    }
    Some(hex(&digest.finalize()))
}

/// The ids of what is staged, in hexadecimal. Not those of submodules, whose commits are not in this repository, nor of files of which
/// only the name is staged. `None` if git alone can tell.
#[must_use]
pub fn staged_ids(bytes: &[u8]) -> Option<Vec<String>> {
    let is_stored = |entry: &Entry<'_>| entry.mode != SUBMODULE && entry.flags & ONLY_THE_NAME == 0;
    Some(entries(bytes)?.iter().filter(|entry| is_stored(entry)).map(|entry| hex(entry.id)).collect())
}

#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    name: Vec<u8>,
    mode: &'a [u8],
    id: &'a [u8],
    /// Its side of an unfinished merge, and what the user said about the path. Not how long its name is.
    flags: u32,
}

const STAGE_AND_ASSUMED: u16 = 0xb000;
const HAS_MORE_FLAGS: u16 = 0x4000;
const LENGTH_OF_NAME: u16 = 0x0fff;
/// Among the flags that are more.
const ONLY_THE_NAME: u32 = 0x2000;
const SUBMODULE: [u8; 4] = 0o160000_u32.to_be_bytes();
/// Times, device, inode, mode, owner and size.
const STAT: usize = 40;
const MODE: std::ops::Range<usize> = 24..28;

/// `None` if these are not the bytes of an index, or not all of it.
fn entries(bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    // With SHA-1 or SHA-256. What is read with the wrong length does not end where it must.
    [20, 32].into_iter().find_map(|id| with_ids_of(bytes, id))
}

fn with_ids_of(bytes: &[u8], id: usize) -> Option<Vec<Entry<'_>>> {
    let mut rest = Rest { bytes: bytes.get(..bytes.len().checked_sub(id)?)?, at: 0 };
    if rest.take(4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (rest.number()?, rest.number()?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for _ in 0..count {
        let start = rest.at;
        let stat = rest.take(STAT)?;
        let (id, short) = (rest.take(id)?, rest.short()?);
        let more = if version >= 3 && short & HAS_MORE_FLAGS != 0 { rest.short()? } else { 0 };
        let name = match version {
            4 => {
                let last = entries.last().map_or(&[][..], |entry| &entry.name);
                let kept = last.len().checked_sub(rest.offset()?)?;
                [&last[..kept], rest.until_nul()?].concat()
            }
            _ => {
                let name = rest.until_nul()?;
                let told = usize::from(short & LENGTH_OF_NAME);
                if told < usize::from(LENGTH_OF_NAME) && told != name.len() {
                    return None;
                }
                // Filled up with zeros, of which the first is read.
                rest.take((8 - (rest.at - start) % 8) % 8)?;
                name.to_vec()
            }
        };
        let flags = u32::from(short & STAGE_AND_ASSUMED) << 16 | u32::from(more);
        entries.push(Entry { name, mode: stat.get(MODE)?, id, flags });
    }
    while rest.at < rest.bytes.len() {
        let name = rest.take(4)?;
        // Git must understand those in small letters. Of these, directories that stand for what is in them are entries as well.
        if name.first()?.is_ascii_lowercase() && name != b"sdir" {
            return None;
        }
        let length = rest.number()?;
        rest.take(usize::try_from(length).ok()?)?;
    }
    Some(entries)
}

struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// As git writes numbers of any length.
    fn offset(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut offset = usize::from(byte & 127);
        while byte & 128 != 0 {
            byte = *self.take(1)?.first()?;
            offset = offset.checked_add(1)?.checked_mul(128)? + usize::from(byte & 127);
        }
        Some(offset)
    }

    fn until_nul(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes.get(self.at..)?.iter().position(|byte| *byte == 0)?;
        let name = self.take(length)?;
        self.take(1)?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_staged_is_told_from_submodules_and_bare_names() {
        let entry = |mode: u32, id: u8, more: Option<u16>| {
            let mut entry = [[0; 24].as_slice(), &mode.to_be_bytes(), &[0; 12], &[id; 20]].concat();
            entry.extend((1 | more.map_or(0, |_| HAS_MORE_FLAGS)).to_be_bytes());
            entry.extend(more.map(u16::to_be_bytes).into_iter().flatten());
            entry.extend([b"f".as_slice(), &vec![0; 8 - (entry.len() + 1) % 8]].concat());
            entry
        };
        let entries = [entry(0o100_644, 0xaa, None), entry(0o160_000, 0xbb, None), entry(0o100_644, 0xcc, Some(0x2000))].concat();
        let index = [b"DIRC".as_slice(), &3_u32.to_be_bytes(), &3_u32.to_be_bytes(), &entries, &[0; 20]].concat();
        assert_eq!(staged_ids(&index), Some(vec!["aa".repeat(20)]));
        assert_eq!(staged_ids(b"DIRC"), None);
    }
}
