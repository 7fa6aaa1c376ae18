//! Whether a path of a plain HTTP request lies below a prefix, for every server that might read it.

/// A path below which requests are allowed. `/pub` covers `/pub` and `/pub/x` but not `/public`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPrefix(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("a path begins with '/'")]
    Relative,
    #[error("a path in a rule is plain: no '.' or '..' parts, no empty parts, no query, no '%', '\\', ';' or white space")]
    NotPlain,
}

impl PathPrefix {
    /// # Errors
    /// If the text is not an absolute path that every server reads alike.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if !text.starts_with('/') {
            return Err(PathError::Relative);
        }
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'\\' | b';' | b'?' | b'#' | b',');
        if !text.bytes().all(plain) || !is_unambiguous(text) {
            return Err(PathError::NotPlain);
        }
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `path` (without its query) lies below. A path that servers read differently lies below nothing but `/`.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        if self.0 == "/" {
            return path.starts_with('/');
        }
        let below = path
            .strip_prefix(self.0.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.0.ends_with('/'));
        below && is_unambiguous(path)
    }
}

/// No part that climbs or vanishes, however it is written: `..`, `%2e%2e`, `..;x`, `//`, `\`, or an escape that hides one of
/// these behind a second round of decoding, behind bytes that are no UTF-8 (`%c0%ae` is a dot to a lenient decoder), or
/// behind a character that some servers take for one of these.
fn is_unambiguous(path: &str) -> bool {
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        let name = segment.split(';').next().unwrap_or_default();
        let vanishes = matches!(name, "." | "..") || (name.is_empty() && !(is_last && segment.is_empty()));
        if vanishes || segment.contains('\\') || hides_a_separator(segment) || !is_plain_text(segment) {
            return false;
        }
    }
    true
}

fn hides_a_separator(segment: &str) -> bool {
    segment.split('%').skip(1).any(|escape| {
        let decoded = escape.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')));
        decoded.is_none_or(|byte| matches!(byte, b'.' | b'/' | b'\\' | b'%' | b';') || byte.is_ascii_control())
    })
}

/// Whether its escapes are text that every decoder reads alike. Servers map full-width and look-alike forms of dots and slashes to
/// the plain ones, and drop what is not shown.
fn is_plain_text(segment: &str) -> bool {
    let misread = |c: char| {
        matches!(
            u32::from(c),
            // Controls and formatting; dots, slashes, per cent signs and semicolons of other kinds; the full-width forms.
            0x80..=0x9f | 0xad | 0x2000..=0x206f | 0x2215 | 0x2216 | 0x2236 | 0x22c5 | 0x29f5 | 0x29f8 | 0x29f9 | 0x3000..=0x3002
                | 0xfe10..=0xfe19 | 0xfe30..=0xfe6f | 0xfeff..=0xffef | 0xfff0..=0xffff
        )
    };
    let decoded = decoded(segment.as_bytes());
    std::str::from_utf8(&decoded).is_ok_and(|text| !text.chars().any(misread))
}

fn decoded(segment: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(segment.len()), segment);
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_a_slash() {
        let prefix = PathPrefix::parse("/pub").unwrap();
        for path in ["/pub", "/pub/", "/pub/a", "/pub/a%20b/c.tar.gz", "/pub/...", "/pub/a;v=1", "/pub/%c3%a4"] {
            assert!(prefix.covers(path), "{path}");
        }
        for path in ["/public", "/", "/a/pub", "/PUB", "", "pub"] {
            assert!(!prefix.covers(path), "{path}");
        }
        let below = PathPrefix::parse("/pub/").unwrap();
        assert!(below.covers("/pub/") && below.covers("/pub/a") && !below.covers("/pub"));
        assert!(PathPrefix::parse("/").unwrap().covers("/../anything"));
    }

    #[test]
    fn hostile_paths_lie_below_nothing() {
        let prefix = PathPrefix::parse("/pub").unwrap();
        for path in [
            "/pub/../secret",
            "/pub/..",
            "/pub/./x",
            "/pub/%2e%2e/secret",
            "/pub/%2E./secret",
            "/pub/.%2e/secret",
            "/pub/..%2fsecret",
            "/pub/%2e%2e%2fsecret",
            "/pub/%252e%252e/secret",
            "/pub/..;/secret",
            "/pub/..;a=b/secret",
            "/pub/..%3b/secret",
            "/pub/;/secret",
            "/pub/..\\secret",
            "/pub/..%5csecret",
            "/pub//secret",
            "/pub/%00/secret",
            "/pub/%0a",
            "/pub/%zz",
            "/pub/%2",
            "/pub/%",
            "/pub/%+e",
            "/pub/x/../../secret",
            "/pub/%c0%ae%c0%ae/secret",
            "/pub/..%c0%afsecret",
            "/pub/%C0%AE./secret",
            "/pub/%e0%80%ae%e0%80%ae/secret",
            "/pub/%f0%80%80%ae./secret",
            "/pub/%ff",
            "/pub/%ae%ae/secret",
            "/pub/%ef%bc%8e%ef%bc%8e/secret",
            "/pub/%e2%80%a4%e2%80%a4/secret",
            "/pub/..%ef%bc%8fsecret",
            "/pub/%ed%a0%80",
            "/pub/.%e2%80%8b./secret",
            "/pub/%u002e%u002e/secret",
        ] {
            assert!(!prefix.covers(path), "{path}");
        }
    }

    #[test]
    fn hostile_prefixes_are_refused() {
        for text in ["", "pub", "/a b", "/a?b", "/a#b", "/a%2fb", "/a/../b", "/a//b", "/a\\b", "/a;b", "/a,b", "/\u{e4}", "/a\n"] {
            assert!(PathPrefix::parse(text).is_err(), "{text:?}");
        }
    }
}
