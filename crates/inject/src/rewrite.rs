//! Puts secrets in the place of placeholders: in the values of fields that carry credentials, and nowhere else.
//!
//! Answers to such a request are searched for the secret, which works only if the server does not compress them. So a request
//! that a secret was put in does not offer that.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

use crate::fields;
use crate::known::Known;

/// A head with its secrets in. Servers seldom accept half of that.
pub(crate) const LONGEST: usize = 32 * 1024;

/// A head as it goes to the server. It is cleared from memory afterwards.
pub(crate) struct Rewritten {
    pub(crate) head: Zeroizing<Vec<u8>>,
    pub(crate) replaced: u64,
    /// What the secrets became in `Basic`: a server may repeat that as well.
    pub(crate) encoded: Vec<Zeroizing<Vec<u8>>>,
    /// A placeholder in a field that its secret does not belong in.
    pub(crate) left: Option<Left>,
}

/// A placeholder that stayed, for a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    secret: String,
    field: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { secret, field } = self;
        write!(f, "{secret} was not put into the field {field}")?;
        if fields::parse(field).is_ok() { write!(f, "; to send it there: --field {secret}={field}") } else { Ok(()) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("with its secrets the head is longer than {LONGEST} bytes")]
pub(crate) struct TooLong;

/// Rewrites a head that [`whatif_netpolicy::http::parse`] accepted: every line ends in CR LF and none is folded.
pub(crate) fn rewrite(head: &[u8], secrets: &[Known]) -> Result<Rewritten, TooLong> {
    let as_asked = write(head, secrets, Compression::AsAsked)?;
    if as_asked.replaced == 0 { Ok(as_asked) } else { write(head, secrets, Compression::Refused) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    AsAsked,
    Refused,
}

/// How a field is written when the answer must not be compressed.
fn uncompressed(name: &[u8]) -> Option<&'static [u8]> {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    if is("accept-encoding") {
        Some(b"Accept-Encoding: identity\r\n")
    } else if is("te") || is("sec-websocket-extensions") {
        Some(b"")
    } else {
        None
    }
}

fn write(head: &[u8], secrets: &[Known], compression: Compression) -> Result<Rewritten, TooLong> {
    let mut out = Rewritten::empty();
    for (index, line) in head.split_inclusive(|byte| *byte == b'\n').enumerate() {
        match line.iter().position(|byte| *byte == b':').filter(|_| index > 0) {
            Some(colon) => {
                let (name, value) = line.split_at(colon + 1);
                match uncompressed(&name[..colon]).filter(|_| compression == Compression::Refused) {
                    Some(other) => out.push(other)?,
                    None => {
                        out.push(name)?;
                        out.field(&name[..colon], value, secrets)?;
                    }
                }
            }
            None => out.push(line)?,
        }
    }
    Ok(out)
}

impl Rewritten {
    fn empty() -> Self {
        // Never grown, or the allocator would leave copies behind.
        Self { head: Zeroizing::new(Vec::with_capacity(LONGEST)), replaced: 0, encoded: Vec::new(), left: None }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.head.len() + bytes.len() > LONGEST {
            return Err(TooLong);
        }
        self.head.extend_from_slice(bytes);
        Ok(())
    }

    /// `value` has the white space around it and the line's end.
    fn field(&mut self, name: &[u8], value: &[u8], secrets: &[Known]) -> Result<(), TooLong> {
        let belong: Vec<&Known> = secrets.iter().filter(|known| known.belongs_in(name)).collect();
        self.note_left(name, value, secrets);
        if name.eq_ignore_ascii_case(b"authorization")
            && let Some(basic) = Basic::open(value)
        {
            let mut inner = Self::empty();
            inner.replace(&basic.credentials, &belong)?;
            if inner.replaced > 0 {
                self.replaced += inner.replaced;
                self.push(basic.before)?;
                // A string of the right capacity from the beginning.
                let encoded = Zeroizing::new(BASE64_STANDARD.encode(inner.head.as_slice()).into_bytes());
                self.push(&encoded)?;
                self.encoded.push(encoded);
                return self.push(basic.after);
            }
        }
        self.replace(value, &belong)
    }

    fn note_left(&mut self, name: &[u8], value: &[u8], secrets: &[Known]) {
        let stands_in = |known: &&Known| value.windows(known.placeholder.len()).any(|window| window == known.placeholder);
        if self.left.is_none()
            && let Some(known) = secrets.iter().filter(|known| !known.belongs_in(name)).find(stands_in)
        {
            let field = String::from_utf8_lossy(name).to_ascii_lowercase();
            self.left = Some(Left { secret: known.name.clone(), field });
        }
    }

    /// From left to right, the longest placeholder first, and never in what was just put in.
    fn replace(&mut self, text: &[u8], secrets: &[&Known]) -> Result<(), TooLong> {
        let mut rest = text;
        let mut plain = 0;
        while plain < rest.len() {
            let here = &rest[plain..];
            let found =
                secrets.iter().filter(|known| here.starts_with(&known.placeholder)).max_by_key(|known| known.placeholder.len());
            let Some(known) = found else {
                plain += 1;
                continue;
            };
            self.push(&rest[..plain])?;
            self.push(&known.value)?;
            self.replaced += 1;
            rest = &rest[plain + known.placeholder.len()..];
            plain = 0;
        }
        self.push(rest)
    }
}

/// A value such as `Basic dXNlcjpwYXNz`.
struct Basic<'a> {
    before: &'a [u8],
    credentials: Zeroizing<Vec<u8>>,
    after: &'a [u8],
}

impl<'a> Basic<'a> {
    fn open(value: &'a [u8]) -> Option<Self> {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let skip = |from: usize, wanted: bool| {
            value[from..].iter().position(|byte| is_space(byte) != wanted).map_or(value.len(), |count| from + count)
        };
        let scheme = skip(0, true);
        let scheme_end = skip(scheme, false);
        if !value[scheme..scheme_end].eq_ignore_ascii_case(b"basic") {
            return None;
        }
        let start = skip(scheme_end, true);
        let end = skip(start, false);
        let credentials = Zeroizing::new(BASE64_STANDARD.decode(&value[start..end]).ok()?);
        // Something else after it is no form of these credentials.
        value[end..].iter().all(is_space).then_some(Self { before: &value[..start], credentials, after: &value[end..] })
    }
}

#[cfg(test)]
mod tests;
