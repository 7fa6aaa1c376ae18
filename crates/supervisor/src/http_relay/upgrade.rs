//! From HTTP to a WebSocket, once the server has agreed. Until then nothing of the client's is passed on: it would be read as a
//! request that nobody has judged.

use std::io;
use std::time::Duration;

use std::sync::atomic::Ordering;
use tokio::time::timeout;
use whatif_netpolicy::http::LONGEST_HEAD;
use whatif_netpolicy::http::{Body, Head};

use super::{HttpEnd, Parties, forward};
use crate::first_bytes::read_some;
use crate::relay::send_all;
use crate::verdict::Denial;

const PATIENCE: Duration = Duration::from_secs(60);

/// Sends the first request, which asks for it. True if from now on the stream is no longer HTTP; then all that was read is
/// passed on.
pub(super) async fn offer(parties: Parties<'_>, head: &Head, buffer: &mut Vec<u8>) -> Result<bool, HttpEnd> {
    if head.body != Body::None {
        return Err(HttpEnd::Denied(Denial::plain("a request that changes the protocol has no body")));
    }
    forward(parties, buffer, head.length).await?;
    let answer = timeout(PATIENCE, response_head(parties)).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let is_agreed = status(&answer) == Some(101);
    send_all(parties.client, &answer).await?;
    parties.traffic.received.fetch_add(answer.len() as u64, Ordering::Relaxed);
    if is_agreed {
        let rest = buffer.len();
        forward(parties, buffer, rest).await?;
    }
    Ok(is_agreed)
}

/// The head of the server's answer, and what came along with it. Answers in between (103 and the like) are passed on.
async fn response_head(parties: Parties<'_>) -> Result<Vec<u8>, HttpEnd> {
    let mut answer = Vec::new();
    loop {
        while let Some(end) = end_of_head(&answer) {
            match status(&answer) {
                Some(code) if (100..200).contains(&code) && code != 101 => {
                    send_all(parties.client, &answer[..end]).await?;
                    parties.traffic.received.fetch_add(end as u64, Ordering::Relaxed);
                    answer.drain(..end);
                }
                _ => return Ok(answer),
            }
        }
        if answer.len() >= LONGEST_HEAD || read_some(parties.server, &mut answer).await? == 0 {
            return Ok(answer);
        }
    }
}

fn end_of_head(answer: &[u8]) -> Option<usize> {
    answer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Only of an answer that every client reads alike.
fn status(answer: &[u8]) -> Option<u16> {
    end_of_head(answer)?;
    let rest = answer.strip_prefix(b"HTTP/1.1 ")?;
    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    match rest.get(3) {
        Some(b' ' | b'\r') => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_101_changes_the_protocol() {
        assert_eq!(status(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), Some(101));
        assert_eq!(status(b"HTTP/1.1 101\r\n\r\n"), Some(101));
        assert_eq!(status(b"HTTP/1.1 200 OK\r\n\r\n"), Some(200));
        for text in [
            "HTTP/1.1 1010 x\r\n\r\n",
            "HTTP/1.0 101 x\r\n\r\n",
            "HTTP/1.1 101 x\r\n",
            " HTTP/1.1 101 x\r\n\r\n",
            "HTTP/1.1 +1 x\r\n\r\n",
        ] {
            assert_ne!(status(text.as_bytes()), Some(101), "{text}");
        }
    }
}
