//! The output of a detached command on disk: a stream of which only the latest part is kept, in two files by turns.
//!
//! One file is written until it is full, then the other is emptied and written, and so on. A keeper can open and rename nothing
//! outside its sandbox, so both are made and passed to it by whoever starts the command. Each begins with a [`Header`] of fixed
//! length, which says where in the stream its content belongs. Where the disk is full, output is dropped and counted.

mod reader;
pub mod record;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Part, Reader};
pub use writer::Writer;

/// What one of the two files holds at most, its header included.
pub const LARGEST_FILE: u64 = 8 << 20;

/// The same where there is no disk to keep it on.
pub const LARGEST_IN_MEMORY: u64 = 1 << 20;

const MAGIC: &str = "whatif-log";
const HEADER_LENGTH: usize = MAGIC.len() + 2 * 17 + 1;

/// `whatif-log <16 hexadecimal digits> <16 hexadecimal digits>`, and a newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Where in the stream the content begins.
    start: u64,
    /// How much of the stream was dropped after it.
    dropped: u64,
}

impl Header {
    fn to_line(self) -> String {
        format!("{MAGIC} {:016x} {:016x}\n", self.start, self.dropped)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line.get(..HEADER_LENGTH)?).ok()?;
        let (start, dropped) = line.strip_prefix(MAGIC)?.strip_prefix(' ')?.strip_suffix('\n')?.split_once(' ')?;
        Some(Self { start: number(start)?, dropped: number(dropped)? })
    }
}

fn number(digits: &str) -> Option<u64> {
    let is_plain = digits.len() == 16 && digits.bytes().all(|d| d.is_ascii_hexdigit());
    if is_plain { u64::from_str_radix(digits, 16).ok() } else { None }
}
