//! What the content of an entry can be recognized by when its inode and its times do not tell.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::retry_on_intr;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::content::open_file;
use crate::look::look_at;
use crate::plan::{Identity, Kind};

/// Longer files are known by their times alone: reading them takes longer than it is worth.
const LONGEST: u64 = 64 << 20;
/// Of one apply, as many bytes are read.
const MOST: u64 = 1 << 30;
const PIECE: usize = 64 << 10;

/// SHA-256 of a file's bytes, or of where a link leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(pub [u8; 32]);

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Hash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digits = |n: usize| text.get(2 * n..2 * n + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let mut hash = [0; 32];
        for (n, byte) in hash.iter_mut().enumerate() {
            *byte = digits(n).ok_or("not a SHA-256")?;
        }
        if text.len() == 64 { Ok(Self(hash)) } else { Err("not a SHA-256") }
    }
}

/// Takes the hashes of what an apply leaves behind, up to a sensible amount of work.
pub(crate) struct Fingerprints {
    left: u64,
}

impl Fingerprints {
    pub(crate) fn new() -> Self {
        Self { left: MOST }
    }

    /// Of the entry that was found there. What cannot be read is known by its times alone, and so is what changes meanwhile.
    pub(crate) fn take(&mut self, parent: &OwnedFd, name: &OsStr, found: &Identity) -> Option<Hash> {
        if found.size > self.left.min(LONGEST) {
            return None;
        }
        self.left -= found.size;
        of(parent, name, found).ok().flatten()
    }
}

/// Of the entry that was found there; `None` if it is something else by now, or nothing that has content.
pub(crate) fn of(parent: &OwnedFd, name: &OsStr, found: &Identity) -> io::Result<Option<Hash>> {
    match found.kind {
        Kind::File => of_file(&open_file(parent, name)?, found),
        Kind::Link => {
            let target = rustix::fs::readlinkat(parent, name, Vec::new())?;
            Ok(Some(Hash(Sha256::digest(target.as_bytes()).into())))
        }
        Kind::Directory | Kind::Other => Ok(None),
    }
}

fn of_file(file: &OwnedFd, found: &Identity) -> io::Result<Option<Hash>> {
    let hash = hash_of(file)?;
    let is_same = found.difference(&look_at(file)?.identity).is_none();
    Ok(is_same.then_some(hash))
}

/// Whether a file begins with `length` bytes of this hash.
pub(crate) fn begins_with(parent: &OwnedFd, name: &OsStr, length: u64, hash: &Hash) -> io::Result<bool> {
    Ok(hash_of_first(&open_file(parent, name)?, length)? == *hash)
}

/// Of all bytes of an open file.
pub(crate) fn hash_of(file: &OwnedFd) -> io::Result<Hash> {
    hash_of_first(file, u64::MAX)
}

fn hash_of_first(file: &OwnedFd, most: u64) -> io::Result<Hash> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut position = 0;
    loop {
        let wanted = usize::try_from(most - position).unwrap_or(PIECE).min(PIECE);
        match retry_on_intr(|| rustix::io::pread(file, &mut piece[..wanted], position))? {
            0 => return Ok(Hash(hash.finalize().into())),
            length => {
                hash.update(&piece[..length]);
                position += length as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_survives_json_and_nothing_else_is_one() {
        let hash = Hash(std::array::from_fn(|n| n as u8 * 7));
        let json = serde_json::to_string(&hash).unwrap();
        assert_eq!(serde_json::from_str::<Hash>(&json).unwrap(), hash);
        for wrong in ["\"\"", "\"zz\"", &json.replace("07", ""), &json.replace("07", "077")] {
            assert!(serde_json::from_str::<Hash>(wrong).is_err(), "{wrong}");
        }
    }
}
