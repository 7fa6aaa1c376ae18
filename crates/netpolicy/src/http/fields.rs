//! The fields of a head that decide where it goes and where it ends.

use super::target::Target;
use super::{Body, HttpError, MOST_FIELDS, Upgrade, Version, is_token_byte};
use crate::authority::Authority;

/// Longer numbers do not fit 64 bits with room to spare.
const LONGEST_LENGTH: usize = 18;

#[derive(Debug, Default)]
pub(super) struct Fields {
    count: usize,
    host: Option<Authority>,
    length: Option<u64>,
    is_chunked: bool,
    upgrade: Option<Upgrade>,
}

impl Fields {
    pub(super) fn add(&mut self, line: &[u8]) -> Result<(), HttpError> {
        self.count += 1;
        if self.count > MOST_FIELDS {
            return Err(HttpError::TooManyFields);
        }
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(HttpError::Folded);
        }
        let colon = line.iter().position(|byte| *byte == b':').ok_or(HttpError::FieldName)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if name.is_empty() || !name.iter().all(|byte| is_token_byte(*byte)) {
            return Err(HttpError::FieldName);
        }
        if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(HttpError::FieldValue);
        }
        let value = trim(value);
        match name.to_ascii_lowercase().as_slice() {
            b"host" => self.set_host(value),
            b"content-length" => self.set_length(value),
            b"transfer-encoding" => self.set_encoding(value),
            b"expect" => Err(HttpError::Expect),
            b"upgrade" => {
                self.set_upgrade(value);
                Ok(())
            }
            // The settings that turn a stream into HTTP/2 if the server agrees.
            b"http2-settings" => {
                self.upgrade = Some(Upgrade::Other);
                Ok(())
            }
            // Gateways that hand fields on as variables cannot tell these from the real ones.
            other if is_look_alike(other) => Err(HttpError::LookAlike),
            _ => Ok(()),
        }
    }

    fn set_host(&mut self, value: &[u8]) -> Result<(), HttpError> {
        if self.host.is_some() {
            return Err(HttpError::SeveralHosts);
        }
        // What is not text holds a byte that no host has, and stays one that no host has.
        self.host = Some(Authority::parse(&String::from_utf8_lossy(value))?);
        Ok(())
    }

    fn set_length(&mut self, value: &[u8]) -> Result<(), HttpError> {
        if self.length.is_some() {
            return Err(HttpError::SeveralLengths);
        }
        let plain = (1..=LONGEST_LENGTH).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(value).ok().filter(|_| plain).and_then(|text| text.parse().ok());
        self.length = Some(number.ok_or(HttpError::Length)?);
        Ok(())
    }

    fn set_encoding(&mut self, value: &[u8]) -> Result<(), HttpError> {
        if self.is_chunked {
            return Err(HttpError::SeveralEncodings);
        }
        self.is_chunked = value.eq_ignore_ascii_case(b"chunked");
        if self.is_chunked { Ok(()) } else { Err(HttpError::Encoding) }
    }

    fn set_upgrade(&mut self, value: &[u8]) {
        let is_first = self.upgrade.is_none();
        self.upgrade = Some(if is_first && value.eq_ignore_ascii_case(b"websocket") { Upgrade::WebSocket } else { Upgrade::Other });
    }

    pub(super) fn host(&self, target: &Target, version: Version) -> Result<Option<Authority>, HttpError> {
        match (&self.host, target.authority()) {
            (None, _) if version == Version::Http11 => Err(HttpError::NoHost),
            (Some(host), Some(authority)) if !is_same(host, authority) => Err(HttpError::HostDiffers),
            (host, _) => Ok(host.clone()),
        }
    }

    pub(super) fn body(&self, method: &str, version: Version) -> Result<Body, HttpError> {
        if self.is_chunked && self.length.is_some() {
            return Err(HttpError::LengthAndEncoding);
        }
        if self.is_chunked && version == Version::Http10 {
            return Err(HttpError::Encoding);
        }
        // Some servers take such a body for the next request.
        let has_body = self.is_chunked || self.length.is_some_and(|length| length > 0);
        if has_body && matches!(method, "GET" | "HEAD" | "TRACE" | "CONNECT") {
            return Err(HttpError::UnexpectedBody);
        }
        match (method, self.length) {
            ("CONNECT", _) => Ok(Body::Tunnel),
            (_, Some(length)) => Ok(Body::Length(length)),
            _ if self.is_chunked => Ok(Body::Chunked),
            _ => Ok(Body::None),
        }
    }

    pub(super) fn upgrade(&self) -> Option<Upgrade> {
        self.upgrade
    }
}

/// A `Host` without a port suits a target with one: clients leave it out where they speak through a proxy.
fn is_same(host: &Authority, target: &Authority) -> bool {
    host.host == target.host
        && (host.port.is_none() || host.port == target.port || (host.port == Some(80) && target.port.is_none()))
}

fn is_look_alike(name: &[u8]) -> bool {
    let same = |known: &[u8]| {
        name.len() == known.len()
            && name.iter().zip(known).all(|(given, known)| given == known || (*known == b'-' && *given == b'_'))
    };
    same(b"content-length") || same(b"transfer-encoding")
}

fn trim(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = value.iter().position(is_text).unwrap_or(value.len());
    let end = value.iter().rposition(is_text).map_or(start, |last| last + 1);
    &value[start..end]
}
