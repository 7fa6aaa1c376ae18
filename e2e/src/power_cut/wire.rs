//! The few messages of the FUSE protocol that one file takes.

/// What the kernel wants.
pub(super) struct Request<'a> {
    pub operation: u32,
    pub unique: u64,
    pub node: u64,
    pub body: &'a [u8],
}

pub(super) const LOOKUP: u32 = 1;
pub(super) const FORGET: u32 = 2;
pub(super) const GETATTR: u32 = 3;
pub(super) const OPEN: u32 = 14;
pub(super) const READ: u32 = 15;
pub(super) const WRITE: u32 = 16;
pub(super) const RELEASE: u32 = 18;
pub(super) const FSYNC: u32 = 20;
pub(super) const FLUSH: u32 = 25;
pub(super) const INIT: u32 = 26;
pub(super) const INTERRUPT: u32 = 36;
pub(super) const DESTROY: u32 = 38;
pub(super) const BATCH_FORGET: u32 = 42;

pub(super) const ROOT: u64 = 1;
pub(super) const FILE: u64 = 2;
/// The most that one write carries.
pub(super) const LARGEST: usize = 128 << 10;

const BIG_WRITES: u32 = 1 << 5;
const MAX_PAGES: u32 = 1 << 22;
/// Reads and writes come straight through, without a cache in between that could hide their order.
const DIRECT_IO: u32 = 1;

impl<'a> Request<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let (header, body) = message.split_at_checked(40)?;
        Some(Self { operation: u32_at(header, 4), unique: u64_at(header, 8), node: u64_at(header, 16), body })
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// An answer with its header.
pub(super) fn reply(unique: u64, answer: Result<Vec<u8>, rustix::io::Errno>) -> Vec<u8> {
    let (error, body) = match answer {
        Ok(body) => (0, body),
        Err(errno) => (-errno.raw_os_error(), Vec::new()),
    };
    let mut message = Vec::with_capacity(16 + body.len());
    message.extend(u32::try_from(16 + body.len()).unwrap_or(16).to_ne_bytes());
    message.extend(error.to_ne_bytes());
    message.extend(unique.to_ne_bytes());
    message.extend(body);
    message
}

pub(super) fn initialized() -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    // Version 7.31, read-ahead of nothing.
    out.extend([7_u32, 31, 0, BIG_WRITES | MAX_PAGES].iter().flat_map(|n| n.to_ne_bytes()));
    out.extend([16_u16, 12].iter().flat_map(|n| n.to_ne_bytes()));
    out.extend([LARGEST as u32, 1].iter().flat_map(|n| n.to_ne_bytes()));
    out.extend([(LARGEST / 4096) as u16, 0].iter().flat_map(|n| n.to_ne_bytes()));
    out.resize(64, 0);
    out
}

pub(super) fn attributes(node: u64, size: u64) -> Vec<u8> {
    let (mode, size) = if node == ROOT { (0o40755_u32, 0) } else { (0o100_600, size) };
    let mut out = Vec::with_capacity(88);
    out.extend([node, size, size / 512, 0, 0, 0].iter().flat_map(|n| n.to_ne_bytes()));
    out.extend([0_u32, 0, 0, mode, 1, 0, 0, 0, 4096, 0].iter().flat_map(|n| n.to_ne_bytes()));
    out
}

pub(super) fn entry(node: u64, size: u64) -> Vec<u8> {
    let mut out: Vec<u8> = [node, 0, 3600, 3600, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
    out.extend(attributes(node, size));
    out
}

pub(super) fn attributes_for_a_while(node: u64, size: u64) -> Vec<u8> {
    let mut out: Vec<u8> = [3600_u64, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
    out.extend(attributes(node, size));
    out
}

pub(super) fn opened() -> Vec<u8> {
    let mut out = 0_u64.to_ne_bytes().to_vec();
    out.extend([DIRECT_IO, 0].iter().flat_map(|n| n.to_ne_bytes()));
    out
}

pub(super) fn written(length: usize) -> Vec<u8> {
    [length as u32, 0].iter().flat_map(|n| n.to_ne_bytes()).collect()
}
