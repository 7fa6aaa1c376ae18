//! Plain HTTP: every request is judged.

use std::io::{Read, Write};
use std::net::Shutdown;

use whatif_types::network::{EventKind, Protocol};

use super::servers::Server;
use super::world::{PUBLIC, World, allowing, in_world, read_all};

fn get(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// Sends all of it at once and reads to the end.
fn exchange(world: &World, name: &str, port: u16, request: &str) -> String {
    let mut client = world.connect(name, port);
    client.write_all(request.as_bytes()).unwrap();
    let _ = client.shutdown(Shutdown::Write);
    String::from_utf8_lossy(&read_all(&mut client).0).into_owned()
}

#[test]
fn requests_to_the_same_host_share_a_connection() {
    in_world("http::requests_to_the_same_host_share_a_connection", allowing(&["a.test:80"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::web(PUBLIC, 80);
        let mut client = world.connect("a.test", 80);
        for path in ["/one", "/two", "/three"] {
            client.write_all(get("a.test", path).as_bytes()).unwrap();
            let mut answer = [0; 43];
            client.read_exact(&mut answer).unwrap();
            assert!(answer.ends_with(b"HELLO"));
        }
        assert_eq!(server.connections(), 1);
        assert_eq!(world.event("a.test", EventKind::Connect).protocol, Protocol::Http);
    });
}

#[test]
fn a_second_request_to_another_host_is_denied_whether_it_waits_or_not() {
    in_world("http::a_second_request_to_another_host_is_denied_whether_it_waits_or_not", allowing(&["a.test:80"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::web(PUBLIC, 80);
        let pipelined = get("a.test", "/ok") + &get("b.test", "/secret");
        let answers = exchange(world, "a.test", 80, &pipelined);
        assert!(answers.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHELLOHTTP/1.1 403 "), "{answers}");
        let mut client = world.connect("a.test", 80);
        client.write_all(get("a.test", "/ok").as_bytes()).unwrap();
        client.read_exact(&mut [0; 43]).unwrap();
        client.write_all(get("b.test", "/secret").as_bytes()).unwrap();
        let answer = String::from_utf8(read_all(&mut client).0).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("the request on it for b.test"), "{answer}");
        assert!(server.text().contains("/ok") && !server.text().contains("/secret"), "{}", server.text());
        let denied = world.connections_to("a.test").into_iter().filter(|event| event.kind == EventKind::Request).count();
        assert_eq!(denied, 2);
    });
}

#[test]
fn a_denied_request_is_answered_with_what_would_allow_it() {
    in_world("http::a_denied_request_is_answered_with_what_would_allow_it", allowing(&["a.test:80"]), |world| {
        let answer = exchange(world, "b.test", 80, &get("b.test", "/"));
        assert_eq!(world.connections_to("b.test").len(), 1, "it was told before it was recorded");
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        assert!(answer.contains("no rule allows b.test:80") && answer.contains("whatif net allow tested b.test"), "{answer}");
        let answer = exchange(world, "b.test", 8080, &get("b.test:8080", "/"));
        assert!(answer.contains("whatif net allow tested b.test:8080"), "{answer}");
    });
}

#[test]
fn rules_for_paths_hold_for_each_request() {
    in_world("http::rules_for_paths_hold_for_each_request", allowing(&["http+get://a.test/pub"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::web(PUBLIC, 80);
        assert!(exchange(world, "a.test", 80, &get("a.test", "/pub/x")).contains("HELLO"));
        for path in ["/", "/private", "/pub/../private", "/pub/%2e%2e/private"] {
            assert!(exchange(world, "a.test", 80, &get("a.test", path)).contains(" 403 "), "{path}");
        }
        let post = "POST /pub/x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n";
        assert!(exchange(world, "a.test", 80, post).contains(" 403 "));
        let second = get("a.test", "/pub/x") + &get("a.test", "/private");
        assert!(exchange(world, "a.test", 80, &second).contains(" 403 "));
        assert!(!server.text().contains("private") && !server.text().contains("POST"), "{}", server.text());
    });
}

#[test]
fn what_servers_read_differently_is_not_relayed() {
    in_world("http::what_servers_read_differently_is_not_relayed", allowing(&["a.test:80", "a.test:8080"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let servers = [Server::web(PUBLIC, 80), Server::web(PUBLIC, 8080)];
        for bad in [
            "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            "GET / HTTP/1.1\nHost: a.test\n\n",
            "GET / HTTP/1.1\r\nHost: a.test\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n",
            "GET / HTTP/3.0\r\nHost: a.test\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.test",
        ] {
            for port in [80, 8080] {
                assert!(exchange(world, "a.test", port, bad).starts_with("HTTP/1.1 400 "), "{bad:?} on {port}");
            }
        }
        let waiting = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
        assert!(exchange(world, "a.test", 80, waiting).starts_with("HTTP/1.1 417 "));
        assert!(servers.iter().all(|server| server.received().is_empty()));
    });
}

#[test]
fn bodies_pass_and_what_follows_them_is_judged() {
    in_world("http::bodies_pass_and_what_follows_them_is_judged", allowing(&["a.test:80"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::web(PUBLIC, 80);
        let post = |head: &str, body: &str| format!("POST /p HTTP/1.1\r\nHost: a.test\r\n{head}\r\n\r\n{body}");
        let long = "x".repeat(100_000);
        let counted = post("Content-Length: 100000", &long) + &get("b.test", "/after-count");
        assert!(exchange(world, "a.test", 80, &counted).contains(" 403 "));
        let chunked = post("Transfer-Encoding: chunked", "5\r\nGET /\r\n3\r\nabc\r\n0\r\n\r\n") + &get("b.test", "/after-chunks");
        assert!(exchange(world, "a.test", 80, &chunked).contains(" 403 "));
        let trailer = post("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\nX: y\r\n\r\n") + &get("b.test", "/after-trailer");
        assert!(exchange(world, "a.test", 80, &trailer).contains(" 400 "));
        let text = server.text();
        assert!(text.contains(&long) && text.contains("GET /\r\n3"), "the bodies did not arrive");
        assert!(!text.contains("/after"), "{}", &text[text.len() - 300..]);
    });
}

#[test]
fn a_web_socket_is_one_only_after_the_server_has_agreed() {
    in_world("http::a_web_socket_is_one_only_after_the_server_has_agreed", allowing(&["a.test:80", "b.test:80"]), |world| {
        world.hosts(&[("a.test", PUBLIC), ("b.test", "25.64.113.6")]);
        let agrees = Server::start(PUBLIC, 80, |server, mut stream| {
            let mut answered = false;
            server.each_part(&stream.try_clone().unwrap(), |part| {
                if !answered {
                    answered = true;
                    stream.write_all(b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n").unwrap();
                } else {
                    stream.write_all(part).unwrap();
                }
            });
        });
        let refuses = Server::web("25.64.113.6", 80);
        let ask = |host: &str| format!("GET /chat HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        let mut client = world.connect("a.test", 80);
        client.write_all(ask("a.test").as_bytes()).unwrap();
        client.read_exact(&mut [0; 58]).unwrap();
        client.write_all(b"\x81\x05frame").unwrap();
        let mut frame = [0; 7];
        client.read_exact(&mut frame).unwrap();
        assert_eq!(&frame, b"\x81\x05frame");
        drop(client);
        let hidden = ask("b.test") + &get("c.test", "/hidden");
        assert!(exchange(world, "b.test", 80, &hidden).contains(" 403 "));
        let late = get("b.test", "/") + &ask("b.test");
        assert!(exchange(world, "b.test", 80, &late).contains(" 403 "));
        assert!(!refuses.text().contains("/hidden"), "{}", refuses.text());
        assert_eq!(agrees.connections(), 1);
    });
}
