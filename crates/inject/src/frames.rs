//! The frames of a WebSocket: a message may be cut into several, with frames of control between them.

use crate::mask::{Masker, Part};

/// Two bytes, eight for a length, four for a key that servers have no reason to use.
const LONGEST_HEAD: usize = 14;

/// Follows what a server sends. Something else than frames is read as if it were some; the masker does not rely on it.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    head: Vec<u8>,
    frame: Frame,
}

#[derive(Debug, Default)]
struct Frame {
    /// Of its payload.
    left: u64,
    is_control: bool,
    /// The last one of its message.
    is_last: bool,
}

impl Frames {
    pub(crate) fn push(&mut self, mut bytes: &[u8], masker: &mut Masker<'_>) {
        while let Some(first) = bytes.first() {
            if self.frame.left == 0 {
                masker.push(Part::Aside, std::slice::from_ref(first));
                self.head.push(*first);
                bytes = &bytes[1..];
                let Some(frame) = frame(&self.head) else { continue };
                self.head.clear();
                self.frame = frame;
            } else {
                let count = usize::try_from(self.frame.left).unwrap_or(usize::MAX).min(bytes.len());
                let (payload, rest) = bytes.split_at(count);
                masker.push(if self.frame.is_control { Part::Aside } else { Part::Message }, payload);
                self.frame.left -= u64::try_from(count).unwrap_or(u64::MAX);
                bytes = rest;
            }
            if self.frame.left == 0 && self.frame.is_last && !self.frame.is_control {
                masker.finish_message();
            }
        }
    }
}

/// What the bytes before a payload say, once all of them are there.
fn frame(head: &[u8]) -> Option<Frame> {
    let [first, second, rest @ ..] = head else { return None };
    let (long, short) = match second & 0x7f {
        126 => (2, 0),
        127 => (8, 0),
        short => (0, short),
    };
    let key = if second & 0x80 == 0 { 0 } else { 4 };
    debug_assert!(head.len() <= LONGEST_HEAD, "it would have ended before");
    let length = rest.get(..long).filter(|_| rest.len() == long + key)?;
    let left = length.iter().fold(u64::from(short), |sum, byte| sum << 8 | u64::from(*byte));
    Some(Frame { left, is_control: first & 0x08 != 0, is_last: first & 0x80 != 0 })
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::known::Known;
    use crate::mask::Masks;

    /// What comes out if it comes in pieces of this size; what is ready is taken after each.
    fn masked(sent: &[u8], size: usize) -> Vec<u8> {
        let value = Zeroizing::new(b"hunter22".to_vec());
        let known = Known { name: "TOKEN".to_owned(), placeholder: b"placeholder".to_vec(), value, fields: Vec::new() };
        let masks = Masks::of(&[known]);
        let (mut masker, mut frames, mut out) = (Masker::new(&masks), Frames::default(), Vec::new());
        for piece in sent.chunks(size) {
            frames.push(piece, &mut masker);
            out.extend(masker.ready());
            masker.pass(masker.ready().len());
        }
        masker.finish();
        out.extend(masker.ready());
        out
    }

    #[track_caller]
    fn expect(sent: &[u8], expected: &[u8]) {
        for size in 1..=sent.len() {
            assert_eq!(masked(sent, size), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_value_in_several_frames_is_crossed_out() {
        expect(b"\x81\x0ahunter22 x", b"\x81\x0a******** x");
        expect(b"\x01\x03hun\x80\x05ter22", b"\x01\x03***\x80\x05*****");
        expect(
            b"\x02\x03hun\x00\x00\x89\x01p\x00\x7e\x00\x03ter\x80\x02" as &[u8],
            b"\x02\x03hun\x00\x00\x89\x01p\x00\x7e\x00\x03ter\x80\x02",
        );
        expect(
            b"\x02\x03hun\x00\x00\x89\x01p\x00\x7e\x00\x03ter\x80\x0222",
            b"\x02\x03***\x00\x00\x89\x01p\x00\x7e\x00\x03***\x80\x02**",
        );
        expect(b"\x01\x03hun\x80\x7f\0\0\0\0\0\0\0\x05ter22", b"\x01\x03***\x80\x7f\0\0\0\0\0\0\0\x05*****");
    }

    #[test]
    fn two_messages_are_not_one_text() {
        expect(b"\x81\x03hun\x81\x05ter22", b"\x81\x03hun\x81\x05ter22");
        expect(b"\x81\x00\x01\x03hun\x80\x00\x81\x05ter22", b"\x81\x00\x01\x03hun\x80\x00\x81\x05ter22");
    }

    #[test]
    fn a_value_is_crossed_out_whatever_a_server_speaks() {
        expect(b"hunter22", b"********");
        expect(b"\x81\x02a hunter22 b hunter22", b"\x81\x02a ******** b ********");
        expect(b"\x89\x08hunter22", b"\x89\x08********");
    }
}
