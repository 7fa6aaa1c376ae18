//! Entries as bytes of a tar archive: an optional block of pax records, then a header. Content follows elsewhere.
//!
//! Decoding is as strict as can be: what is not exactly what [`encode`] makes of the result is refused.

use crate::attributes::{self, Attributes};
use crate::entry::{About, Entry, Kind, Time};
use crate::error::{ArchiveError, shown};
use crate::header::{self, BLOCK, Block, Header, LARGEST_LONG, LARGEST_SHORT, NAME};
use crate::marks;
use crate::names;
use crate::pax;

const FILE: u8 = b'0';
const HARD_LINK: u8 = b'1';
const LINK: u8 = b'2';
const CHARACTER_DEVICE: u8 = b'3';
const BLOCK_DEVICE: u8 = b'4';
const DIRECTORY: u8 = b'5';
const PIPE: u8 = b'6';
const RECORDS: u8 = b'x';

const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";
const MARK: &[u8] = b"WHATIF.overlay.";
/// Above this, ids are errors written as numbers.
const LARGEST_ID: u64 = i32::MAX as u64;

/// Words that follow the name, if an entry found in a layer cannot be archived.
pub(crate) fn objection(entry: &Entry) -> Option<&'static str> {
    if entry.path.len() > names::LONGEST {
        return Some("has a path that is too long");
    }
    let largest_id = u64::from(entry.about.uid.max(entry.about.gid));
    if largest_id > LARGEST_ID {
        return Some("belongs to a user or group that no archive can name");
    }
    (records(entry).len() > pax::LONGEST).then_some("has more attributes than an archive can hold")
}

pub(crate) fn encode(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 * BLOCK);
    let records = records(entry);
    if !records.is_empty() {
        let name = b"PaxHeaders/records".to_vec();
        let header = Header { name, mode: 0o644, size: records.len() as u64, kind: RECORDS, ..Header::default() };
        bytes.extend(header.encode());
        bytes.extend(&records);
        bytes.resize(bytes.len() + header::padding(records.len() as u64), 0);
    }
    bytes.extend(header(entry).encode());
    bytes
}

/// Numbers that do not fit are zero here and in a record.
fn header(entry: &Entry) -> Header {
    let (kind, link) = match &entry.kind {
        Kind::Directory => (DIRECTORY, &[][..]),
        Kind::File { .. } => (FILE, &[][..]),
        Kind::Link { to } => (LINK, &to[..]),
        Kind::HardLink { to } => (HARD_LINK, &to[..]),
        Kind::Pipe => (PIPE, &[][..]),
        Kind::Whiteout => (CHARACTER_DEVICE, &[][..]),
    };
    let About { mode, uid, gid, mtime } = entry.about;
    let fitting = |number: u64, largest: u64| if number <= largest { number } else { 0 };
    Header {
        name: cut(&entry.path),
        mode: u64::from(mode),
        uid: fitting(uid.into(), LARGEST_SHORT),
        gid: fitting(gid.into(), LARGEST_SHORT),
        size: fitting(entry.kind.size(), LARGEST_LONG),
        mtime: u64::try_from(mtime.seconds).map_or(0, |seconds| fitting(seconds, LARGEST_LONG)),
        kind,
        link: cut(link),
        major: 0,
        minor: 0,
    }
}

fn cut(name: &[u8]) -> Vec<u8> {
    name[..name.len().min(NAME)].to_vec()
}

/// What the header has no room for.
fn records(entry: &Entry) -> Vec<u8> {
    let mut records = Vec::new();
    let mut push = |keyword: &[u8], value: &[u8]| pax::push(&mut records, keyword, value);
    if entry.path.len() > NAME {
        push(b"path", &entry.path);
    }
    if let Kind::Link { to } | Kind::HardLink { to } = &entry.kind
        && to.len() > NAME
    {
        push(b"linkpath", to);
    }
    let About { uid, gid, mtime, .. } = entry.about;
    for (keyword, number, largest) in
        [("size", entry.kind.size(), LARGEST_LONG), ("uid", uid.into(), LARGEST_SHORT), ("gid", gid.into(), LARGEST_SHORT)]
    {
        if number > largest {
            push(keyword.as_bytes(), number.to_string().as_bytes());
        }
    }
    if mtime.nanoseconds != 0 || u64::try_from(mtime.seconds).map_or(true, |seconds| seconds > LARGEST_LONG) {
        push(b"mtime", mtime.to_text().as_bytes());
    }
    for (name, value) in &entry.attributes.plain {
        push(&[ATTRIBUTE, &pax::escape(name)].concat(), value);
    }
    for (mark, value) in &entry.attributes.marks {
        push(&[MARK, mark.name().as_bytes()].concat(), value);
    }
    records
}

/// The next entry, or nothing at the first empty block. `read` fills a buffer or fails.
pub(crate) fn decode(read: &mut dyn FnMut(&mut [u8]) -> Result<(), ArchiveError>) -> Result<Option<Entry>, ArchiveError> {
    let mut block: Block = [0; BLOCK];
    read(&mut block)?;
    if block == [0; BLOCK] {
        return Ok(None);
    }
    let mut bytes = block.to_vec();
    let mut header = header_of(&block)?;
    let mut records = Vec::new();
    if header.kind == RECORDS {
        if header.size > pax::LONGEST as u64 {
            return Err(ArchiveError::Limit { what: "bytes of attributes in one entry", limit: pax::LONGEST as u64 });
        }
        records = vec![0; header.size as usize + header::padding(header.size)];
        read(&mut records)?;
        bytes.extend(&records);
        records.truncate(header.size as usize);
        read(&mut block)?;
        bytes.extend(block);
        header = header_of(&block)?;
    }
    let entry = entry(header, &records)?;
    attributes::check(&entry)?;
    if encode(&entry) != bytes {
        return Err(malformed(&entry.path, "is not written as whatif writes it"));
    }
    Ok(Some(entry))
}

fn header_of(block: &Block) -> Result<Header, ArchiveError> {
    Header::decode(block).map_err(|why| malformed(&header::name_of(block), why))
}

fn malformed(name: &[u8], why: &'static str) -> ArchiveError {
    ArchiveError::Malformed { name: shown(name), why }
}

/// Puts header and records together. What the records say counts.
fn entry(header: Header, records: &[u8]) -> Result<Entry, ArchiveError> {
    let name = header.name.clone();
    let broken = |why| malformed(&name, why);
    let (mut path, mut link) = (header.name, header.link);
    let (mut size, mut uid, mut gid) = (header.size, header.uid, header.gid);
    let mut mtime = Time { seconds: header.mtime as i64, nanoseconds: 0 };
    let mut attributes = Attributes::default();
    let number = |value: &[u8]| {
        let text = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        text.and_then(|text| text.parse().ok()).ok_or_else(|| broken("has a number that is none"))
    };
    for (keyword, value) in pax::split(records).map_err(broken)? {
        match keyword {
            b"path" => path = value.to_vec(),
            b"linkpath" => link = value.to_vec(),
            b"size" => size = number(value)?,
            b"uid" => uid = number(value)?,
            b"gid" => gid = number(value)?,
            b"mtime" => mtime = Time::from_text(value).ok_or_else(|| broken("has a time that is none"))?,
            _ => attribute(keyword, value, &mut attributes, &name)?,
        }
    }
    names::check(&path)?;
    if let Some(id) = [uid, gid].into_iter().find(|id| *id > LARGEST_ID) {
        return Err(ArchiveError::Owner { name: shown(&path), id });
    }
    let kind = match header.kind {
        DIRECTORY => Kind::Directory,
        FILE => Kind::File { size },
        LINK if is_target(&link) => Kind::Link { to: link },
        LINK => return Err(malformed(&path, "is a link that leads nowhere")),
        HARD_LINK => {
            names::check(&link)?;
            Kind::HardLink { to: link }
        }
        PIPE => Kind::Pipe,
        CHARACTER_DEVICE if (header.major, header.minor) == (0, 0) => Kind::Whiteout,
        CHARACTER_DEVICE | BLOCK_DEVICE => return Err(ArchiveError::Device { name: shown(&path) }),
        _ => return Err(malformed(&path, "is of an unknown kind")),
    };
    // Higher bits would say a kind once more.
    let mode = u32::try_from(header.mode).ok().filter(|mode| *mode <= 0o7777);
    let mode = mode.ok_or_else(|| malformed(&path, "has a mode that is none"))?;
    let about = About { mode, uid: uid as u32, gid: gid as u32, mtime };
    if matches!(kind, Kind::HardLink { .. }) && (about != About::default() || !attributes.is_empty()) {
        return Err(malformed(&path, "is a hard link that says more than where it leads"));
    }
    Ok(Entry { path, kind, about, attributes })
}

/// Anything the kernel takes: where a link leads is not followed here.
fn is_target(link: &[u8]) -> bool {
    !link.is_empty() && link.len() <= names::LONGEST && !link.contains(&0)
}

fn attribute(keyword: &[u8], value: &[u8], attributes: &mut Attributes, name: &[u8]) -> Result<(), ArchiveError> {
    if let Some(mark) = keyword.strip_prefix(MARK) {
        let unknown = || ArchiveError::Mark { name: shown(name), mark: shown(mark), why: "is unknown" };
        attributes.marks.insert(marks::carried(mark).ok_or_else(unknown)?, value.to_vec());
    } else if let Some(escaped) = keyword.strip_prefix(ATTRIBUTE) {
        let plain = pax::unescape(escaped).ok_or_else(|| malformed(name, "has an attribute with a broken name"))?;
        attributes.plain.insert(plain, value.to_vec());
    } else {
        return Err(malformed(name, "has an unknown pax record"));
    }
    Ok(())
}
