//! What clients that speak HTTP are told, and how a connection ends so that they can read it.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use whatif_netpolicy::Host;
use whatif_netpolicy::http::HttpError;

use crate::relay;
use crate::verdict::{Denial, with_port};

pub(crate) const TUNNEL_OPEN: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// For the answer to be taken, and for the rest of what the client was saying.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST_DISCARDED: usize = 1 << 20;

pub(crate) fn denied(sandbox: &str, host: &Host, port: u16, denial: &Denial) -> Vec<u8> {
    let mut text = format!("whatif: this sandbox may not talk to {}: {}.\n", with_port(host, port), denial.because);
    if let Some(rule) = denial.hint.as_deref().and_then(|hint| hint.strip_prefix("--net allow=")) {
        text.push_str(&format!("To allow it, outside the sandbox: whatif net allow {sandbox} {rule}\n"));
    }
    response("403 Forbidden", &text)
}

pub(crate) fn failed(host: &Host, port: u16, because: &str) -> Vec<u8> {
    response("502 Bad Gateway", &format!("whatif: {} cannot be reached: {because}.\n", with_port(host, port)))
}

pub(crate) fn malformed(error: &HttpError) -> Vec<u8> {
    match error {
        // Clients that wait before they send a body try again without waiting.
        HttpError::Expect => response("417 Expectation Failed", "whatif: send the body without waiting.\n"),
        HttpError::TooLong | HttpError::TooManyFields => {
            response("431 Request Header Fields Too Large", &format!("whatif: {error}.\n"))
        }
        other => response("400 Bad Request", &format!("whatif: the request is not relayed because {other}.\n")),
    }
}

/// For whoever opens the proxy's own address in a browser.
pub(crate) fn not_a_site() -> Vec<u8> {
    response("400 Bad Request", "whatif: this is the way out of a sandbox, a proxy for HTTP and SOCKS 5.\n")
}

fn response(status: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}"
    )
    .into_bytes()
}

/// Sends a last answer. To close at once would be a reset to a client that is still sending, and the answer would be lost.
pub(crate) async fn close_with(client: &TcpStream, answer: &[u8]) {
    let farewell = async {
        relay::send_all(client, answer).await?;
        relay::pass_end_on(client)?;
        relay::end_well(client);
        let mut discarded = 0;
        let mut scratch = vec![0; 4096];
        while discarded < MOST_DISCARDED {
            client.readable().await?;
            match client.try_read(&mut scratch) {
                Ok(0) => break,
                Ok(count) => discarded += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok::<(), io::Error>(())
    };
    let _ = timeout(PATIENCE, farewell).await;
}
