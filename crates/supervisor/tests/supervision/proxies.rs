//! Clients that use the proxy, and the user's own proxy outside.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use whatif_types::network::{EventKind, UpstreamProxies};

use super::hello::hello;
use super::servers::Server;
use super::world::{PRIVATE, PUBLIC, Wish, World, allowing, in_world, read_all, until_reset};

fn ask(world: &World, question: &[u8], answer_length: usize) -> (TcpStream, Vec<u8>) {
    let mut client = world.connect_to_proxy();
    client.write_all(question).unwrap();
    let mut answer = vec![0; answer_length];
    client.read_exact(&mut answer).unwrap();
    (client, answer)
}

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

#[test]
fn a_tunnel_is_judged_like_any_connection() {
    in_world("proxies::a_tunnel_is_judged_like_any_connection", allowing(&["a.test:443", "127.0.0.1:443"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 443);
        let here = Server::echo("127.0.0.1", 443);
        let connect = b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n";
        let (mut client, answer) = ask(world, connect, ESTABLISHED.len());
        assert_eq!(answer, ESTABLISHED);
        client.write_all(&hello("a.test")).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut client).0, hello("a.test"));
        let (mut client, _) = ask(world, connect, ESTABLISHED.len());
        client.write_all(&hello("b.test")).unwrap();
        assert_eq!(read_all(&mut client).1, Some(std::io::ErrorKind::ConnectionReset));
        assert_eq!(server.received(), hello("a.test"));
        for denied in
            ["b.test:443", "a.test:22", "127.0.0.1:443", "[::1]:443", "0.0.0.0:443", "[::ffff:127.0.0.1]:443", "169.254.169.254:80"]
        {
            let question = format!("CONNECT {denied} HTTP/1.1\r\nHost: {denied}\r\n\r\n");
            assert_eq!(ask(world, question.as_bytes(), 13).1, b"HTTP/1.1 403 ", "{denied}");
        }
        let (mut client, _) = ask(world, b"CONNECT b.test:8080 HTTP/1.1\r\nHost: b.test:8080\r\n\r\n", 13);
        let page = String::from_utf8(read_all(&mut client).0).unwrap();
        assert!(page.contains("no rule allows b.test:8080") && page.contains("whatif net allow tested b.test:8080\n"), "{page}");
        for nonsense in ["127.1:443", "0x7f000001:443", "2130706433:443", "user@a.test:443", "a.test"] {
            let question = format!("CONNECT {nonsense} HTTP/1.1\r\nHost: a.test\r\n\r\n");
            assert_eq!(ask(world, question.as_bytes(), 13).1, b"HTTP/1.1 400 ", "{nonsense}");
        }
        assert_eq!(here.connections(), 0);
    });
}

#[test]
fn a_request_with_a_whole_url_is_made_anew_and_is_the_only_one() {
    let name = "proxies::a_request_with_a_whole_url_is_made_anew_and_is_the_only_one";
    in_world(name, allowing(&["a.test:80", "a.test:8080"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::web(PUBLIC, 80);
        let other = Server::web(PUBLIC, 8080);
        let mut client = world.connect_to_proxy();
        let request = "GET http://a.test/x?y HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n";
        client.write_all(&[request, &request.replace("/x", "/second")].concat().into_bytes()).unwrap();
        let answer = String::from_utf8(read_all(&mut client).0).unwrap();
        assert!(answer.ends_with("HELLO") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
        assert_eq!(server.text(), "GET /x?y HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        for denied in ["http://b.test/", "http://a.test:81/", "http://127.0.0.1/", "http://169.254.169.254/"] {
            let question = format!("GET {denied} HTTP/1.1\r\nHost: {}\r\n\r\n", &denied[7..denied.len() - 1]);
            assert_eq!(until_reset(Ok(world.connect_to_proxy()), question.as_bytes()), b"", "{denied}");
        }
        for (target, host) in [("http://a.test/", "b.test"), ("/", "a.test"), ("http://u@a.test/", "a.test")] {
            let question = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert!(ask(world, question.as_bytes(), 12).1.ends_with(b"400"), "{target} {host}");
        }
        assert_eq!(server.connections(), 1);
        let post = b"POST http://a.test:8080/p HTTP/1.1\r\nHost: a.test:8080\r\nContent-Length: 4\r\n\r\nbody";
        let (mut client, _) = ask(world, post, 12);
        assert!(read_all(&mut client).0.ends_with(b"HELLO"));
        assert!(other.text().starts_with("POST /p HTTP/1.1\r\n") && other.text().ends_with("body"));
    });
}

#[test]
fn socks_is_judged_like_any_connection() {
    in_world("proxies::socks_is_judged_like_any_connection", allowing(&["a.test:7", "10.1.2.3:7"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let _servers = [Server::echo(PUBLIC, 7), Server::echo(PRIVATE, 7)];
        let by_name = |name: &[u8]| [&[5, 1, 0, 5, 1, 0, 3, u8::try_from(name.len()).unwrap()], name, &[0, 7]].concat();
        let by_address = |octets: [u8; 4]| [&[5, 1, 0, 5, 1, 0, 1][..], &octets, &[0, 7]].concat();
        for question in [by_name(b"a.test"), by_address([10, 1, 2, 3])] {
            let (mut client, answer) = ask(world, &question, 12);
            assert_eq!(answer, [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
            client.write_all(b"through").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_all(&mut client).0, b"through");
        }
        // A client that asks for the address itself gets a stand-in, by which the name is known.
        let (mut client, answer) = ask(world, &by_address(world.resolve("a.test").octets()), 12);
        assert_eq!(answer[3], 0);
        client.write_all(&hello("b.test")).unwrap();
        assert_eq!(read_all(&mut client).1, Some(std::io::ErrorKind::ConnectionReset));
        for question in [by_address(world.resolve("b.test").octets()), by_address([198, 19, 9, 9])] {
            assert_eq!(ask(world, &question, 4).1, [5, 0, 5, 2]);
        }
        for question in [by_name(b"b.test"), by_address([127, 0, 0, 1]), by_address([10, 1, 2, 4])] {
            assert_eq!(ask(world, &question, 4).1, [5, 0, 5, 2]);
        }
        for question in [by_name(b"b.test\0a.test"), by_name(b"127.1"), by_name(&[b'a'; 255])] {
            assert_eq!(ask(world, &question, 4).1, [5, 0, 5, 1]);
        }
    });
}

#[test]
fn names_go_through_the_users_own_proxy_and_private_addresses_stay_denied() {
    let upstream = UpstreamProxies {
        http_proxy: None,
        https_proxy: Some(format!("http://user:pass@{PRIVATE}:3128")),
        no_proxy: Some("direct.test".to_owned()),
    };
    let wish = Wish { upstream, ..allowing(&["a.test:443", "direct.test:443"]) };
    in_world("proxies::names_go_through_the_users_own_proxy_and_private_addresses_stay_denied", wish, |world| {
        world.hosts(&[("direct.test", PUBLIC)]);
        let direct = Server::echo(PUBLIC, 443);
        let proxy = Server::start(PRIVATE, 3128, |server, mut stream| {
            let mut head = Vec::new();
            server.each_part(&stream.try_clone().unwrap(), |part| {
                let is_answered = head.ends_with(b"\r\n\r\n");
                head.extend_from_slice(part);
                if is_answered {
                    stream.write_all(part).unwrap();
                } else if head.ends_with(b"\r\n\r\n") {
                    stream.write_all(b"HTTP/1.1 200 fine\r\nVia: x\r\n\r\n").unwrap();
                }
            });
        });
        for name in ["a.test", "direct.test"] {
            let mut client = world.connect(name, 443);
            client.write_all(&hello(name)).unwrap();
            let mut answer = vec![0; hello(name).len()];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, hello(name));
        }
        let asked = b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n";
        assert_eq!(proxy.received(), [&asked[..], &hello("a.test")].concat());
        assert_eq!(direct.received(), hello("direct.test"));
        let denied = super::world::address(PRIVATE, 3128);
        world.assert_denied(denied);
        assert_eq!(proxy.connections(), 1);
        assert!(world.event("a.test", EventKind::Connect).address.is_none());
    });
}
