//! Binary content inside a patch: compressed, then spelled in git's base 85.

use std::io;

use miniz_oxide::deflate::compress_to_vec_zlib;

const DIGITS: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// The bytes a line spells.
const LINE: usize = 52;

/// Spelled out in memory before they are written.
const LINES_AT_ONCE: usize = 1000;

/// zlib's own default.
const LEVEL: u8 = 6;

/// Writes one `literal` hunk and the blank line that ends it.
pub(crate) fn literal(out: &mut dyn io::Write, content: &[u8]) -> io::Result<()> {
    writeln!(out, "literal {}", content.len())?;
    let packed = compress_to_vec_zlib(content, LEVEL);
    for lines in packed.chunks(LINE * LINES_AT_ONCE) {
        let mut text = Vec::with_capacity(LINES_AT_ONCE * (LINE / 4 * 5 + 2));
        for line in lines.chunks(LINE) {
            text.push(length_letter(line.len()));
            line.chunks(4).for_each(|group| text.extend_from_slice(&digits(group)));
            text.push(b'\n');
        }
        out.write_all(&text)?;
    }
    out.write_all(b"\n")
}

/// `A` to `Z` for 1 to 26 bytes, `a` to `z` for 27 to 52.
fn length_letter(length: usize) -> u8 {
    let length = length as u8;
    if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 }
}

/// Up to four bytes as five digits, the highest first; missing bytes count as zero.
fn digits(group: &[u8]) -> [u8; 5] {
    let mut bytes = [0; 4];
    bytes[..group.len()].copy_from_slice(group);
    let mut value = u32::from_be_bytes(bytes);
    let mut digits = [0; 5];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(value % 85) as usize];
        value /= 85;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_of_a_line_is_its_length() {
        assert_eq!([1, 26, 27, 52].map(length_letter), [b'A', b'Z', b'a', b'z']);
    }

    #[test]
    fn groups_are_padded_big_endian_numbers() {
        assert_eq!(&digits(&[0, 0, 0, 0]), b"00000");
        assert_eq!(&digits(&[0, 0, 0, 1]), b"00001");
        assert_eq!(&digits(&[0xff; 4]), b"|NsC0");
        assert_eq!(digits(&[1]), digits(&[1, 0, 0, 0]));
    }

    #[test]
    fn lines_have_at_most_52_bytes() {
        let noise: Vec<u8> =
            (0..4000u32).map(|n| (n.wrapping_mul(2_654_435_761).rotate_left(n % 31).wrapping_mul(n) >> 13) as u8).collect();
        let mut out = Vec::new();
        literal(&mut out, &noise).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("literal 4000\nz"));
        assert!(text.ends_with("\n\n"));
        assert!(text.lines().all(|line| line.len() <= 66));
    }
}
