//! The first message of a TLS client, read for the name it asks for.
//!
//! The message may be spread over several records, and each record may arrive in pieces. Nothing is decrypted; the bytes are
//! relayed as they came, so a name in a form that servers might read differently is refused.

use crate::HostName;
use crate::host::HostError;
use crate::reader::Reader;

/// Records and their headers included. Hellos with post-quantum keys take about two KiB.
pub const LONGEST_HELLO: usize = 16 * 1024;
const LONGEST_RECORD: usize = 1 << 14;
const MOST_EXTENSIONS: usize = 64;
const MOST_PROTOCOLS: usize = 32;

const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const HANDSHAKE_HEADER: usize = 4;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const HOST_NAME: u8 = 0;

/// What a growing buffer holds so far. More bytes turn `NeedMore` into something else and change nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsState {
    NeedMore,
    Hello(ClientHello),
    NotTls,
    Malformed(TlsError),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    pub sni: Option<HostName>,
    /// Protocols offered, as sent.
    pub alpn: Vec<Vec<u8>>,
    /// A second, encrypted hello is inside, which may ask for another name than `sni` does; or it is only there for show.
    pub has_ech: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error("the hello is longer than {LONGEST_HELLO} bytes")]
    TooLong,
    #[error("a record is malformed")]
    Record,
    #[error("the first message is not a client's hello")]
    NotClientHello,
    #[error("something follows the hello in its record")]
    Trailing,
    #[error("a length inside the hello does not fit")]
    Length,
    #[error("the hello has more than {MOST_EXTENSIONS} extensions")]
    TooManyExtensions,
    #[error("an extension occurs twice")]
    Duplicate,
    #[error("the server name is not exactly one host name")]
    NameList,
    #[error("the server name ends in a dot")]
    TrailingDot,
    #[error("the server name is malformed: {0}")]
    Name(#[from] HostError),
    #[error("the list of protocols is malformed")]
    Alpn,
}

/// Reads a hello from the beginning of `buffer`.
#[must_use]
pub fn parse(buffer: &[u8]) -> TlsState {
    match buffer {
        [] | [HANDSHAKE_RECORD] => return TlsState::NeedMore,
        [HANDSHAKE_RECORD, 3, ..] => {}
        _ => return TlsState::NotTls,
    }
    let within = &buffer[..buffer.len().min(LONGEST_HELLO)];
    match gather(within).and_then(|message| message.map(|body| parse_hello(&body).ok_or(TlsError::Length)?).transpose()) {
        Ok(Some(hello)) => TlsState::Hello(hello),
        Ok(None) if buffer.len() >= LONGEST_HELLO => TlsState::Malformed(TlsError::TooLong),
        Ok(None) => TlsState::NeedMore,
        Err(error) => TlsState::Malformed(error),
    }
}

/// Joins the fragments of the first handshake message; its body once it is whole.
fn gather(buffer: &[u8]) -> Result<Option<Vec<u8>>, TlsError> {
    let mut records = Reader::new(buffer);
    let mut message = Vec::new();
    loop {
        let Some([kind, major, minor, high, low]) = records.array() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        // An empty record carries nothing and could be sent for ever.
        if kind != HANDSHAKE_RECORD || major != 3 || minor > 4 || length == 0 || length > LONGEST_RECORD {
            return Err(TlsError::Record);
        }
        let announced = message.len() + length;
        let present = length.min(records.rest().len());
        message.extend_from_slice(records.take(present).unwrap_or_default());
        if let Some(total) = message_length(&message)? {
            if announced > total {
                return Err(TlsError::Trailing);
            }
            if message.len() == total {
                message.drain(..HANDSHAKE_HEADER);
                return Ok(Some(message));
            }
        }
        if present < length {
            return Ok(None);
        }
    }
}

/// How long the message is with its header, once that is there.
fn message_length(message: &[u8]) -> Result<Option<usize>, TlsError> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(TlsError::NotClientHello);
    }
    let &[_, high, middle, low, ..] = message else { return Ok(None) };
    let total = HANDSHAKE_HEADER + (usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low));
    if total > LONGEST_HELLO { Err(TlsError::TooLong) } else { Ok(Some(total)) }
}

/// `None` where a length reaches past its container.
fn parse_hello(body: &[u8]) -> Option<Result<ClientHello, TlsError>> {
    let mut reader = Reader::new(body);
    // The version, which no longer says anything, and random bytes.
    reader.take(2 + 32)?;
    let session = reader.vector8()?;
    let suites = reader.vector16()?;
    let compressions = reader.vector8()?;
    if session.len() > 32 || suites.is_empty() || suites.len() % 2 != 0 || compressions.is_empty() {
        return None;
    }
    // Before extensions there was nothing more.
    if reader.is_empty() {
        return Some(Ok(ClientHello::default()));
    }
    let extensions = reader.vector16()?;
    if !reader.is_empty() {
        return None;
    }
    parse_extensions(extensions)
}

fn parse_extensions(bytes: &[u8]) -> Option<Result<ClientHello, TlsError>> {
    let mut reader = Reader::new(bytes);
    let mut hello = ClientHello::default();
    let mut seen = Vec::new();
    while !reader.is_empty() {
        let kind = reader.u16()?;
        let content = reader.vector16()?;
        if seen.contains(&kind) {
            return Some(Err(TlsError::Duplicate));
        }
        if seen.len() == MOST_EXTENSIONS {
            return Some(Err(TlsError::TooManyExtensions));
        }
        seen.push(kind);
        let outcome = match kind {
            SERVER_NAME => parse_server_name(content).map(|name| hello.sni = Some(name)),
            ALPN => parse_alpn(content).ok_or(TlsError::Alpn).map(|protocols| hello.alpn = protocols),
            _ => Ok(()),
        };
        if let Err(error) = outcome {
            return Some(Err(error));
        }
        hello.has_ech |= is_encrypted_hello(kind);
    }
    Some(Ok(hello))
}

fn parse_server_name(content: &[u8]) -> Result<HostName, TlsError> {
    let mut outer = Reader::new(content);
    let list = outer.vector16().filter(|_| outer.is_empty()).ok_or(TlsError::NameList)?;
    let mut entries = Reader::new(list);
    let name = match entries.u8() {
        Some(HOST_NAME) => entries.vector16().filter(|_| entries.is_empty()).ok_or(TlsError::NameList)?,
        _ => return Err(TlsError::NameList),
    };
    // RFC 6066 has no trailing dot; a server that sees one may pick another site.
    if name.ends_with(b".") {
        return Err(TlsError::TrailingDot);
    }
    Ok(HostName::parse(name)?)
}

fn parse_alpn(content: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut outer = Reader::new(content);
    let mut list = Reader::new(outer.vector16().filter(|_| outer.is_empty())?);
    let mut protocols = Vec::new();
    while !list.is_empty() {
        let protocol = list.vector8()?;
        if protocol.is_empty() || protocols.len() == MOST_PROTOCOLS {
            return None;
        }
        protocols.push(protocol.to_vec());
    }
    (!protocols.is_empty()).then_some(protocols)
}

/// Encrypted hellos, the list of extensions they borrow from the outer one, their drafts, and the encrypted name before them.
fn is_encrypted_hello(extension: u16) -> bool {
    matches!(extension, 0xfe08..=0xfe0d | 0xfd00 | 0xffce)
}

#[cfg(test)]
mod tests;
