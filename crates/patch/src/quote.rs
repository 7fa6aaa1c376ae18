//! Paths in a patch, spelled as git spells them.

/// Appends a prefix and a path; in quotes, with C escapes, if the path has bytes that a patch cannot hold as they are.
pub(crate) fn quoted(out: &mut Vec<u8>, prefix: &[u8], path: &[u8]) {
    if !path.iter().any(|&byte| is_odd(byte)) {
        out.extend_from_slice(prefix);
        out.extend_from_slice(path);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(prefix);
    path.iter().for_each(|&byte| escaped(out, byte));
    out.push(b'"');
}

fn is_odd(byte: u8) -> bool {
    matches!(byte, ..0x20 | b'"' | b'\\' | 0x7f..)
}

fn escaped(out: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        b'"' | b'\\' => byte,
        _ if is_odd(byte) => {
            out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            return;
        }
        _ => {
            out.push(byte);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(path: &[u8]) -> String {
        let mut out = Vec::new();
        quoted(&mut out, b"a/", path);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn plain_paths_stay() {
        assert_eq!(spelled(b"src/a b's~$.rs "), "a/src/a b's~$.rs ");
    }

    #[test]
    fn odd_paths_are_quoted() {
        assert_eq!(spelled(b"a\"b\\c"), r#""a/a\"b\\c""#);
        assert_eq!(spelled(b"\x01\x07\x08\t\n\x0b\x0c\r\x1b\x7f"), r#""a/\001\a\b\t\n\v\f\r\033\177""#);
        assert_eq!(spelled("é".as_bytes()), r#""a/\303\251""#);
        assert_eq!(spelled(b"\xff"), r#""a/\377""#);
    }
}
