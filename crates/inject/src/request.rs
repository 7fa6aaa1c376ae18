//! Reads what a client asks for.

use whatif_netpolicy::http::{self, Body, Head, HttpError, HttpState, LONGEST_HEAD, Target, Upgrade, Version};
use whatif_netpolicy::{Authority, Host};

use crate::answer::Refusal;
use crate::destination::Destination;

/// A request whose head is whole.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: Head,
    /// The head as it goes on, but with placeholders still in it.
    pub(crate) text: Vec<u8>,
    /// How many bytes of the buffer it took.
    pub(crate) taken: usize,
    /// The client holds its body back until it is told to go on.
    pub(crate) waits: bool,
}

/// Reads a request from the beginning of `buffer`; `None` while its head is not whole.
pub(crate) fn parse(buffer: &[u8]) -> Result<Option<Request>, Refusal> {
    match http::parse(buffer) {
        HttpState::NeedMore => Ok(None),
        HttpState::Head(head) => {
            let taken = head.length;
            Ok(Some(Request { head: *head, text: buffer[..taken].to_vec(), taken, waits: false }))
        }
        HttpState::Malformed(HttpError::Expect) => parse_expecting(buffer),
        HttpState::Malformed(HttpError::TooLong) => Err(Refusal::new(431, HttpError::TooLong.to_string())),
        HttpState::Malformed(error) => Err(Refusal::new(400, error.to_string())),
        HttpState::Http2 => Err(Refusal::new(400, "only HTTP/1.1 can be relayed with secrets, and this is HTTP/2")),
        HttpState::NotHttp => Err(Refusal::new(400, "this is not HTTP")),
    }
}

/// With `Expect: 100-continue` a body may or may not follow. It always does if the relay itself says "go on" and the server
/// never learns of it, so both sides agree where the request ends.
fn parse_expecting(buffer: &[u8]) -> Result<Option<Request>, Refusal> {
    let within = &buffer[..buffer.len().min(LONGEST_HEAD)];
    let Some(end) = within.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4) else {
        return if buffer.len() < LONGEST_HEAD { Ok(None) } else { Err(Refusal::new(431, HttpError::TooLong.to_string())) };
    };
    let unknown = || Refusal::new(417, "the request expects something else than 100-continue");
    let mut text = Vec::with_capacity(end);
    let mut found = false;
    for line in within[..end].split_inclusive(|byte| *byte == b'\n') {
        if !found && is_expectation(line) {
            found = true;
        } else {
            text.extend_from_slice(line);
        }
    }
    match http::parse(&text) {
        HttpState::Head(head) if found && head.length == text.len() => {
            let waits = head.version == Version::Http11 && !matches!(head.body, Body::None | Body::Length(0));
            Ok(Some(Request { head: *head, text, taken: end, waits }))
        }
        HttpState::Malformed(error) if error != HttpError::Expect => Err(Refusal::new(400, error.to_string())),
        _ => Err(unknown()),
    }
}

fn is_expectation(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return false };
    let (name, value) = line.split_at(colon);
    name.eq_ignore_ascii_case(b"expect") && value[1..].trim_ascii().eq_ignore_ascii_case(b"100-continue")
}

/// What no rule can allow on a connection that carries secrets.
pub(crate) fn check(head: &Head, to: &Destination) -> Result<(), Refusal> {
    if matches!(head.method.to_ascii_uppercase().as_str(), "TRACE" | "TRACK") {
        return Err(Refusal::new(405, "TRACE asks the server to repeat what it got, secrets included"));
    }
    if !matches!(head.target, Target::Origin { .. } | Target::Asterisk) {
        return Err(Refusal::new(400, "the request asks for a proxy, and this is the server's own connection"));
    }
    let bodiless = matches!(head.body, Body::None | Body::Length(0));
    match head.upgrade {
        Some(Upgrade::Other) => return Err(Refusal::new(400, "the request asks to change to another protocol than WebSocket")),
        Some(Upgrade::WebSocket) if !bodiless => return Err(Refusal::new(400, "the request for a WebSocket has a body")),
        _ => {}
    }
    match &head.host {
        Some(Authority { host: Host::Name(name), port }) if *name == to.host && port.is_none_or(|port| port == to.port) => Ok(()),
        Some(other) => Err(Refusal::new(421, format!("the connection is for {to}, the request on it for {other}"))),
        None => Err(Refusal::new(400, "the request names no host")),
    }
}

#[cfg(test)]
mod tests;
