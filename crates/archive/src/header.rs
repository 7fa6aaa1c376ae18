//! The block before every entry of a tar archive, as POSIX has it.

use std::ops::Range;

pub(crate) const BLOCK: usize = 512;
pub(crate) const NAME: usize = 100;
/// The largest numbers that fit into fields of eight and twelve bytes.
pub(crate) const LARGEST_SHORT: u64 = 0o7_777_777;
pub(crate) const LARGEST_LONG: u64 = 0o77_777_777_777;

pub(crate) type Block = [u8; BLOCK];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Cut to what fits.
    pub name: Vec<u8>,
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    pub size: u64,
    pub mtime: u64,
    pub kind: u8,
    /// Cut to what fits.
    pub link: Vec<u8>,
    pub major: u64,
    pub minor: u64,
}

const AT_NAME: Range<usize> = 0..100;
const AT_MODE: Range<usize> = 100..108;
const AT_UID: Range<usize> = 108..116;
const AT_GID: Range<usize> = 116..124;
const AT_SIZE: Range<usize> = 124..136;
const AT_MTIME: Range<usize> = 136..148;
const AT_SUM: Range<usize> = 148..156;
const AT_KIND: usize = 156;
const AT_LINK: Range<usize> = 157..257;
const AT_MAGIC: Range<usize> = 257..265;
const AT_MAJOR: Range<usize> = 329..337;
const AT_MINOR: Range<usize> = 337..345;
const MAGIC: &[u8] = b"ustar\x0000";

impl Header {
    pub(crate) fn encode(&self) -> Block {
        let mut block = [0; BLOCK];
        put_text(&mut block[AT_NAME], &self.name);
        put_number(&mut block[AT_MODE], self.mode);
        put_number(&mut block[AT_UID], self.uid);
        put_number(&mut block[AT_GID], self.gid);
        put_number(&mut block[AT_SIZE], self.size);
        put_number(&mut block[AT_MTIME], self.mtime);
        block[AT_KIND] = self.kind;
        put_text(&mut block[AT_LINK], &self.link);
        block[AT_MAGIC].copy_from_slice(MAGIC);
        put_number(&mut block[AT_MAJOR], self.major);
        put_number(&mut block[AT_MINOR], self.minor);
        let sum = sum(&block);
        // Six digits, NUL, space: the one field that is like this.
        put_number(&mut block[AT_SUM.start..AT_SUM.end - 1], sum);
        block[AT_SUM.end - 1] = b' ';
        block
    }

    /// Reads what [`encode`](Self::encode) wrote. It is not said that this is all the block has: the caller compares.
    pub(crate) fn decode(block: &Block) -> Result<Self, &'static str> {
        if block[AT_MAGIC] != *MAGIC {
            return Err("has no tar header");
        }
        if number(&block[AT_SUM.start..AT_SUM.end - 1])? != sum(block) {
            return Err("has a header with a wrong checksum");
        }
        Ok(Self {
            name: text(&block[AT_NAME]),
            mode: number(&block[AT_MODE])?,
            uid: number(&block[AT_UID])?,
            gid: number(&block[AT_GID])?,
            size: number(&block[AT_SIZE])?,
            mtime: number(&block[AT_MTIME])?,
            kind: block[AT_KIND],
            link: text(&block[AT_LINK]),
            major: number(&block[AT_MAJOR])?,
            minor: number(&block[AT_MINOR])?,
        })
    }
}

/// The name in a block that may be anything, for messages.
pub(crate) fn name_of(block: &Block) -> Vec<u8> {
    text(&block[AT_NAME])
}

/// What fills content up to whole blocks.
pub(crate) fn padding(size: u64) -> usize {
    let block = BLOCK as u64;
    ((block - size % block) % block) as usize
}

fn put_text(field: &mut [u8], text: &[u8]) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text[..length]);
}

fn text(field: &[u8]) -> Vec<u8> {
    field.iter().copied().take_while(|b| *b != 0).collect()
}

/// Octal digits that fill the field but for its last byte, a NUL.
fn put_number(field: &mut [u8], mut value: u64) {
    let Some((_, digits)) = field.split_last_mut() else { return };
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 8) as u8;
        value /= 8;
    }
}

fn number(field: &[u8]) -> Result<u64, &'static str> {
    let Some((0, digits)) = field.split_last() else { return Err("has a number that does not end") };
    digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'7' => Ok(value * 8 + u64::from(digit - b'0')),
        _ => Err("has a number that is none"),
    })
}

/// Of all bytes, with the field of the sum as spaces.
fn sum(block: &Block) -> u64 {
    let others = block.iter().enumerate().filter(|(at, _)| !AT_SUM.contains(at)).map(|(_, b)| u64::from(*b));
    others.sum::<u64>() + AT_SUM.len() as u64 * u64::from(b' ')
}
