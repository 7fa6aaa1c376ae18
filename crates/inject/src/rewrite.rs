//! Puts secrets in the place of placeholders: in the values of a request's fields, and nowhere else.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

use crate::known::Known;

/// A head with its secrets in. Servers seldom accept half of that.
pub(crate) const LONGEST: usize = 32 * 1024;

/// Fields that servers repeat in what they answer or show to others. No server takes a credential from them, so a placeholder
/// there is a mistake at best.
const REPEATED: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "connection",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-type",
    "correlation-id",
    "date",
    "destination",
    "expect",
    "forwarded",
    "from",
    "host",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "keep-alive",
    "origin",
    "prefer",
    "range",
    "referer",
    "request-id",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "te",
    "trace-id",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-amzn-trace-id",
    "x-b3-spanid",
    "x-b3-traceid",
    "x-client-request-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-original-url",
    "x-real-ip",
    "x-request-id",
    "x-requested-with",
    "x-rewrite-url",
    "x-trace-id",
];

/// A head as it goes to the server. It is cleared from memory afterwards.
pub(crate) struct Rewritten {
    pub(crate) head: Zeroizing<Vec<u8>>,
    pub(crate) replaced: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("with its secrets the head is longer than {LONGEST} bytes")]
pub(crate) struct TooLong;

/// Rewrites a head that [`whatif_netpolicy::http::parse`] accepted: every line ends in CR LF and none is folded.
pub(crate) fn rewrite(head: &[u8], secrets: &[Known]) -> Result<Rewritten, TooLong> {
    // Never grown, or the allocator would leave copies behind.
    let mut out = Output { head: Zeroizing::new(Vec::with_capacity(LONGEST)), replaced: 0 };
    for (index, line) in head.split_inclusive(|byte| *byte == b'\n').enumerate() {
        match line.iter().position(|byte| *byte == b':').filter(|_| index > 0) {
            Some(colon) => {
                let (name, value) = line.split_at(colon + 1);
                out.push(name)?;
                out.field(&name[..colon], value, secrets)?;
            }
            None => out.push(line)?,
        }
    }
    Ok(Rewritten { head: out.head, replaced: out.replaced })
}

struct Output {
    head: Zeroizing<Vec<u8>>,
    replaced: u64,
}

impl Output {
    fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.head.len() + bytes.len() > LONGEST {
            return Err(TooLong);
        }
        self.head.extend_from_slice(bytes);
        Ok(())
    }

    /// `value` has the white space around it and the line's end.
    fn field(&mut self, name: &[u8], value: &[u8], secrets: &[Known]) -> Result<(), TooLong> {
        if REPEATED.iter().any(|repeated| name.eq_ignore_ascii_case(repeated.as_bytes())) {
            return self.push(value);
        }
        if name.eq_ignore_ascii_case(b"authorization")
            && let Some(basic) = Basic::open(value)
        {
            let mut inner = Self { head: Zeroizing::new(Vec::with_capacity(LONGEST)), replaced: 0 };
            inner.replace(&basic.credentials, secrets)?;
            if inner.replaced > 0 {
                self.replaced += inner.replaced;
                self.push(basic.before)?;
                // A string of the right capacity from the beginning.
                self.push(Zeroizing::new(BASE64_STANDARD.encode(inner.head.as_slice())).as_bytes())?;
                return self.push(basic.after);
            }
        }
        self.replace(value, secrets)
    }

    /// From left to right, the longest placeholder first, and never in what was just put in.
    fn replace(&mut self, text: &[u8], secrets: &[Known]) -> Result<(), TooLong> {
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
