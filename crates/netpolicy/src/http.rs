//! The head of a plain HTTP/1 request, read for a decision and for where the next request begins.
//!
//! Two readers of one stream must agree where a request ends, or a second request hides in the body of the first. So whatever
//! servers are known to read differently is refused rather than repaired: the relay answers 400 and closes.

mod fields;
mod target;

use fields::Fields;

use crate::authority::{Authority, AuthorityError};
pub use target::Target;

pub const LONGEST_HEAD: usize = 16 * 1024;
const MOST_FIELDS: usize = 128;
const LONGEST_METHOD: usize = 20;
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a growing buffer holds so far. More bytes turn `NeedMore` into something else and change nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpState {
    NeedMore,
    Head(Box<Head>),
    /// The preface of HTTP/2 without TLS; its requests cannot be told apart here.
    Http2,
    NotHttp,
    Malformed(HttpError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// As sent; methods are case sensitive.
    pub method: String,
    pub target: Target,
    pub version: Version,
    /// The `Host` field. Only an HTTP/1.0 request can lack it.
    pub host: Option<Authority>,
    pub body: Body,
    pub upgrade: Option<Upgrade>,
    /// How many bytes the head takes, its empty line included. The body follows.
    pub length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    Length(u64),
    /// Its end is found with [`crate::chunks::ChunkSkimmer`].
    Chunked,
    /// `CONNECT`: what follows is not HTTP.
    Tunnel,
}

/// The client offers to speak something else. The stream changes only once the server has answered 101; until then it is HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    WebSocket,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    #[error("the head is longer than {LONGEST_HEAD} bytes")]
    TooLong,
    #[error("the head has more than {MOST_FIELDS} fields")]
    TooManyFields,
    #[error("a line does not end in CR LF, or has one of them inside")]
    LineEnd,
    #[error("the request line is not 'method target version'")]
    RequestLine,
    #[error("the version is neither HTTP/1.0 nor HTTP/1.1")]
    Version,
    #[error("the target is malformed or does not suit the method")]
    Target,
    #[error("a field is folded over several lines")]
    Folded,
    #[error("a field's name is malformed")]
    FieldName,
    #[error("a field's value has a control byte")]
    FieldValue,
    #[error("there are several Host fields")]
    SeveralHosts,
    #[error("there is no Host field")]
    NoHost,
    #[error("the host is malformed: {0}")]
    Host(#[from] AuthorityError),
    #[error("the Host field differs from the target")]
    HostDiffers,
    #[error("there are several Content-Length fields")]
    SeveralLengths,
    #[error("the Content-Length is not a plain number")]
    Length,
    #[error("there are several Transfer-Encoding fields")]
    SeveralEncodings,
    #[error("the Transfer-Encoding is not exactly 'chunked', or not in HTTP/1.1")]
    Encoding,
    #[error("there are both Content-Length and Transfer-Encoding")]
    LengthAndEncoding,
    #[error("a field is named so that some servers take it for another")]
    LookAlike,
    #[error("the method has no body, but one is announced")]
    UnexpectedBody,
    /// Whether a body follows then depends on the server's answer. A relay replies 417, and clients try again without.
    #[error("the request waits for an answer before it sends its body")]
    Expect,
}

/// Reads a request head from the beginning of `buffer`.
#[must_use]
pub fn parse(buffer: &[u8]) -> HttpState {
    let within = &buffer[..buffer.len().min(LONGEST_HEAD)];
    let head = match opening(within) {
        Opening::Http2 => return HttpState::Http2,
        Opening::NotHttp => return HttpState::NotHttp,
        Opening::NeedMore => Ok(None),
        Opening::Http1 => parse_head(within),
    };
    match head {
        Ok(Some(head)) => HttpState::Head(Box::new(head)),
        Ok(None) if buffer.len() >= LONGEST_HEAD => HttpState::Malformed(HttpError::TooLong),
        Ok(None) => HttpState::NeedMore,
        Err(error) => HttpState::Malformed(error),
    }
}

enum Opening {
    NeedMore,
    Http1,
    Http2,
    NotHttp,
}

/// Tells HTTP from other protocols by its first line. What a lenient server might still take for HTTP counts as HTTP here, so
/// that it is refused for its form and does not pass as something else.
fn opening(buffer: &[u8]) -> Opening {
    if buffer.starts_with(HTTP2_PREFACE) {
        return Opening::Http2;
    }
    if HTTP2_PREFACE.starts_with(buffer) {
        return Opening::NeedMore;
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | b'\r' | b'\n');
    let Some(start) = buffer.iter().position(|byte| !is_space(byte)) else { return Opening::NeedMore };
    let text = &buffer[start..];
    let Some(word) = text.iter().position(|byte| !is_token_byte(*byte)) else { return Opening::NeedMore };
    if !is_space(&text[word]) {
        return Opening::NotHttp;
    }
    // Protocols that end their lines with a NUL never send a line feed; no server takes a NUL in a request line.
    let Some(end) = text.iter().position(|byte| matches!(byte, b'\n' | 0)) else { return Opening::NeedMore };
    let names_version = text[..end].windows(5).any(|window| window.eq_ignore_ascii_case(b"HTTP/"));
    if names_version { Opening::Http1 } else { Opening::NotHttp }
}

/// `None` while the head has no end yet. Lines are judged in order, so that more bytes never change a verdict.
fn parse_head(buffer: &[u8]) -> Result<Option<Head>, HttpError> {
    let mut rest = buffer;
    let Some(line) = next_line(&mut rest)? else { return Ok(None) };
    let (method, target, version) = request_line(line)?;
    let mut fields = Fields::default();
    loop {
        let Some(line) = next_line(&mut rest)? else { return Ok(None) };
        if line.is_empty() {
            break;
        }
        fields.add(line)?;
    }
    let host = fields.host(&target, version)?;
    let body = fields.body(method, version)?;
    let length = buffer.len() - rest.len();
    Ok(Some(Head { method: method.to_owned(), target, version, host, body, upgrade: fields.upgrade(), length }))
}

/// Takes one line off, without its CR LF.
fn next_line<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, HttpError> {
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = rest[..end].strip_suffix(b"\r").ok_or(HttpError::LineEnd)?;
    if line.contains(&b'\r') {
        return Err(HttpError::LineEnd);
    }
    *rest = &rest[end + 1..];
    Ok(Some(line))
}

fn request_line(line: &[u8]) -> Result<(&str, Target, Version), HttpError> {
    // Visible ASCII and single spaces, so a tab, a NUL or a letter beyond ASCII ends the matter here.
    let line = std::str::from_utf8(line).ok().filter(|text| text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)));
    let mut words = line.ok_or(HttpError::RequestLine)?.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err(HttpError::RequestLine);
    };
    if method.is_empty() || method.len() > LONGEST_METHOD {
        return Err(HttpError::RequestLine);
    }
    let version = match version {
        "HTTP/1.0" => Version::Http10,
        "HTTP/1.1" => Version::Http11,
        _ => return Err(HttpError::Version),
    };
    Ok((method, Target::parse(method, target)?, version))
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
