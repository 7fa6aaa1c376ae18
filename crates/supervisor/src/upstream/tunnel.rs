//! Asks an HTTP proxy for a tunnel.

use std::io;

use tokio::net::TcpStream;
use whatif_netpolicy::Host;

use crate::relay::send_all;
use crate::verdict::with_port;

/// What a proxy may say before the tunnel begins.
const LONGEST_ANSWER: usize = 8 << 10;

pub(super) async fn ask(stream: &TcpStream, basic: Option<&str>, host: &Host, port: u16) -> io::Result<()> {
    let authority = with_port(host, port);
    let credentials = basic.map_or(String::new(), |basic| format!("Proxy-Authorization: Basic {basic}\r\n"));
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n");
    send_all(stream, request.as_bytes()).await?;
    let head = read_head(stream).await?;
    let status = head.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5)).unwrap_or_default();
    if status.starts_with(b"2") {
        return Ok(());
    }
    Err(io::Error::other(format!("the proxy answers {}", String::from_utf8_lossy(status))))
}

/// Up to the empty line and not a byte further: what follows is the tunnel's.
async fn read_head(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut peeked = [0_u8; 1024];
    while head.len() < LONGEST_ANSWER {
        let count = stream.peek(&mut peeked).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let before = head.len();
        head.extend_from_slice(&peeked[..count]);
        let end = head.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        head.truncate(end.unwrap_or(head.len()));
        let taken = head.len() - before;
        take(stream, &mut peeked[..taken]).await?;
        if end.is_some() {
            return Ok(head);
        }
    }
    Err(io::Error::other("the proxy's answer is too long"))
}

async fn take(stream: &TcpStream, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        stream.readable().await?;
        match stream.try_read(into) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => into = &mut into[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `%40` and the like, as they stand in a URL. What is no escape stays.
pub(super) fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = (number >> (18 - 6 * digit)) & 63;
            text.push(if digit > group.len() { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_written_in_base_64() {
        for (plain, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), expected);
        }
        assert_eq!(unescaped("a%40b%zz%4"), b"a@b%zz%4");
    }
}
