//! Finds the end of a chunked body without keeping any of it.
//!
//! Extensions and trailers are refused: servers disagree about where they end, hardly anybody sends them, and a request that
//! hides in one goes by unseen.

/// Digits of a chunk's size; more would not fit 64 bits with room to spare.
const MOST_DIGITS: u8 = 15;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkSkimmer {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    SizeStart,
    Size {
        size: u64,
        digits: u8,
    },
    SizeLf {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    LastCr,
    LastLf,
    Done,
    Failed,
}

/// How far one push got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skimmed {
    /// All bytes belong to the body and it goes on.
    All,
    /// The body ended after this many bytes; the rest is the next request.
    End { consumed: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    #[error("a chunk's size is not a plain hexadecimal number of at most {MOST_DIGITS} digits")]
    Size,
    #[error("a chunk does not end in CR LF")]
    LineEnd,
    #[error("a chunked body has a trailer")]
    Trailer,
    #[error("the chunked body was malformed before")]
    Failed,
}

impl ChunkSkimmer {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// # Errors
    /// On anything two servers could read differently. Afterwards every push fails.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Skimmed, ChunkError> {
        let mut at = 0;
        while self.state != State::Done {
            let Some(byte) = bytes.get(at) else { return Ok(Skimmed::All) };
            if let State::Data { left } = self.state {
                let available = u64::try_from(bytes.len() - at).unwrap_or(u64::MAX);
                let skipped = left.min(available);
                at += usize::try_from(skipped).unwrap_or(bytes.len());
                self.state = if left == skipped { State::DataCr } else { State::Data { left: left - skipped } };
                continue;
            }
            self.state = self.state.after(*byte).inspect_err(|_| self.state = State::Failed)?;
            at += 1;
        }
        Ok(Skimmed::End { consumed: at })
    }
}

impl State {
    fn after(self, byte: u8) -> Result<Self, ChunkError> {
        let hex = || char::from(byte).to_digit(16).map(u64::from);
        match self {
            Self::SizeStart => hex().map(|size| Self::Size { size, digits: 1 }).ok_or(ChunkError::Size),
            Self::Size { size, .. } if byte == b'\r' => Ok(Self::SizeLf { size }),
            Self::Size { size, digits } => {
                let digit = hex().filter(|_| digits < MOST_DIGITS).ok_or(ChunkError::Size)?;
                Ok(Self::Size { size: size << 4 | digit, digits: digits + 1 })
            }
            Self::SizeLf { size: 0 } => expect(byte, b'\n', Self::LastCr, ChunkError::LineEnd),
            Self::SizeLf { size } => expect(byte, b'\n', Self::Data { left: size }, ChunkError::LineEnd),
            Self::DataCr => expect(byte, b'\r', Self::DataLf, ChunkError::LineEnd),
            Self::DataLf => expect(byte, b'\n', Self::SizeStart, ChunkError::LineEnd),
            Self::LastCr => expect(byte, b'\r', Self::LastLf, ChunkError::Trailer),
            Self::LastLf => expect(byte, b'\n', Self::Done, ChunkError::LineEnd),
            Self::Data { .. } | Self::Done | Self::Failed => Err(ChunkError::Failed),
        }
    }
}

fn expect(byte: u8, expected: u8, next: State, error: ChunkError) -> Result<State, ChunkError> {
    if byte == expected { Ok(next) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skim(bytes: &[u8]) -> Result<Skimmed, ChunkError> {
        ChunkSkimmer::new().push(bytes)
    }

    #[test]
    fn the_end_of_a_body_is_found() {
        for (body, rest) in [
            ("0\r\n\r\n", ""),
            ("5\r\nhello\r\n0\r\n\r\n", "GET /"),
            ("A\r\n0\r\n\r\n01234\r\n000\r\n\r\n", "x"),
            ("0005\r\nhello\r\n0\r\n\r\n", ""),
        ] {
            assert_eq!(skim(format!("{body}{rest}").as_bytes()), Ok(Skimmed::End { consumed: body.len() }), "{body:?}");
            for cut in 0..body.len() {
                let mut skimmer = ChunkSkimmer::new();
                assert_eq!(skimmer.push(&body.as_bytes()[..cut]), Ok(Skimmed::All));
                assert_eq!(skimmer.push(&body.as_bytes()[cut..]), Ok(Skimmed::End { consumed: body.len() - cut }));
            }
        }
    }

    #[test]
    fn a_huge_chunk_costs_nothing() {
        assert_eq!(skim(b"fffffffffffffff\r\nx"), Ok(Skimmed::All));
    }

    #[test]
    fn ambiguous_bodies_are_refused() {
        for (what, bytes, expected) in [
            ("extension", &b"5;a=b\r\nhello\r\n0\r\n\r\n"[..], ChunkError::Size),
            ("extension with LF", b"5;\nhello\r\n0\r\n\r\n", ChunkError::Size),
            ("extension on the last", b"0;x\r\n\r\n", ChunkError::Size),
            ("space after the size", b"5 \r\nhello\r\n", ChunkError::Size),
            ("space before the size", b" 5\r\nhello\r\n", ChunkError::Size),
            ("sign", b"+5\r\nhello\r\n", ChunkError::Size),
            ("hexadecimal prefix", b"0x5\r\nhello\r\n", ChunkError::Size),
            ("underscore", b"1_0\r\n", ChunkError::Size),
            ("no size", b"\r\nhello", ChunkError::Size),
            ("not a number", b"g\r\n", ChunkError::Size),
            ("overflow", b"10000000000000005\r\nhello\r\n", ChunkError::Size),
            ("many zeros", b"0000000000000000\r\n\r\n", ChunkError::Size),
            ("bare LF after the size", b"5\nhello\r\n0\r\n\r\n", ChunkError::Size),
            ("bare CR after the size", b"5\rhello", ChunkError::LineEnd),
            ("bare LF after the data", b"5\r\nhello\n0\r\n\r\n", ChunkError::LineEnd),
            ("data longer than its size", b"5\r\nhello!\r\n", ChunkError::LineEnd),
            ("nothing after the data", b"5\r\nhello0\r\n\r\n", ChunkError::LineEnd),
            ("trailer", b"0\r\nX: y\r\n\r\n", ChunkError::Trailer),
            ("trailer that is a request", b"0\r\nGET / HTTP/1.1\r\n\r\n", ChunkError::Trailer),
            ("bare LF at the end", b"0\r\n\n", ChunkError::Trailer),
            ("bare CR at the end", b"0\r\n\rG", ChunkError::LineEnd),
        ] {
            assert_eq!(skim(bytes), Err(expected), "{what}");
        }
    }

    #[test]
    fn after_a_failure_nothing_passes() {
        let mut skimmer = ChunkSkimmer::new();
        assert_eq!(skimmer.push(b"x"), Err(ChunkError::Size));
        assert_eq!(skimmer.push(b"0\r\n\r\n"), Err(ChunkError::Failed));
        assert_eq!(skimmer.push(b""), Ok(Skimmed::All));
    }
}
