//! What the relay itself says to a client, instead of the server.

use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// A request that does not go on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }
}

/// The last answer on a connection. Errors do not matter any more: the client may be gone.
pub(crate) async fn send<W: AsyncWrite + Unpin>(client: &mut W, refusal: &Refusal, is_head: bool) -> u64 {
    let response = compose(refusal, is_head);
    let outcome = async {
        client.write_all(&response).await?;
        client.flush().await
    };
    outcome.await.map_or(0, |()| u64::try_from(response.len()).unwrap_or(u64::MAX))
}

fn compose(refusal: &Refusal, is_head: bool) -> Vec<u8> {
    let reason = match refusal.status {
        400 => "Bad Request",
        403 => "Forbidden",
        405 => "Method Not Allowed",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        _ => "Bad Gateway",
    };
    let body = format!("whatif: {}\n", refusal.text);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
        refusal.status
    );
    if is_head { head.into_bytes() } else { (head + &body).into_bytes() }
}
