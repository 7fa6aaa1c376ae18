//! Clients that mean no good.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use whatif_types::network::{EventKind, Protocol};

use super::hello::{hello, hello_with};
use super::servers::Server;
use super::world::{PUBLIC, Wish, address, allowing, assert_reset, eventually, in_world, read_all};

#[test]
fn a_hello_for_another_name_or_none_or_a_hidden_one_does_not_reach_the_server() {
    let name = "hostile::a_hello_for_another_name_or_none_or_a_hidden_one_does_not_reach_the_server";
    in_world(name, allowing(&["a.test:443", "a.test:8443"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let servers = [Server::echo(PUBLIC, 443), Server::echo(PUBLIC, 8443)];
        let lies = [hello("b.test"), hello_with(Some("a.test"), &[0xfe0d]), hello("a.test.b.test"), vec![22, 3, 1, 0, 1, 99]];
        for port in [443, 8443] {
            for lie in &lies {
                let mut client = world.connect("a.test", port);
                client.write_all(lie).unwrap();
                assert_reset(&mut client);
            }
        }
        let mut client = world.connect("a.test", 443);
        client.write_all(&hello_with(None, &[])).unwrap();
        assert_reset(&mut client);
        assert!(servers.iter().all(|server| server.received().is_empty()));
        let denied = world.connections_to("a.test").into_iter().filter(|event| event.kind == EventKind::Connect && !event.allowed);
        assert_eq!(denied.filter(|event| event.protocol == Protocol::Tls).count(), 9);
    });
}

#[test]
fn bytes_that_come_one_by_one_are_judged_as_a_whole() {
    in_world("hostile::bytes_that_come_one_by_one_are_judged_as_a_whole", allowing(&["a.test:443"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 443);
        for (said, passes) in [(hello("a.test"), true), (hello("b.test"), false)] {
            let mut client = world.connect("a.test", 443);
            client.set_nodelay(true).unwrap();
            for byte in &said {
                if client.write_all(&[*byte]).is_err() {
                    break;
                }
            }
            let mut first = [0];
            assert_eq!(client.read_exact(&mut first).is_ok(), passes);
        }
        eventually("all of the hello", || (server.received() == hello("a.test")).then_some(()));
    });
}

#[test]
fn opaque_traffic_on_the_ports_of_the_web_is_denied() {
    in_world("hostile::opaque_traffic_on_the_ports_of_the_web_is_denied", allowing(&["a.test:80", "a.test:443"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let servers = [Server::echo(PUBLIC, 80), Server::echo(PUBLIC, 443)];
        for port in [80, 443] {
            let mut client = world.connect("a.test", port);
            client.write_all(b"SSH-2.0-tunnel\r\n").unwrap();
            assert_reset(&mut client);
        }
        let mut client = world.connect("a.test", 80);
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        assert_reset(&mut client);
        assert!(servers.iter().all(|server| server.received().is_empty()));
    });
}

#[test]
fn whoever_says_half_a_word_and_waits_is_turned_out() {
    let name = "hostile::whoever_says_half_a_word_and_waits_is_turned_out";
    in_world(name, allowing(&["a.test:443", "a.test:80"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 80);
        let begun = Instant::now();
        let mut clients: Vec<_> = (0..50).map(|_| world.connect("a.test", 80)).collect();
        for client in &mut clients {
            client.write_all(b"GE").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(45))).unwrap();
        }
        for client in &mut clients {
            assert_reset(client);
        }
        assert!(begun.elapsed() > Duration::from_secs(25), "turned out too soon");
        assert_eq!(server.connections(), 0);
        assert!(world.event("a.test", EventKind::Connect).because.contains("within 30 seconds"));
    });
}

#[test]
fn a_full_log_says_so_and_changes_no_decision() {
    let wish = Wish { log: b"{}\n".repeat((8 << 20) / 3 + 1), ..allowing(&["10.1.2.3:7"]) };
    in_world("hostile::a_full_log_says_so_and_changes_no_decision", wish, |world| {
        let _server = Server::echo("10.1.2.3", 7);
        for _ in 0..20 {
            world.assert_denied(address("10.1.2.3", 443));
        }
        let mut client = world.connect_to(address("10.1.2.3", 7));
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        drop(client);
        let status = eventually("the last one", || world.control().status().ok().filter(|status| status.omitted == 22));
        assert_eq!((status.denied, status.allowed), (20, 1));
        assert!(world.events().iter().all(|event| event.kind == EventKind::Omitted));
        world.end_keeper();
        eventually("the end", || world.supervisor().try_wait().unwrap());
        assert_eq!(world.events().iter().map(|event| event.sent).sum::<u64>(), 22);
    });
}

#[test]
fn whoever_exceeds_the_places_is_reset_and_the_others_stay() {
    let wish = Wish { descriptors: Some(600), ..allowing(&["10.1.2.3:7"]) };
    in_world("hostile::whoever_exceeds_the_places_is_reset_and_the_others_stay", wish, |world| {
        let _server = Server::echo("10.1.2.3", 7);
        let mut served = world.connect_to(address("10.1.2.3", 7));
        served.write_all(b"x").unwrap();
        served.read_exact(&mut [0]).unwrap();
        let mut idle: Vec<_> = (0..178).map(|_| world.connect_to_proxy()).collect();
        eventually("all places to be taken", || (world.control().status().unwrap().connections == 179).then_some(()));
        for _ in 0..20 {
            world.assert_denied(address("10.1.2.3", 7));
        }
        assert_eq!(world.control().status().unwrap().turned_away, 20);
        served.write_all(b"x").unwrap();
        served.read_exact(&mut [0]).unwrap();
        idle.truncate(100);
        let mut again = eventually("a place", || {
            let mut client = world.connect_to(address("10.1.2.3", 7));
            client.write_all(b"x").ok()?;
            client.read_exact(&mut [0]).ok().map(|()| client)
        });
        again.write_all(b"x").unwrap();
        again.read_exact(&mut [0]).unwrap();
    });
}

#[test]
fn a_keeper_that_says_nothing_delays_nobody_for_long() {
    let wish = Wish { silent_keeper: true, ..Wish::default() };
    in_world("hostile::a_keeper_that_says_nothing_delays_nobody_for_long", wish, |world| {
        let begun = Instant::now();
        for _ in 0..20 {
            world.assert_denied(address("10.1.2.3", 7));
        }
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let events = world.connections_to("10.1.2.3");
        assert!(events.len() == 20 && events.iter().all(|event| event.who.is_none()));
    });
}

#[test]
fn garbage_on_every_port_is_survived() {
    in_world("hostile::garbage_on_every_port_is_survived", allowing(&["a.test:*"]), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let _server = Server::echo(PUBLIC, 9);
        let mut state = 1_u32;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        for round in 0..200 {
            let mut client = if round % 2 == 0 { world.connect("a.test", 9) } else { world.connect_to_proxy() };
            let length = random() % 3000;
            let mut bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            match (round % 5, bytes.get_mut(..2)) {
                (0, Some(start)) => start.copy_from_slice(&[22, 3]),
                (1, Some(start)) => start.copy_from_slice(&[5, 1]),
                _ => {}
            }
            let _ = client.write_all(&bytes);
            let _ = client.shutdown(std::net::Shutdown::Write);
            read_all(&mut client);
        }
        assert_eq!(world.supervisor().try_wait().unwrap(), None);
        eventually("all of them to end", || (world.control().status().unwrap().connections == 0).then_some(()));
    });
}
