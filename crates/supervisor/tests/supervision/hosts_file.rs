//! Names that the host has written down: programs inside read the same file, and come with the address.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use whatif_types::network::{EventKind, Protocol};

use super::hello::{hello, hello_with};
use super::servers::Server;
use super::world::{PRIVATE, PUBLIC, Wish, World, address, allowing, in_world, read_all, until_reset};

const OTHER: &str = "25.64.113.6";

/// All of it comes back, and a proper end.
fn assert_echoed(mut client: TcpStream, said: &[u8]) {
    client.write_all(said).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut client), (said.to_vec(), None));
}

fn assert_reset_after(world: &World, host: &str, port: u16, said: &[u8]) {
    assert_eq!(until_reset(world.try_to_connect(address(host, port)), said), b"");
}

/// The whole answer of the proxy to a question that ends there.
fn ask_proxy(world: &World, question: &[u8]) -> Vec<u8> {
    let mut client = world.connect_to_proxy();
    client.write_all(question).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    read_all(&mut client).0
}

#[test]
fn a_rule_for_a_name_holds_for_the_address_next_to_it() {
    in_world("hosts_file::a_rule_for_a_name_holds_for_the_address_next_to_it", allowing(&["db.test:5432"]), |world| {
        world.hosts(&[("db.test", PUBLIC), ("other.test", OTHER)]);
        let server = Server::echo(PUBLIC, 5432);
        let others = [Server::echo(PUBLIC, 5433), Server::echo(OTHER, 5432), Server::echo("25.64.113.7", 5432)];
        assert_echoed(world.connect_to(address(PUBLIC, 5432)), b"select 1");
        let opened = world.event("db.test", EventKind::Connect);
        assert!(opened.allowed && opened.because == "db.test:5432" && opened.protocol == Protocol::Tcp, "{opened:?}");
        assert_eq!((opened.port, opened.address), (Some(5432), Some(PUBLIC.parse().unwrap())));
        for (denied, port) in [(PUBLIC, 5433), (OTHER, 5432), ("25.64.113.7", 5432)] {
            world.assert_denied(address(denied, port));
            let event = world.event(denied, EventKind::Connect);
            assert!(!event.allowed && event.because.contains(&format!("no rule allows {denied}:{port}")), "{event:?}");
        }
        assert!(others.iter().all(|server| server.connections() == 0));
        // The file is read again; what it does not say any more does not hold any more.
        world.hosts(&[("db.test", OTHER)]);
        world.assert_denied(address(PUBLIC, 5432));
        assert_echoed(world.connect_to(address(OTHER, 5432)), b"select 2");
        assert_eq!(server.received(), b"select 1");
    });
}

#[test]
fn what_is_said_first_has_to_say_the_name() {
    let wish = allowing(&["a.test:443", "a.test:8443", "a.test:80", "http+get://a.test:8080/pub"]);
    in_world("hosts_file::what_is_said_first_has_to_say_the_name", wish, |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let encrypted = [Server::echo(PUBLIC, 443), Server::echo(PUBLIC, 8443)];
        for (port, server) in [443, 8443].into_iter().zip(&encrypted) {
            assert_echoed(world.connect_to(address(PUBLIC, port)), &hello("a.test"));
            for lie in [hello("b.test"), hello(PUBLIC), hello_with(Some("a.test"), &[0xfe0d])] {
                assert_reset_after(world, PUBLIC, port, &lie);
            }
            assert_eq!(server.received(), hello("a.test"));
        }
        assert_reset_after(world, PUBLIC, 443, &hello_with(None, &[]));
        assert_reset_after(world, PUBLIC, 443, b"SSH-2.0-tunnel\r\n");
        assert_eq!(encrypted[0].connections(), 1);
        let plain = [Server::web(PUBLIC, 80), Server::web(PUBLIC, 8080)];
        let get = |host: &str, path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
        for (port, said) in [(80, get("a.test", "/ok")), (8080, get("a.test:8080", "/pub/ok"))] {
            let mut client = world.connect_to(address(PUBLIC, port));
            client.write_all(&said).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let (answer, end) = read_all(&mut client);
            assert!(answer.ends_with(b"HELLO") && end.is_none(), "{port}: {answer:?} {end:?}");
        }
        for (port, said) in [(80, get("b.test", "/evil")), (80, get(PUBLIC, "/evil")), (8080, get("a.test:8080", "/evil"))] {
            assert_reset_after(world, PUBLIC, port, &said);
        }
        assert!(plain.iter().all(|server| server.text().contains("/ok") && !server.text().contains("/evil")));
        let denied = world.connections_to("a.test").into_iter().filter(|event| event.kind == EventKind::Connect && !event.allowed);
        assert_eq!(denied.count(), 11);
    });
}

#[test]
fn a_private_address_stays_denied_until_it_is_named() {
    let wish = allowing(&["inner.test:5432", "self.test:5432", "cloud.test:80"]);
    in_world("hosts_file::a_private_address_stays_denied_until_it_is_named", wish, |world| {
        world.hosts(&[("inner.test", PRIVATE), ("self.test", "127.0.0.1"), ("cloud.test", "169.254.169.254")]);
        let server = Server::echo(PRIVATE, 5432);
        let others = [Server::echo("127.0.0.1", 5432), Server::web("169.254.169.254", 80)];
        let denied = || {
            world.assert_denied(address(PRIVATE, 5432));
            assert!(
                ask_proxy(world, b"CONNECT 10.1.2.3:5432 HTTP/1.1\r\nHost: 10.1.2.3:5432\r\n\r\n").starts_with(b"HTTP/1.1 403 ")
            );
            assert_eq!(ask_proxy(world, &[5, 1, 0, 5, 1, 0, 1, 10, 1, 2, 3, 0x15, 0x38])[..4], [5, 0, 5, 2]);
        };
        denied();
        let event = world.event("inner.test", EventKind::Connect);
        assert!(!event.allowed && event.because.contains("private"), "{event:?}");
        for target in ["127.0.0.1:5432", "[::ffff:127.0.0.1]:5432", "169.254.169.254:80"] {
            let question = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
            assert!(ask_proxy(world, question.as_bytes()).starts_with(b"HTTP/1.1 403 "), "{target}");
        }
        assert_reset_after(world, "169.254.169.254", 80, b"GET / HTTP/1.1\r\nHost: cloud.test\r\n\r\n");
        assert_eq!(server.connections(), 0);
        world.set_rules(&allowing(&["inner.test:5432", "10.1.2.3:5432"]));
        assert_echoed(world.connect_to(address(PRIVATE, 5432)), b"select 1");
        world.set_rules(&allowing(&["inner.test:5432"]));
        denied();
        assert_eq!(server.connections(), 1);
        assert!(others.iter().all(|server| server.connections() == 0));
    });
}

#[test]
fn of_several_names_the_allowed_one_is_meant() {
    in_world("hosts_file::of_several_names_the_allowed_one_is_meant", allowing(&["m.test:443"]), |world| {
        // Before it and after it, in the file and in the alphabet.
        world.hosts(&[("z.test", PUBLIC), ("b.test", PUBLIC), ("m.test", PUBLIC), ("y.test", PUBLIC), ("a.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 443);
        assert_echoed(world.connect_to(address(PUBLIC, 443)), &hello("m.test"));
        for other in ["a.test", "b.test", "y.test", "z.test"] {
            assert_reset_after(world, PUBLIC, 443, &hello(other));
        }
        assert_eq!(server.received(), hello("m.test"));
        assert!(world.connections_to("m.test").iter().any(|event| event.allowed));
        assert!(world.connections_to("a.test").is_empty());
    });
}

#[test]
fn of_several_allowed_names_any_may_be_said() {
    let wish = allowing(&["a.test:443", "b.test:443", "a.test:80", "b.test:80"]);
    in_world("hosts_file::of_several_allowed_names_any_may_be_said", wish, |world| {
        world.hosts(&[("a.test", PUBLIC), ("b.test", PUBLIC), ("c.test", PUBLIC)]);
        let servers = [Server::echo(PUBLIC, 443), Server::echo(PUBLIC, 80)];
        for name in ["a.test", "b.test"] {
            assert_echoed(world.connect_to(address(PUBLIC, 443)), &hello(name));
            let get = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
            assert_echoed(world.connect_to(address(PUBLIC, 80)), get.as_bytes());
        }
        assert_reset_after(world, PUBLIC, 443, &hello("c.test"));
        assert_eq!(servers.map(|server| server.connections()), [2, 2]);
    });
}

#[test]
fn of_several_addresses_the_one_that_was_asked_for_is_dialled() {
    in_world("hosts_file::of_several_addresses_the_one_that_was_asked_for_is_dialled", allowing(&["a.test:443"]), |world| {
        world.hosts(&[("a.test", PUBLIC), ("a.test", OTHER), ("a.test", PRIVATE)]);
        let servers = [Server::echo(PUBLIC, 443), Server::echo(OTHER, 443), Server::echo(PRIVATE, 443)];
        assert_echoed(world.connect_to(address(OTHER, 443)), &hello("a.test"));
        assert_reset_after(world, PRIVATE, 443, &hello("a.test"));
        assert_eq!(servers.map(|server| server.connections()), [0, 1, 0]);
    });
}

#[test]
fn a_name_that_is_only_denied_allows_nothing() {
    let wish = Wish { deny: vec!["d.test"], ..allowing(&["elsewhere.test"]) };
    in_world("hosts_file::a_name_that_is_only_denied_allows_nothing", wish, |world| {
        world.hosts(&[("d.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 443);
        let denied = || assert_reset_after(world, PUBLIC, 443, &hello("d.test"));
        denied();
        let event = world.event(PUBLIC, EventKind::Connect);
        assert!(!event.allowed && event.because.contains("no rule allows 25.64.113.5:443"), "{event:?}");
        assert!(world.connections_to("d.test").is_empty());
        // A rule that allows it among others does not help.
        world.set_rules(&Wish { deny: vec!["d.test"], ..allowing(&["*.test:443"]) });
        denied();
        assert_eq!(server.connections(), 0);
        // Another name of the same address may be allowed: then that is the one to say.
        world.hosts(&[("d.test", PUBLIC), ("e.test", PUBLIC)]);
        denied();
        assert_echoed(world.connect_to(address(PUBLIC, 443)), &hello("e.test"));
        assert_eq!(server.received(), hello("e.test"));
        // And an address that is denied itself stays so under any name.
        for deny in ["25.64.113.5", "25.64.113.0/24"] {
            world.set_rules(&Wish { deny: vec![deny], ..allowing(&["*.test:443"]) });
            assert_reset_after(world, PUBLIC, 443, &hello("e.test"));
        }
        assert_eq!(server.connections(), 1);
    });
}

/// Both ways of asking the proxy for an address.
#[test]
fn the_proxy_knows_the_names_of_addresses_as_well() {
    in_world("hosts_file::the_proxy_knows_the_names_of_addresses_as_well", allowing(&["a.test:443"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 443);
        let connect = b"CONNECT 25.64.113.5:443 HTTP/1.1\r\nHost: 25.64.113.5:443\r\n\r\n";
        let socks = [5, 1, 0, 5, 1, 0, 1, 25, 64, 113, 5, 1, 0xbb];
        let questions =
            [(&connect[..], &b"HTTP/1.1 200 Connection established\r\n\r\n"[..]), (&socks, &[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0])];
        for (question, expected) in questions {
            let ask = || {
                let mut client = world.connect_to_proxy();
                client.write_all(question).unwrap();
                let mut answer = vec![0; expected.len()];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(answer, expected);
                client
            };
            assert_echoed(ask(), &hello("a.test"));
            assert_eq!(until_reset(Ok(ask()), &hello("b.test")), b"");
        }
        assert_eq!(server.received(), [hello("a.test"), hello("a.test")].concat());
        assert!(world.connections_to(PUBLIC).is_empty());
    });
}
