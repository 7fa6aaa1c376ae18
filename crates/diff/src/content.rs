//! Bytes of files, compared and read without loading what need not be loaded.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use sha2::{Digest, Sha256};
use whatif_sys::direct;

/// Files above this are never read as a whole: they have no lines to show and no merge.
pub const LONGEST_TEXT: u64 = 32 << 20;
/// Copy-ups above this count as changed without being read.
const LONGEST_COMPARED: u64 = 1 << 30;
const PIECE: usize = 64 << 10;

/// Opens a regular file for reading, at a path that leads through no link.
pub fn open(path: &Path) -> io::Result<File> {
    direct::open_file(path)
}

/// The whole content, if it is not too long for text.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_up_to(path, LONGEST_TEXT)
}

pub fn read_up_to(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let size = file.metadata()?.len();
    if size > longest {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too large to be shown"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.by_ref().take(longest + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// SHA-256 of all bytes of an open file, and the bytes themselves if there are no more than `most`.
pub(crate) fn hash(file: &File, most: u64) -> io::Result<([u8; 32], Option<Vec<u8>>)> {
    let mut hash = Sha256::new();
    let mut kept = Some(Vec::new());
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    loop {
        let length = read_at(file, &mut piece, at)?;
        hash.update(&piece[..length]);
        at += length as u64;
        match &mut kept {
            Some(bytes) if at <= most => bytes.extend(&piece[..length]),
            _ => kept = None,
        }
        if length < piece.len() {
            return Ok((hash.finalize().into(), kept));
        }
    }
}

/// The first bytes, at most `most`.
pub fn beginning(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether two files of the given, equal size have the same bytes. Holes are not read.
pub fn is_same(a: &Path, b: &Path, size: u64) -> io::Result<bool> {
    if size > LONGEST_COMPARED && !is_mostly_hole(a, size)? {
        return Ok(false);
    }
    let (a, b) = (open(a)?, open(b)?);
    let (mut left, mut right) = (vec![0; PIECE.min(size as usize + 1)], vec![0; PIECE.min(size as usize + 1)]);
    let mut at = 0;
    while at < size {
        if size > PIECE as u64 {
            at = next_data(&a, at, size).min(next_data(&b, at, size));
            if at >= size {
                break;
            }
        }
        let length = read_at(&a, &mut left, at)?;
        if length != read_at(&b, &mut right, at)? || left[..length] != right[..length] {
            return Ok(false);
        }
        if length == 0 {
            break;
        }
        at += length as u64;
    }
    Ok(true)
}

fn is_mostly_hole(path: &Path, size: u64) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(open(path)?.metadata()?.blocks().saturating_mul(512) < size.min(LONGEST_COMPARED))
}

fn next_data(file: &File, at: u64, size: u64) -> u64 {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => data,
        Err(rustix::io::Errno::NXIO) => size,
        Err(_) => at,
    }
}

fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], at + length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}
