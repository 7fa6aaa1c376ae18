//! `GET http://host/path`: one request, made anew as a server expects it. The answer closes the connection, so that the next
//! request, which may be for another host, comes on one of its own.

use whatif_netpolicy::http::{Head, HttpState, parse};
use whatif_netpolicy::{Host, Request};
use whatif_types::network::Protocol;

use crate::connection::{Connection, Stop};
use crate::verdict::judge;

/// To the end of the connection. The buffer begins with the head.
pub(super) async fn run(mut connection: Connection<'_>, head: Head) {
    if let Err(stop) = go(&mut connection, head).await {
        connection.stop(stop).await;
    }
}

async fn go(connection: &mut Connection<'_>, head: Head) -> Result<(), Stop> {
    let because = connection.permit().await?;
    if let Host::Name(_) = connection.host {
        let request = Request::Http { target: &connection.host, port: connection.port, head: &head };
        let policy = connection.supervisor.rules.policy();
        judge(&policy, &request).map_err(|denial| Stop::Denied { denial, protocol: Protocol::Http })?;
    }
    let server = connection.dial().await?;
    let rest = connection.buffer.split_off(head.length);
    let rewritten = rewrite(&connection.buffer).ok_or(Stop::Gone)?;
    connection.buffer = [rewritten, rest].concat();
    // What goes out is judged as it goes out.
    let HttpState::Head(head) = parse(&connection.buffer) else { return Err(Stop::Gone) };
    connection.carry_one_request(because, *head, server).await
}

/// The same request in origin form, without what was meant for the proxy.
fn rewrite(head: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(head);
    let lossless;
    let text = match text {
        Ok(text) => text,
        // Values may hold bytes beyond ASCII; each is one character of Latin-1 on the way in and out.
        Err(_) => {
            lossless = head.iter().map(|byte| char::from(*byte)).collect::<String>();
            return rewrite_text(&lossless).map(|text| text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect());
        }
    };
    rewrite_text(text).map(String::into_bytes)
}

fn rewrite_text(head: &str) -> Option<String> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let rest = target.split_once("://")?.1;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut rewritten = format!("{method} {path} {version}\r\n");
    let mut has_host = false;
    for line in lines.take_while(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or_default();
        if is_for_proxy(name) {
            continue;
        }
        has_host |= name.eq_ignore_ascii_case("host");
        rewritten.push_str(line);
        rewritten.push_str("\r\n");
    }
    if !has_host {
        rewritten.push_str(&format!("Host: {authority}\r\n"));
    }
    rewritten.push_str("Connection: close\r\n\r\n");
    Some(rewritten)
}

/// Fields between client and proxy.
fn is_for_proxy(name: &str) -> bool {
    ["connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "upgrade", "http2-settings"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_a_proxy_becomes_one_to_a_server() {
        let rewritten = rewrite(
            b"GET http://a.example:8080/x?y=z HTTP/1.1\r\nHost: a.example:8080\r\nProxy-Connection: keep-alive\r\n\
              proxy-authorization: Basic eA==\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n",
        );
        let expected = "GET /x?y=z HTTP/1.1\r\nHost: a.example:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(rewritten.unwrap()).unwrap(), expected);
        let bare = rewrite(b"GET http://a.example?q HTTP/1.0\r\nX: \xff\r\n\r\n").unwrap();
        assert_eq!(bare, b"GET /?q HTTP/1.0\r\nX: \xff\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    }
}
