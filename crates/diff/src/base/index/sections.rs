//! Optional parts of a line, each with a tag and a length: later versions may add others.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::Record;
use crate::attributes::Attributes;

/// SHA-256, 32 bytes.
const HASH: u8 = 1;
/// Names and values by turns, each with a length (u32). Empty: there were none.
const ATTRIBUTES: u8 = 2;
/// The id of an apply.
const BY: u8 = 3;

pub(super) fn write(record: &Record, out: &mut Vec<u8>) {
    if let Some(hash) = &record.hash {
        out.push(HASH);
        write_sized(hash, out);
    }
    if let Some(attributes) = &record.attributes {
        let mut bytes = Vec::new();
        for (name, value) in attributes {
            write_sized(name.as_bytes(), &mut bytes);
            write_sized(value, &mut bytes);
        }
        out.push(ATTRIBUTES);
        write_sized(&bytes, out);
    }
    write_by(record.by.as_deref(), out);
}

pub(super) fn write_by(by: Option<&str>, out: &mut Vec<u8>) {
    if let Some(by) = by {
        out.push(BY);
        write_sized(by.as_bytes(), out);
    }
}

/// Of a line that has nothing else.
pub(super) fn read_by(mut bytes: &[u8]) -> Option<Option<String>> {
    let mut by = None;
    while let Some((tag, rest)) = bytes.split_first() {
        let (section, rest) = read_sized(rest)?;
        if *tag == BY {
            by = Some(text(section)?);
        }
        bytes = rest;
    }
    Some(by)
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(ToOwned::to_owned)
}

pub(super) fn read(mut bytes: &[u8], record: &mut Record) -> Option<()> {
    while let Some((tag, rest)) = bytes.split_first() {
        let (section, rest) = read_sized(rest)?;
        match *tag {
            HASH => record.hash = Some(section.try_into().ok()?),
            ATTRIBUTES => record.attributes = Some(read_attributes(section)?),
            BY => record.by = Some(text(section)?),
            _ => {}
        }
        bytes = rest;
    }
    Some(())
}

fn read_attributes(mut bytes: &[u8]) -> Option<Attributes> {
    let mut attributes = Attributes::new();
    while !bytes.is_empty() {
        let (name, rest) = read_sized(bytes)?;
        let (value, rest) = read_sized(rest)?;
        attributes.insert(OsStr::from_bytes(name).to_owned(), value.to_vec());
        bytes = rest;
    }
    Some(attributes)
}

pub(super) fn write_sized(bytes: &[u8], out: &mut Vec<u8>) {
    // Paths and attributes are bounded by the kernel, far below this.
    let length = u32::try_from(bytes.len()).unwrap_or(0);
    out.extend(length.to_le_bytes());
    out.extend(&bytes[..length as usize]);
}

pub(super) fn read_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
