//! Plain HTTP: every request is judged.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use whatif_types::network::{EventKind, Protocol};

use super::servers::Server;
use super::world::{PUBLIC, World, allowing, in_world, read_all, until_reset};

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

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHELLO";

/// The same, and the end has to be a reset.
fn exchange_until_reset(world: &World, name: &str, port: u16, request: &str) -> String {
    let address = SocketAddr::new(world.resolve(name).into(), port);
    String::from_utf8(until_reset(world.try_to_connect(address), request.as_bytes())).unwrap()
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
        assert_eq!(exchange_until_reset(world, "a.test", 80, &pipelined), HELLO);
        let mut client = world.connect("a.test", 80);
        client.write_all(get("a.test", "/ok").as_bytes()).unwrap();
        client.read_exact(&mut [0; 43]).unwrap();
        assert_eq!(until_reset(Ok(client), get("b.test", "/secret").as_bytes()), b"");
        assert!(server.text().contains("/ok") && !server.text().contains("/secret"), "{}", server.text());
        let mut denied = world.connections_to("a.test");
        denied.retain(|event| event.kind == EventKind::Request);
        assert_eq!(denied.len(), 2);
        assert!(denied.iter().all(|event| !event.allowed && event.because.contains("the request on it for b.test")), "{denied:?}");
    });
}

#[test]
fn a_denied_request_gets_no_page_and_what_would_allow_it_is_recorded() {
    in_world("http::a_denied_request_gets_no_page_and_what_would_allow_it_is_recorded", allowing(&["a.test:80"]), |world| {
        for (port, host) in [(80, "b.test"), (8080, "c.test")] {
            assert_eq!(exchange_until_reset(world, host, port, &get(&format!("{host}:{port}"), "/")), "");
            let [event] = &world.connections_to(host)[..] else { panic!("it was told before it was recorded") };
            assert!(!event.allowed && event.because.contains(&format!("no rule allows {host}:{port}")), "{event:?}");
            assert_eq!(event.hint, Some(format!("--net allow={host}:{port}")));
        }
    });
}

/// Enough to fill what the kernel holds for a client that is in no hurry.
#[test]
fn a_long_answer_arrives_whole_before_the_reset() {
    in_world("http::a_long_answer_arrives_whole_before_the_reset", allowing(&["a.test:80"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let long = "x".repeat(3 << 20);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", long.len());
        let answer = head + &long;
        let theirs = answer.clone();
        let server = Server::start(PUBLIC, 80, move |server, stream| {
            let mut is_answered = false;
            server.each_part(&stream, |_| {
                if !std::mem::replace(&mut is_answered, true) {
                    let _ = (&stream).write_all(theirs.as_bytes());
                }
            });
        });
        for pause in [0, 300, 700] {
            let mut client = world.connect("a.test", 80);
            client.write_all((get("a.test", "/long") + &get("b.test", "/secret")).as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(pause));
            let (bytes, end) = read_all(&mut client);
            assert_eq!(bytes.len(), answer.len(), "after a pause of {pause} ms");
            assert!(bytes == answer.as_bytes());
            assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
        }
        assert!(!server.text().contains("/secret"), "{}", server.text());
    });
}

/// On other ports than 80 a server may greet.
#[test]
fn answers_arrive_whole_before_the_reset_if_the_server_has_spoken_first() {
    let name = "http::answers_arrive_whole_before_the_reset_if_the_server_has_spoken_first";
    in_world(name, allowing(&["a.test:8080"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::start(PUBLIC, 8080, |server, stream| {
            (&stream).write_all(b"greeting").unwrap();
            let mut is_answered = false;
            server.each_part(&stream, |_| {
                if !std::mem::replace(&mut is_answered, true) {
                    std::thread::sleep(Duration::from_millis(100));
                    let _ = (&stream).write_all(HELLO.as_bytes());
                }
            });
        });
        let mut client = world.connect("a.test", 8080);
        client.read_exact(&mut [0; 8]).unwrap();
        let pipelined = get("a.test:8080", "/ok") + &get("b.test:8080", "/secret");
        assert_eq!(String::from_utf8(until_reset(Ok(client), pipelined.as_bytes())).unwrap(), HELLO);
        assert!(server.text().contains("/ok") && !server.text().contains("/secret"), "{}", server.text());
    });
}

#[test]
fn rules_for_paths_hold_for_each_request() {
    in_world("http::rules_for_paths_hold_for_each_request", allowing(&["http+get://a.test/pub"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::web(PUBLIC, 80);
        assert!(exchange(world, "a.test", 80, &get("a.test", "/pub/x")).contains("HELLO"));
        for path in ["/", "/private", "/pub/../private", "/pub/%2e%2e/private"] {
            assert_eq!(exchange_until_reset(world, "a.test", 80, &get("a.test", path)), "", "{path}");
        }
        let post = "POST /pub/x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(exchange_until_reset(world, "a.test", 80, post), "");
        let second = get("a.test", "/pub/x") + &get("a.test", "/private");
        assert_eq!(exchange_until_reset(world, "a.test", 80, &second), HELLO);
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
        assert_eq!(exchange_until_reset(world, "a.test", 80, &counted), HELLO);
        let chunked = post("Transfer-Encoding: chunked", "5\r\nGET /\r\n3\r\nabc\r\n0\r\n\r\n") + &get("b.test", "/after-chunks");
        assert!(exchange_until_reset(world, "a.test", 80, &chunked).starts_with(HELLO));
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
        assert_eq!(exchange_until_reset(world, "b.test", 80, &hidden), HELLO);
        let late = get("b.test", "/") + &ask("b.test");
        assert_eq!(exchange_until_reset(world, "b.test", 80, &late), HELLO);
        assert!(!refuses.text().contains("/hidden"), "{}", refuses.text());
        assert_eq!(agrees.connections(), 1);
    });
}
