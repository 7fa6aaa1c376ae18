//! What a client says first: a TLS hello, the head of an HTTP request, or something else.

use std::io;

use tokio::net::TcpStream;
use whatif_netpolicy::http::{self, Head, HttpError, HttpState};
use whatif_netpolicy::tls::{self, ClientHello, LONGEST_HELLO, TlsState};

#[derive(Debug)]
pub(crate) enum FirstBytes {
    Tls(Box<ClientHello>),
    Http(Box<Head>),
    /// Neither. HTTP/2 without TLS is among it: its requests cannot be told apart.
    Opaque,
    MalformedTls(String),
    MalformedHttp(HttpError),
    /// The client has said all it will say, and that is nothing.
    Nothing,
}

const _: () = assert!(LONGEST_HELLO == http::LONGEST_HEAD, "one buffer serves both");

/// Reads until it is clear what the bytes are. They stay in `buffer`, nothing is taken off, and `buffer` grows by no more than
/// the longest head. Safe to cancel: what was read is in `buffer`.
pub(crate) async fn read(client: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<FirstBytes> {
    loop {
        if let Some(first) = classify(buffer) {
            return Ok(first);
        }
        if read_some(client, buffer).await? == 0 {
            return Ok(at_the_end(buffer));
        }
    }
}

/// Appends what has arrived, within the limit that heads have. 0 at the end of the stream.
pub(crate) async fn read_some(client: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let start = buffer.len();
    let room = LONGEST_HELLO.saturating_sub(start).max(1);
    loop {
        client.readable().await?;
        buffer.resize(start + room.min(4096), 0);
        let outcome = client.try_read(&mut buffer[start..]);
        buffer.truncate(start + outcome.as_ref().copied().unwrap_or(0));
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

fn classify(buffer: &[u8]) -> Option<FirstBytes> {
    match tls::parse(buffer) {
        TlsState::NeedMore => None,
        TlsState::Hello(hello) => Some(FirstBytes::Tls(Box::new(hello))),
        TlsState::Malformed(error) => Some(FirstBytes::MalformedTls(error.to_string())),
        TlsState::NotTls => match http::parse(buffer) {
            HttpState::NeedMore => None,
            HttpState::Head(head) => Some(FirstBytes::Http(head)),
            HttpState::Http2 | HttpState::NotHttp => Some(FirstBytes::Opaque),
            HttpState::Malformed(error) => Some(FirstBytes::MalformedHttp(error)),
        },
    }
}

/// Nothing more will come, so what could have become HTTP is only that if a server could take it for a request as it stands.
fn at_the_end(buffer: &[u8]) -> FirstBytes {
    if buffer.is_empty() {
        return FirstBytes::Nothing;
    }
    match tls::parse(buffer) {
        TlsState::NotTls => match http::parse(&[buffer, b" \n"].concat()) {
            HttpState::NotHttp => FirstBytes::Opaque,
            HttpState::Malformed(error) => FirstBytes::MalformedHttp(error),
            _ => FirstBytes::MalformedHttp(HttpError::RequestLine),
        },
        _ => FirstBytes::MalformedTls("the hello breaks off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_off_is_opaque_only_if_no_server_takes_it_for_a_request() {
        let end = |text: &[u8]| at_the_end(text);
        assert!(matches!(end(b""), FirstBytes::Nothing));
        assert!(matches!(end(b"hi"), FirstBytes::Opaque));
        assert!(matches!(end(b"hello there"), FirstBytes::Opaque));
        assert!(matches!(end(b"GET / HTTP/1.0"), FirstBytes::MalformedHttp(_)));
        assert!(matches!(end(b"GET / HTTP/1.1\r\nHost: a"), FirstBytes::MalformedHttp(_)));
        assert!(matches!(end(b"\x16\x03\x01"), FirstBytes::MalformedTls(_)));
    }

    #[test]
    fn beginnings_are_told_apart() {
        assert!(classify(b"GE").is_none());
        assert!(classify(b"\x16\x03\x01\x00").is_none());
        assert!(matches!(classify(b"SSH-2.0-x\r\n"), Some(FirstBytes::Opaque)));
        assert!(matches!(classify(b"\0\0\0\x08"), Some(FirstBytes::Opaque)));
        assert!(matches!(classify(b"GET / HTTP/1.1\r\nHost: a.b\r\n\r\n"), Some(FirstBytes::Http(_))));
        assert!(matches!(classify(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(FirstBytes::Opaque)));
        assert!(matches!(classify(b"GET / HTTP/1.1\nHost: a.b\n\n"), Some(FirstBytes::MalformedHttp(_))));
    }
}
