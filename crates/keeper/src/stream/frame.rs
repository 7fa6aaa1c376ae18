//! What travels in a stream: frames of a header and a bounded body.
//!
//! The header: the kind (one byte), a zero, the length of the body (16 bits), the channel (32 bits); all little-endian.

use super::{StreamError, VERSION};

/// The most bytes in the body of a frame.
pub const LARGEST_BODY: usize = 16 << 10;
pub const HEADER_LENGTH: usize = 8;

/// So that whatever else speaks first is recognized.
const MAGIC: &[u8] = b"whatif keeper stream";
const LONGEST_REASON: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The first frame in either direction.
    Hello,
    Open(u32, Purpose),
    Data(u32, &'a [u8]),
    /// So many more bytes may be sent.
    Credit(u32, u32),
    /// No more data follows in this direction.
    End(u32),
    /// No more data is wanted from the other side, which is to answer with `End`.
    Unwanted(u32),
    /// Why whoever says it ends the stream.
    Goodbye(&'a str),
}

/// What a channel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A connection to the keeper.
    Session,
    /// In the place of a descriptor that goes with what follows on this session.
    Passed { session: u32, direction: Direction },
}

/// What the one who gets a passed descriptor does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Reads,
    Writes,
    Both,
}

const HELLO: u8 = 1;
const OPEN: u8 = 2;
const DATA: u8 = 3;
const CREDIT: u8 = 4;
const END: u8 = 5;
const UNWANTED: u8 = 6;
const GOODBYE: u8 = 7;

impl<'a> Frame<'a> {
    /// The frame that these bytes begin with and how long it is, or `None` if there is less than one. A header that no frame can have
    /// is refused before its body is there.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, StreamError> {
        let Some(header) = bytes.first_chunk::<HEADER_LENGTH>() else { return Ok(None) };
        let [kind, zero, l0, l1, c0, c1, c2, c3] = *header;
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        let channel = u32::from_le_bytes([c0, c1, c2, c3]);
        let fits = match kind {
            HELLO => length == MAGIC.len() + 4,
            OPEN => length == 6,
            DATA => (1..=LARGEST_BODY).contains(&length),
            CREDIT => length == 4,
            END | UNWANTED => length == 0,
            GOODBYE => length <= LONGEST_REASON,
            _ => return Err(StreamError::UnknownKind(kind)),
        };
        if !fits {
            return Err(StreamError::BadLength { kind, length });
        }
        let is_of_a_channel = !matches!(kind, HELLO | GOODBYE);
        if zero != 0 || is_of_a_channel != (channel != 0) {
            return Err(StreamError::BadBody(kind));
        }
        let Some(body) = bytes.get(HEADER_LENGTH..HEADER_LENGTH + length) else { return Ok(None) };
        let number =
            |at: usize| body.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let frame = match kind {
            HELLO => match body.strip_prefix(MAGIC).map(|_| number(MAGIC.len())) {
                Some(VERSION) => Self::Hello,
                Some(other) => return Err(StreamError::OtherVersion(other)),
                None => return Err(StreamError::NotAStream),
            },
            OPEN => Self::Open(channel, purpose(body[0], body[1], number(2))?),
            DATA => Self::Data(channel, body),
            CREDIT => Self::Credit(channel, number(0)),
            END => Self::End(channel),
            UNWANTED => Self::Unwanted(channel),
            _ => Self::Goodbye(std::str::from_utf8(body).map_err(|_| StreamError::BadBody(kind))?),
        };
        Ok(Some((frame, HEADER_LENGTH + length)))
    }

    /// Data must be no longer than a frame can hold; a reason is cut.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let mut put = |kind: u8, channel: u32, parts: [&[u8]; 2]| {
            let length = parts.iter().map(|part| part.len()).sum::<usize>() as u16;
            out.extend_from_slice(&[kind, 0]);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&channel.to_le_bytes());
            parts.iter().for_each(|part| out.extend_from_slice(part));
        };
        match *self {
            Self::Hello => put(HELLO, 0, [MAGIC, &VERSION.to_le_bytes()]),
            Self::Open(channel, Purpose::Session) => put(OPEN, channel, [&[0; 6], &[]]),
            Self::Open(channel, Purpose::Passed { session, direction }) => {
                let direction = match direction {
                    Direction::Reads => 0,
                    Direction::Writes => 1,
                    Direction::Both => 2,
                };
                put(OPEN, channel, [&[1, direction], &session.to_le_bytes()]);
            }
            Self::Data(channel, bytes) => put(DATA, channel, [bytes, &[]]),
            Self::Credit(channel, bytes) => put(CREDIT, channel, [&bytes.to_le_bytes(), &[]]),
            Self::End(channel) => put(END, channel, [&[], &[]]),
            Self::Unwanted(channel) => put(UNWANTED, channel, [&[], &[]]),
            Self::Goodbye(why) => put(GOODBYE, 0, [cut(why).as_bytes(), &[]]),
        }
    }
}

fn cut(reason: &str) -> &str {
    let end = (0..=reason.len().min(LONGEST_REASON)).rev().find(|at| reason.is_char_boundary(*at));
    &reason[..end.unwrap_or(0)]
}

fn purpose(kind: u8, direction: u8, session: u32) -> Result<Purpose, StreamError> {
    let direction = match (kind, direction, session) {
        (0, 0, 0) => return Ok(Purpose::Session),
        (1, 0, 1..) => Direction::Reads,
        (1, 1, 1..) => Direction::Writes,
        (1, 2, 1..) => Direction::Both,
        _ => return Err(StreamError::BadBody(OPEN)),
    };
    Ok(Purpose::Passed { session, direction })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let passed = |direction| Purpose::Passed { session: 9, direction };
        for frame in [
            Frame::Hello,
            Frame::Open(1, Purpose::Session),
            Frame::Open(2, passed(Direction::Reads)),
            Frame::Open(4, passed(Direction::Writes)),
            Frame::Open(u32::MAX, passed(Direction::Both)),
            Frame::Data(3, &[7; LARGEST_BODY]),
            Frame::Credit(3, 1 << 31),
            Frame::End(5),
            Frame::Unwanted(6),
            Frame::Goodbye("why not"),
        ] {
            let mut bytes = Vec::new();
            frame.write_to(&mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(Frame::parse(&bytes[..cut]).unwrap(), None, "{frame:?} cut at {cut}");
            }
            bytes.push(0);
            assert_eq!(Frame::parse(&bytes).unwrap(), Some((frame, bytes.len() - 1)));
        }
    }

    #[test]
    fn what_no_frame_can_be_is_refused_by_its_header() {
        let refused = |bytes: &[u8]| Frame::parse(bytes).unwrap_err().to_string();
        assert_eq!(refused(b"GET / HT"), "the other side sent a frame of the unknown kind 71");
        assert_eq!(refused(&[DATA, 0, 1, 0x40, 1, 0, 0, 0]), "the other side sent a frame of kind 3 with 16385 bytes");
        assert_eq!(refused(&[DATA, 0, 0, 0, 1, 0, 0, 0]), "the other side sent a frame of kind 3 with 0 bytes");
        assert_eq!(refused(&[END, 1, 0, 0, 1, 0, 0, 0]), "the other side sent a frame of kind 5 that makes no sense");
        assert_eq!(refused(&[END, 0, 0, 0, 0, 0, 0, 0]), "the other side sent a frame of kind 5 that makes no sense");
    }

    #[test]
    fn another_version_and_another_program_are_told_apart() {
        let mut hello = Vec::new();
        Frame::Hello.write_to(&mut hello);
        *hello.last_mut().unwrap() = 1;
        assert!(matches!(Frame::parse(&hello), Err(StreamError::OtherVersion(0x0100_0001))));
        hello[HEADER_LENGTH] = b'W';
        assert!(matches!(Frame::parse(&hello), Err(StreamError::NotAStream)));
    }

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let mut bytes = Vec::new();
        Frame::Goodbye(&"é".repeat(400)).write_to(&mut bytes);
        assert!(matches!(Frame::parse(&bytes), Ok(Some((Frame::Goodbye(why), _))) if why.len() == LONGEST_REASON));
    }
}
