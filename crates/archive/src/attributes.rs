//! Extended attributes: which of them an archive carries, and how they are read and set.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use whatif_overlay::{Format, Mark};
use whatif_sys::access_list;

use crate::entry::{Entry, Kind};
use crate::error::{ArchiveError, shown};
use crate::marks::{self, Meaning};

/// The kernel's own limit, of a list and of a value.
const LONGEST: usize = 64 << 10;
const LONGEST_NAME: usize = 255;
pub(crate) const CAPABILITY: &[u8] = b"security.capability";
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub plain: BTreeMap<Vec<u8>, Vec<u8>>,
    pub marks: BTreeMap<Mark, Vec<u8>>,
}

impl Attributes {
    pub(crate) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.marks.is_empty()
    }
}

/// Whether anything of this kind may have such an attribute in an archive. Marks never go by their real names.
fn is_carried(name: &[u8], kind: &Kind) -> bool {
    let is_mark = [Format::Trusted, Format::User].iter().any(|format| format.reserves(name));
    let is_file_or_directory = matches!(kind, Kind::File { .. } | Kind::Directory);
    match name {
        _ if is_mark || name.contains(&0) || name.len() > LONGEST_NAME => false,
        ACCESS_LIST => is_file_or_directory || *kind == Kind::Pipe,
        DEFAULT_LIST => *kind == Kind::Directory,
        CAPABILITY => matches!(kind, Kind::File { .. }),
        _ => name.len() > 5 && name.starts_with(b"user.") && is_file_or_directory,
    }
}

/// Refuses an entry whose attributes could not have come out of a layer.
pub(crate) fn check(entry: &Entry) -> Result<(), ArchiveError> {
    for (name, value) in &entry.attributes.plain {
        if !is_carried(name, &entry.kind) || value.len() > LONGEST {
            return Err(ArchiveError::Attribute { name: shown(&entry.path), attribute: shown(name) });
        }
    }
    for (mark, value) in &entry.attributes.marks {
        if let Some(why) = marks::objection(*mark, value, &entry.kind) {
            return Err(ArchiveError::Mark { name: shown(&entry.path), mark: mark.name().to_owned(), why });
        }
    }
    Ok(())
}

/// The attributes of something in a layer.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub attributes: Attributes,
    /// Those that cannot go into an archive. Labels of a security policy do not count: they belong to the machine.
    pub left_out: u64,
    /// There is a mark that says the content lies elsewhere.
    pub is_partial: bool,
}

/// Reads them through a descriptor that may be no more than a path.
pub(crate) fn find(descriptor: &impl AsFd, kind: &Kind, format: Format) -> io::Result<Found> {
    let path = by_descriptor(descriptor);
    let mut found = Found::default();
    for name in names(&path)? {
        if format.reserves(&name) {
            match format.mark(&name).map(|mark| (mark, marks::meaning(mark))) {
                Some((mark, Meaning::Carried)) => {
                    let value = value(&path, &name)?.unwrap_or_default();
                    found.attributes.marks.insert(mark, marks::neutral(mark, value));
                }
                Some((_, Meaning::Bookkeeping)) => {}
                Some((_, Meaning::Partial)) => found.is_partial = true,
                None => found.left_out += 1,
            }
        } else if is_carried(&name, kind) {
            if let Some(value) = value(&path, &name)? {
                found.attributes.plain.insert(name, value);
            }
        } else if !name.starts_with(b"security.") {
            found.left_out += 1;
        }
    }
    Ok(found)
}

/// Sets all but access control lists, which [come last](set_lists).
pub(crate) fn set(descriptor: &impl AsFd, attributes: &Attributes, format: Format) -> io::Result<()> {
    let path = by_descriptor(descriptor);
    let put = |name: &[u8], value: &[u8]| rustix::fs::setxattr(&path, OsStr::from_bytes(name), value, XattrFlags::empty());
    for (mark, value) in &attributes.marks {
        let name = format.attribute(*mark).ok_or(Errno::NOTSUP)?;
        put(name.as_bytes(), marks::real(*mark, value))?;
    }
    for (name, value) in attributes.plain.iter().filter(|(name, _)| !is_list(name)) {
        put(name, value)?;
    }
    Ok(())
}

/// Sets access control lists, which may take away what other calls need. `false` if one names a user or group that the user
/// namespace does not have: the kernel calls that an invalid value.
pub(crate) fn set_lists(descriptor: &impl AsFd, attributes: &Attributes) -> io::Result<bool> {
    for (name, value) in attributes.plain.iter().filter(|(name, _)| is_list(name)) {
        match rustix::fs::setxattr(by_descriptor(descriptor), OsStr::from_bytes(name), value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::INVAL) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(true)
}

/// Whether an access control list names somebody whose id is not known here.
pub(crate) fn has_strangers(attributes: &Attributes) -> bool {
    attributes.plain.iter().any(|(name, value)| access_list::has_strangers(OsStr::from_bytes(name), value))
}

pub(crate) fn drop_lists(attributes: &mut Attributes) {
    attributes.plain.retain(|name, _| !is_list(name));
}

fn is_list(name: &[u8]) -> bool {
    name == ACCESS_LIST || name == DEFAULT_LIST
}

/// The name by which calls that refuse a mere `O_PATH` descriptor reach what it holds.
pub(crate) fn by_descriptor(descriptor: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()))
}

fn names(path: &PathBuf) -> io::Result<Vec<Vec<u8>>> {
    let mut list = vec![0; 1024];
    let length = loop {
        match rustix::fs::listxattr(path, &mut list[..]) {
            Ok(length) => break length,
            Err(Errno::RANGE) if list.len() < LONGEST => list = vec![0; LONGEST],
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(errno) => return Err(errno.into()),
        }
    };
    Ok(list[..length].split(|b| *b == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

fn value(path: &PathBuf, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; 1024];
    loop {
        match rustix::fs::getxattr(path, OsStr::from_bytes(name), &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                return Ok(Some(value));
            }
            Err(Errno::RANGE) if value.len() < LONGEST => value = vec![0; LONGEST],
            Err(Errno::NODATA) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
}
