//! Connections to names and addresses, in the usual order of things.

use std::io::{Read, Write};
use std::net::Shutdown;

use whatif_types::network::{EventKind, Protocol};

use super::hello::hello;
use super::servers::Server;
use super::world::{
    PRIVATE, PUBLIC, Wish, World, address, address_in, allowing, assert_reset, eventually, in_world, query, read_all, until_reset,
};

/// No connection waits long to learn whose it is: on a busy machine some go without, but not all.
fn assert_who_is_known(world: &World, host: &str, kind: EventKind, again: impl Fn()) {
    let who = eventually("the name of the program", || {
        let known = world.connections_to(host).into_iter().filter(|event| event.kind == kind).find_map(|event| event.who);
        if known.is_none() {
            again();
        }
        known
    });
    assert_eq!(who.program, "tester");
}

#[test]
fn tls_to_an_allowed_name_is_relayed_and_recorded() {
    in_world("names::tls_to_an_allowed_name_is_relayed_and_recorded", allowing(&["a.test:443"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 443);
        let sent = [hello("a.test"), b"and then what is encrypted".to_vec()].concat();
        let exchange = || {
            let mut client = world.connect("a.test", 443);
            client.write_all(&sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_all(&mut client), (sent.clone(), None));
        };
        exchange();
        assert_eq!(server.received(), sent);
        let opened = world.event("a.test", EventKind::Connect);
        assert!(opened.allowed && opened.because == "a.test:443" && opened.protocol == Protocol::Tls, "{opened:?}");
        assert_eq!((opened.port, opened.address), (Some(443), Some(PUBLIC.parse().unwrap())));
        let closed = world.event("a.test", EventKind::Closed);
        assert_eq!((closed.id, closed.sent, closed.received), (opened.id, sent.len() as u64, sent.len() as u64));
        assert_eq!(closed.because, "");
        assert_who_is_known(world, "a.test", EventKind::Closed, exchange);
    });
}

#[test]
fn a_denied_connection_is_on_disk_before_it_is_reset() {
    in_world("names::a_denied_connection_is_on_disk_before_it_is_reset", allowing(&["a.test"]), |world| {
        world.hosts(&[("b.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 443);
        for _ in 0..20 {
            let before = world.connections_to("b.test").len();
            world.assert_name_denied("b.test", 443);
            assert_eq!(world.connections_to("b.test").len(), before + 1);
        }
        let event = world.event("b.test", EventKind::Connect);
        assert!(!event.allowed && event.because.contains("no rule allows b.test:443"), "{event:?}");
        assert!(event.hint.unwrap().starts_with("--net allow=b.test"));
        assert_who_is_known(world, "b.test", EventKind::Connect, || world.assert_name_denied("b.test", 443));
        assert_eq!(server.connections(), 0);
    });
}

#[test]
fn an_address_is_allowed_by_itself_and_nothing_is_read() {
    in_world("names::an_address_is_allowed_by_itself_and_nothing_is_read", allowing(&["10.1.2.3:5432"]), |world| {
        let server = Server::echo(PRIVATE, 5432);
        let other = Server::echo(PRIVATE, 5433);
        let mut client = world.connect_to(address(PRIVATE, 5432));
        client.write_all(b"GET / HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(read_all(&mut client).0.starts_with(b"GET / "));
        assert_eq!(server.connections(), 1);
        if let Ok(mut denied) = world.try_to_connect(address(PRIVATE, 5433)) {
            let _ = denied.write_all(b"GET / HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n");
            assert_eq!(read_all(&mut denied).0, b"");
        }
        world.assert_denied(address(PRIVATE, 5433));
        assert_eq!(other.connections(), 0);
    });
}

#[test]
fn an_address_that_stands_for_no_name_leads_nowhere() {
    let wish = allowing(&["a.test:*", "198.51.100.0/24:*"]);
    in_world("names::an_address_that_stands_for_no_name_leads_nowhere", wish, |world| {
        let server = Server::echo("198.18.0.77", 443);
        world.assert_denied(address("198.18.0.77", 443));
        assert_eq!(server.connections(), 0);
        assert!(world.event("198.18.0.77", EventKind::Connect).because.contains("stands for no name"));
    });
}

#[test]
fn a_name_that_leads_to_a_private_address_or_to_this_machine_is_denied_after_resolution() {
    let name = "names::a_name_that_leads_to_a_private_address_or_to_this_machine_is_denied_after_resolution";
    in_world(name, allowing(&["inner.test:443", "self.test:443", "pool.test:443", "127.0.0.0/8:443"]), |world| {
        world.hosts(&[("inner.test", PRIVATE), ("self.test", "127.0.0.1"), ("pool.test", "198.18.0.1")]);
        let servers = [Server::echo(PRIVATE, 443), Server::echo("127.0.0.1", 443), Server::echo("198.18.0.1", 443)];
        for (host, because) in [("inner.test", "private"), ("self.test", "this machine"), ("pool.test", "stands for a name")] {
            // The name server may know already that such a name has no address; then there is nothing to connect to.
            let answer = world.inside().run(move || {
                let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.send_to(&query(host), "192.0.2.53:53").unwrap();
                let mut answer = vec![0; 512];
                let length = socket.recv(&mut answer).unwrap();
                answer.truncate(length);
                address_in(&answer)
            });
            let Some(stand_in) = answer else { continue };
            let mut client = world.connect_to(std::net::SocketAddr::new(stand_in.into(), 443));
            let _ = client.write_all(&hello(host));
            assert_reset(&mut client);
            let event = world.event(host, EventKind::Connect);
            assert!(!event.allowed && event.because.contains(because), "{event:?}");
        }
        assert!(servers.iter().all(|server| server.connections() == 0));
    });
}

#[test]
fn what_cannot_be_reached_is_recorded_as_failed() {
    in_world("names::what_cannot_be_reached_is_recorded_as_failed", allowing(&["a.test:80", "a.test:443"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let client = world.connect("a.test", 80);
        assert_eq!(until_reset(Ok(client), b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), b"");
        let client = world.connect_to_proxy();
        assert_eq!(until_reset(Ok(client), b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"), b"");
        // Who asks for a connection is told.
        let mut client = world.connect_to_proxy();
        client.write_all(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let (page, end) = read_all(&mut client);
        let page = String::from_utf8(page).unwrap();
        assert!(page.starts_with("HTTP/1.1 502 ") && page.contains("connection refused") && end.is_none(), "{page} {end:?}");
        let events = world.connections_to("a.test");
        assert_eq!(events.len(), 3, "{events:?}");
        for event in events {
            assert!(event.kind == EventKind::Failed && event.because.contains("connection refused"), "{event:?}");
        }
    });
}

#[test]
fn the_server_may_speak_first_and_the_client_is_judged_whenever_it_does() {
    let name = "names::the_server_may_speak_first_and_the_client_is_judged_whenever_it_does";
    in_world(name, allowing(&["a.test:2222"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::start(PUBLIC, 2222, |server, mut stream| {
            stream.write_all(b"SSH-2.0-greeter\r\n").unwrap();
            server.each_part(&stream, |_| ());
        });
        let greet = || {
            let mut client = world.connect("a.test", 2222);
            let mut greeting = [0; 17];
            client.read_exact(&mut greeting).unwrap();
            assert_eq!(&greeting, b"SSH-2.0-greeter\r\n");
            client
        };
        let mut honest = greet();
        honest.write_all(b"SSH-2.0-client\r\n").unwrap();
        honest.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut honest), (Vec::new(), None));
        assert_eq!(server.text(), "SSH-2.0-client\r\n");
        for lie in [hello("b.test"), b"GET / HTTP/1.1\r\nHost: b.test\r\n\r\n".to_vec()] {
            let mut client = greet();
            client.write_all(&lie).unwrap();
            read_all(&mut client);
        }
        assert_eq!(server.text(), "SSH-2.0-client\r\n");
        assert_eq!(world.connections_to("a.test").iter().filter(|event| !event.allowed).count(), 2);
    });
}

#[test]
fn questions_over_tcp_are_answered_here() {
    in_world("names::questions_over_tcp_are_answered_here", allowing(&["a.test"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let mut client = world.connect_to(address("192.0.2.53", 53));
        let query = query("a.test");
        client.write_all(&[&u16::try_from(query.len()).unwrap().to_be_bytes()[..], &query].concat()).unwrap();
        let mut length = [0; 2];
        client.read_exact(&mut length).unwrap();
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(address_in(&answer), Some(world.resolve("a.test")));
    });
}

#[test]
fn services_of_this_machine_are_reached_only_if_named() {
    let wish = Wish { reach: vec![5432], ..allowing(&["127.0.0.0/8:*"]) };
    in_world("names::services_of_this_machine_are_reached_only_if_named", wish, |world| {
        let server = Server::echo("127.0.0.1", 5432);
        let mut client = world.connect_to(address("127.0.0.1", 5432));
        client.write_all(b"select 1").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut client).0, b"select 1");
        assert_eq!(world.event("localhost", EventKind::Connect).because, "--reach localhost:5432");
        world.set_rules(&Wish::default());
        world.assert_denied(address("127.0.0.1", 5432));
        assert_eq!(server.connections(), 1);
    });
}
