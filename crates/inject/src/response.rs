//! Finds where a server's answer ends. Nothing in it is judged.
//!
//! The server is the one the user trusts with the secret, so this reader takes what clients take. Where it cannot tell the end,
//! the answer goes on until the connection closes.

mod chunks;

use chunks::Chunks;

use crate::mask::Part;

/// Some servers send very large cookies and policies.
pub(crate) const LONGEST_HEAD: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    /// How many bytes the head takes.
    pub(crate) length: usize,
    pub(crate) framing: Framing,
    /// Another request can follow on this connection.
    pub(crate) keeps: bool,
}

#[derive(Debug)]
pub(crate) enum Framing {
    Left(u64),
    Chunked(Chunks),
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResponseError {
    #[error("it is not HTTP/1")]
    NotHttp,
    #[error("its head is longer than {LONGEST_HEAD} bytes")]
    TooLong,
    #[error("its lengths contradict each other")]
    Length,
    #[error("its chunks are malformed")]
    Chunk,
    /// The server cuts what looks like a secret into far too many chunks.
    #[error("too much of it lies between two pieces of what may be a secret")]
    TooScattered,
}

/// Reads a head from the beginning of `buffer`; `None` while it is not whole.
pub(crate) fn parse(buffer: &[u8], to_head_request: bool) -> Result<Option<ResponseHead>, ResponseError> {
    let start = b"HTTP/1.";
    if !buffer.starts_with(&start[..buffer.len().min(start.len())]) {
        return Err(ResponseError::NotHttp);
    }
    let within = &buffer[..buffer.len().min(LONGEST_HEAD)];
    let mut lines = Lines { rest: within };
    let mut fields = Fields::default();
    let Some(status_line) = lines.next() else { return incomplete(buffer) };
    loop {
        match lines.next() {
            None => return incomplete(buffer),
            Some([]) => break,
            Some(line) => fields.add(line)?,
        }
    }
    let (is_old, status) = parse_status(status_line).ok_or(ResponseError::NotHttp)?;
    let bodiless = to_head_request || matches!(status, 100..=199 | 204 | 304);
    let framing = match (fields.encoding, fields.length) {
        _ if bodiless => Framing::Left(0),
        (Encoding::Chunked, _) => Framing::Chunked(Chunks::default()),
        (Encoding::Other, _) | (Encoding::None, None) => Framing::UntilClose,
        (Encoding::None, Some(length)) => Framing::Left(length),
    };
    // With both there are two opinions about the end, so nothing follows on this connection.
    let is_ambiguous = fields.encoding != Encoding::None && fields.length.is_some();
    let keeps = !fields.closes && (!is_old || fields.keeps) && !matches!(framing, Framing::UntilClose) && !is_ambiguous;
    Ok(Some(ResponseHead { status, length: within.len() - lines.rest.len(), framing, keeps }))
}

fn incomplete(buffer: &[u8]) -> Result<Option<ResponseHead>, ResponseError> {
    if buffer.len() < LONGEST_HEAD { Ok(None) } else { Err(ResponseError::TooLong) }
}

/// Whether it is HTTP/1.0, and the status.
fn parse_status(line: &[u8]) -> Option<(bool, u16)> {
    let &[b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9', b' ', a @ b'1'..=b'9', b, c, ref rest @ ..] = line else {
        return None;
    };
    if !b.is_ascii_digit() || !c.is_ascii_digit() || !matches!(rest, [] | [b' ', ..]) {
        return None;
    }
    Some((minor == b'0', u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')))
}

struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    /// The next whole line without its end.
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

#[derive(Default)]
struct Fields {
    length: Option<u64>,
    encoding: Encoding,
    closes: bool,
    keeps: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Encoding {
    #[default]
    None,
    Chunked,
    Other,
}

impl Fields {
    fn add(&mut self, line: &[u8]) -> Result<(), ResponseError> {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Ok(()) };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        match name.to_ascii_lowercase().as_slice() {
            b"content-length" => {
                for part in value.split(|byte| *byte == b',') {
                    let plain = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                    let number = std::str::from_utf8(part.trim_ascii()).ok().filter(plain).and_then(|text| text.parse().ok());
                    let number = number.ok_or(ResponseError::Length)?;
                    if self.length.is_some_and(|known| known != number) {
                        return Err(ResponseError::Length);
                    }
                    self.length = Some(number);
                }
            }
            b"transfer-encoding" => {
                let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
                self.encoding = if last.eq_ignore_ascii_case(b"chunked") { Encoding::Chunked } else { Encoding::Other };
            }
            b"connection" => {
                for option in value.split(|byte| *byte == b',') {
                    self.closes |= option.trim_ascii().eq_ignore_ascii_case(b"close");
                    self.keeps |= option.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Framing {
    /// How many of these bytes belong to the body, and whether it ends there. `each` gets all of them, by what they are.
    pub(crate) fn advance(&mut self, bytes: &[u8], mut each: impl FnMut(Part, &[u8])) -> Result<(usize, bool), ResponseError> {
        match self {
            Self::Left(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                each(Part::Text, &bytes[..count]);
                *left -= u64::try_from(count).unwrap_or(u64::MAX);
                Ok((count, *left == 0))
            }
            Self::Chunked(chunks) => chunks.advance(bytes, each),
            Self::UntilClose => {
                each(Part::Text, bytes);
                Ok((bytes.len(), false))
            }
        }
    }
}

#[cfg(test)]
mod tests;
