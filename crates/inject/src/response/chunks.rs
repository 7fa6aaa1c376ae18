//! The end of a chunked answer. Unlike in requests, extensions and trailers are let through: servers send them.

use super::ResponseError;
use crate::mask::Part;

/// Size lines and trailers together. Only a broken server sends more.
const MOST_OVERHEAD_IN_ONE: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Chunks {
    state: State,
    /// Bytes of the present size line, or of all trailers.
    overhead: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    SizeStart,
    Size(u64),
    /// After the number: an extension, or white space.
    Extension(u64),
    Data(u64),
    /// The line break after the data.
    DataEnd,
    /// At the beginning of a line after the last chunk.
    TrailerStart,
    /// A CR stands at the beginning of such a line.
    TrailerCr,
    Trailer,
    Done,
}

impl Chunks {
    /// How many of these bytes belong to the body, and whether it ends there. `each` gets all of them, by what they are.
    pub(crate) fn advance(&mut self, bytes: &[u8], mut each: impl FnMut(Part, &[u8])) -> Result<(usize, bool), ResponseError> {
        let mut at = 0;
        while !matches!(self.state, State::Done) {
            let Some(byte) = bytes.get(at) else { return Ok((at, false)) };
            if let State::Data(left) = self.state {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                each(Part::Text, &bytes[at..at + count]);
                at += count;
                let left = left - u64::try_from(count).unwrap_or(left);
                self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
                continue;
            }
            self.overhead += 1;
            if self.overhead > MOST_OVERHEAD_IN_ONE {
                return Err(ResponseError::Chunk);
            }
            self.state = self.state.after(*byte).ok_or(ResponseError::Chunk)?;
            let is_aside = matches!(self.state, State::Extension(_) | State::Trailer);
            each(if is_aside { Part::Aside } else { Part::Frame }, std::slice::from_ref(byte));
            if matches!(self.state, State::Data(_)) {
                self.overhead = 0;
            }
            at += 1;
        }
        Ok((at, true))
    }
}

impl State {
    fn after(self, byte: u8) -> Option<Self> {
        let digit = || char::from(byte).to_digit(16).map(u64::from);
        match (self, byte) {
            (Self::SizeStart, _) => digit().map(Self::Size),
            (Self::Size(0) | Self::Extension(0), b'\n') => Some(Self::TrailerStart),
            (Self::Size(size) | Self::Extension(size), b'\n') => Some(Self::Data(size)),
            (Self::Size(size), b'\r' | b' ' | b'\t' | b';') => Some(Self::Extension(size)),
            (Self::Size(size), _) => Some(Self::Size(size.checked_mul(16)?.checked_add(digit()?)?)),
            (Self::Extension(size), _) => Some(Self::Extension(size)),
            (Self::DataEnd, b'\r') => Some(Self::DataEnd),
            (Self::DataEnd, b'\n') => Some(Self::SizeStart),
            (Self::TrailerStart | Self::TrailerCr, b'\n') => Some(Self::Done),
            (Self::TrailerStart, b'\r') => Some(Self::TrailerCr),
            (Self::Trailer, b'\n') => Some(Self::TrailerStart),
            (Self::TrailerStart | Self::Trailer, _) => Some(Self::Trailer),
            _ => None,
        }
    }
}
