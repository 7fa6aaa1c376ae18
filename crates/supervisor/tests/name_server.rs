//! The name server of a sandbox, over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod name_support;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use name_support::fake::Fake;
use name_support::inside::{Inside, Reply, read};
use name_support::message::{A, AAAA, OPT, PTR, framed, message, query, question, wire};
use name_support::{Scratch, eventually, in_namespace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use whatif_types::network::{EventKind, Protocol};

const CONF: &str = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
/// Text, mail, services, web parameters, nothing, names of servers, start of authority, all, a zone.
const OTHER_TYPES: [u16; 9] = [16, 15, 33, 65, 10, 2, 6, 255, 252];

/// `four`, `six` and `both` have addresses, `broken` cannot be found out, others do not exist.
async fn outside() -> Fake {
    Fake::udp("127.0.0.1", |asked| {
        vec![match asked.name.as_str() {
            "four.example" => asked.addresses(&["192.0.2.1"]),
            "six.example" => asked.addresses(&["2001:db8::1"]),
            "both.example" => asked.addresses(&["192.0.2.1", "2001:db8::1"]),
            "broken.example" => asked.code(2),
            "silent.example" => return vec![],
            _ => asked.code(3),
        }]
    })
    .await
}

fn address(text: &str) -> Reply {
    Reply::Address(text.parse().unwrap())
}

#[test]
fn allowed_names_look_inside_as_they_do_outside() {
    in_namespace("allowed_names_look_inside_as_they_do_outside", || async {
        let outside = outside().await;
        let scratch = Scratch::new();
        let inside = Inside::start("*.example", "", scratch.resolver("10.0.0.5 hosts.example\n", CONF)).await;
        let four = inside.ask("four.example", A).await;
        assert_eq!(four, address("198.18.0.1"), "never the real one");
        assert_eq!(inside.name_of(&four).as_deref(), Some("four.example"));
        assert_eq!(inside.ask("four.example", AAAA).await, Reply::Empty);
        assert_eq!(inside.ask("six.example", A).await, Reply::Empty);
        assert_eq!(inside.ask("six.example", AAAA).await, address("fd12:3456:789a:1::2"));
        assert_eq!(
            (inside.ask("both.example", A).await, inside.ask("both.example", AAAA).await),
            (address("198.18.0.3"), address("fd12:3456:789a:1::3"))
        );
        assert_eq!(inside.ask("none.example", A).await, Reply::Code(3));
        assert_eq!(inside.ask("broken.example", A).await, Reply::Code(2));
        assert_eq!(inside.ask("silent.example", A).await, Reply::Code(2));
        let before = outside.count();
        assert_eq!(inside.ask("hosts.example", A).await, address("198.18.0.4"));
        assert_eq!(inside.ask("four.example", A).await, four, "the same for as long as it is known");
        for kind in OTHER_TYPES {
            assert_eq!(inside.ask("four.example", kind).await, Reply::Empty, "type {kind}");
        }
        assert_eq!(outside.count(), before);
    });
}

#[test]
fn names_without_a_rule_get_an_address_and_nobody_outside_hears_of_them() {
    in_namespace("names_without_a_rule_get_an_address_and_nobody_outside_hears_of_them", || async {
        let outside = outside().await;
        let scratch = Scratch::new();
        let inside = Inside::start("four.example", "", scratch.resolver("", CONF)).await;
        for (text, kind) in [("both.example", A), ("both.example", AAAA), ("c2vjcmv0.evil.test", A), ("no-such-name.test", AAAA)] {
            let reply = inside.ask(text, kind).await;
            assert_eq!(inside.name_of(&reply).as_deref(), Some(text), "{reply:?}");
        }
        for kind in OTHER_TYPES {
            assert_eq!(inside.ask("c2vjcmv0.evil.test", kind).await, Reply::Empty, "type {kind}");
        }
        assert_eq!(outside.count(), 0);
        let events = inside.office.events.lock().unwrap().clone();
        let hosts = events.iter().map(|event| event.host.as_str()).collect::<Vec<_>>();
        assert_eq!(hosts, ["both.example", "c2vjcmv0.evil.test", "no-such-name.test"]);
        let first = &events[0];
        assert_eq!((first.kind, first.protocol, first.allowed, first.port), (EventKind::Resolve, Protocol::Dns, false, None));
        assert_eq!(first.because, "no rule allows both.example");
        assert_eq!(first.hint.as_deref(), Some("--net allow=both.example:443"));
        assert!(first.at_ms > 1_600_000_000_000);
    });
}

#[test]
fn a_rule_that_denies_is_told() {
    in_namespace("a_rule_that_denies_is_told", || async {
        let outside = outside().await;
        let scratch = Scratch::new();
        let inside = Inside::start("*.example", "both.example,four.example:25", scratch.resolver("", CONF)).await;
        for kind in [A, AAAA, 16] {
            assert_eq!(inside.ask("both.example", kind).await, Reply::Code(5), "type {kind}");
        }
        assert_eq!(outside.count(), 0);
        assert!(matches!(inside.ask("four.example", A).await, Reply::Address(_)), "only one port is denied");
        assert_eq!(inside.recorded(), [("both.example".to_owned(), false), ("four.example".to_owned(), true)]);
        assert_eq!(inside.office.events.lock().unwrap()[0].because, "the rule 'both.example' denies it");
        inside.set_rules("*.example", "");
        assert!(matches!(inside.ask("both.example", A).await, Reply::Address(_)), "a change of the rules holds at once");
        assert_eq!(inside.recorded().last(), Some(&("both.example".to_owned(), true)));
    });
}

#[test]
fn a_name_that_a_proxy_resolves_is_asked_of_nobody() {
    in_namespace("a_name_that_a_proxy_resolves_is_asked_of_nobody", || async {
        let outside = outside().await;
        let scratch = Scratch::new();
        let proxied = Some("unknown-here.example".parse().unwrap());
        let inside = Inside::with_proxied("*.example", "denied.example", scratch.resolver("", CONF), proxied).await;
        assert!(matches!(inside.ask("unknown-here.example", A).await, Reply::Address(_)));
        assert!(matches!(inside.ask("unknown-here.example", AAAA).await, Reply::Address(_)));
        assert_eq!(outside.count(), 0);
        assert_eq!(inside.ask("none.example", A).await, Reply::Code(3));
    });
}

#[test]
fn addresses_have_their_names_and_the_sandbox_is_its_own_localhost() {
    in_namespace("addresses_have_their_names_and_the_sandbox_is_its_own_localhost", || async {
        let outside = outside().await;
        let scratch = Scratch::new();
        let inside = Inside::start("", "", scratch.resolver("", CONF)).await;
        inside.ask("a.test", A).await;
        let nibbles = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.a.9.8.7.6.5.4.3.2.1.d.f.ip6.arpa";
        for text in ["1.0.18.198.in-addr.arpa", nibbles] {
            assert_eq!(inside.ask(text, PTR).await, Reply::Name(wire("a.test")), "{text}");
        }
        assert_eq!(inside.ask("1.0.0.127.in-addr.arpa", PTR).await, Reply::Name(wire("localhost")));
        for text in ["2.0.18.198.in-addr.arpa", "8.8.8.8.in-addr.arpa", "c2vjcmv0.in-addr.arpa", "in-addr.arpa"] {
            assert_eq!(inside.ask(text, PTR).await, Reply::Code(3), "{text}");
        }
        assert_eq!(inside.ask("8.8.8.8.in-addr.arpa", A).await, Reply::Empty);
        for text in ["localhost", "a.b.localhost"] {
            assert_eq!(inside.ask(text, A).await, address("127.0.0.1"), "{text}");
            assert_eq!(inside.ask(text, AAAA).await, address("::1"), "{text}");
            assert_eq!(inside.ask(text, 16).await, Reply::Empty, "{text}");
        }
        assert_eq!(outside.count(), 0);
        assert_eq!(inside.recorded(), [("a.test".to_owned(), false)]);
    });
}

#[test]
fn a_question_comes_back_as_it_was_asked() {
    in_namespace("a_question_comes_back_as_it_was_asked", || async {
        let scratch = Scratch::new();
        let inside = Inside::start("", "", scratch.resolver("", CONF)).await;
        let mixed = question("wWw.ExAmPlE.tEsT", A);
        let with_extension = message(0xbeef, 0x0120, [1, 0, 0, 1], &[&mixed, OPT].concat());
        let answer = inside.exchange(&with_extension).await;
        assert_eq!(answer[..2], [0xbe, 0xef]);
        assert!(answer[12..].starts_with(&mixed));
        assert_eq!((answer[11], &answer[answer.len() - OPT.len()..]), (1, OPT));
        let plain = inside.exchange(&query(1, "www.example.test", A)).await;
        assert_eq!(plain[11], 0, "no extension where none was sent");
        let address_at = 12 + mixed.len() + 12;
        assert_eq!(plain[address_at..address_at + 4], answer[address_at..address_at + 4], "one name, one address");
        let ttl = u32::from_be_bytes(plain[address_at - 6..address_at - 2].try_into().unwrap());
        assert!((1..=5).contains(&ttl), "{ttl}");
    });
}

#[test]
fn what_is_malformed_gets_an_error_and_what_is_no_question_nothing() {
    in_namespace("what_is_malformed_gets_an_error_and_what_is_no_question_nothing", || async {
        let scratch = Scratch::new();
        let inside = Inside::start("", "", scratch.resolver("", CONF)).await;
        for (what, datagram, code) in [
            ("two questions", message(7, 0x0100, [2, 0, 0, 0], &question("a.test", A).repeat(2)), 1),
            ("a name that points to itself", message(7, 0x0100, [1, 0, 0, 0], b"\xc0\x0c\0\x01\0\x01"), 1),
            ("a name without an end", message(7, 0x0100, [1, 0, 0, 0], b"\x3fabc"), 1),
            ("something behind", [query(7, "a.test", A), vec![0]].concat(), 1),
            ("an update", message(7, 0x2900, [1, 0, 0, 0], &question("a.test", A)), 4),
            ("an address as a name", query(7, "169.254.169.254", A), 3),
            ("NUL in a name", message(7, 0x0100, [1, 0, 0, 0], b"\x03a\0b\x04test\0\0\x01\0\x01"), 3),
            ("60000 bytes", message(7, 0x0100, [1, 0, 0, 0], &vec![0; 60_000]), 1),
        ] {
            let answer = inside.exchange(&datagram).await;
            assert_eq!((&answer[..2], answer[2] & 0x80, answer[3] & 0x0f), (&[0, 7][..], 0x80, code), "{what}");
        }
        for (what, datagram) in [
            ("an answer", message(7, 0x8180, [1, 0, 0, 0], &question("a.test", A))),
            ("half a header", vec![0, 7, 1]),
            ("nothing", vec![]),
        ] {
            assert_eq!(inside.try_exchange(&datagram, Duration::from_millis(200)).await, None, "{what}");
        }
        assert!(matches!(inside.ask("a.test", A).await, Reply::Address(_)));
        assert_eq!(inside.recorded(), [("a.test".to_owned(), false)]);
    });
}

async fn read_framed(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await.map(|_| answer)
}

#[test]
fn questions_over_tcp_may_come_in_pieces_and_several_at_once() {
    in_namespace("questions_over_tcp_may_come_in_pieces_and_several_at_once", || async {
        let _outside = outside().await;
        let scratch = Scratch::new();
        let inside = Inside::start("*.example", "", scratch.resolver("", CONF)).await;
        let mut stream = TcpStream::connect(inside.tcp).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in framed(&query(1, "four.example", A)) {
            stream.write_all(&[byte]).await.unwrap();
        }
        assert_eq!(read(A, &read_framed(&mut stream).await.unwrap()), address("198.18.0.1"));
        let several =
            [framed(&query(2, "none.example", A)), framed(&message(3, 0x0100, [0; 4], b"")), framed(&query(4, "a.test", AAAA))];
        stream.write_all(&several.concat()).await.unwrap();
        assert_eq!(read(A, &read_framed(&mut stream).await.unwrap()), Reply::Code(3));
        assert_eq!(read(A, &read_framed(&mut stream).await.unwrap()), Reply::Code(1));
        let last = read_framed(&mut stream).await.unwrap();
        assert_eq!((last[1], inside.name_of(&read(AAAA, &last)).as_deref()), (4, Some("a.test")));
        for nonsense in [&b"\0\x05abcde"[..], b"\xff\xff", &framed(&message(9, 0x8180, [0; 4], b""))] {
            let mut stream = TcpStream::connect(inside.tcp).await.unwrap();
            stream.write_all(nonsense).await.unwrap();
            assert!(read_framed(&mut stream).await.is_err(), "{}", nonsense.escape_ascii());
        }
    });
}

#[test]
fn connections_are_bounded() {
    in_namespace("connections_are_bounded", || async {
        let scratch = Scratch::new();
        let inside = Inside::start("", "", scratch.resolver("", CONF)).await;
        let mut idle = Vec::new();
        for number in 0..64 {
            let mut stream = TcpStream::connect(inside.tcp).await.unwrap();
            stream.write_all(&framed(&query(number, "a.test", A))).await.unwrap();
            read_framed(&mut stream).await.unwrap();
            idle.push(stream);
        }
        let mut one_more = TcpStream::connect(inside.tcp).await.unwrap();
        let _ = one_more.write_all(&framed(&query(1, "a.test", A))).await;
        assert!(read_framed(&mut one_more).await.is_err());
        drop(idle);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let mut again = TcpStream::connect(inside.tcp).await.unwrap();
            let _ = again.write_all(&framed(&query(1, "a.test", A))).await;
            if read_framed(&mut again).await.is_ok() {
                break;
            }
            assert!(Instant::now() < deadline, "there is no room again");
        }
    });
}

#[test]
fn a_flood_is_dropped_and_leaves_nothing_behind() {
    in_namespace("a_flood_is_dropped_and_leaves_nothing_behind", || async {
        let outside = Fake::udp("127.0.0.1", |_| vec![]).await;
        let scratch = Scratch::new();
        let patient = "nameserver 127.0.0.1\noptions timeout:3 attempts:1\n";
        let inside = Inside::start("*.example", "", scratch.resolver("", patient)).await;
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(inside.udp).await.unwrap();
        for number in 0..1000 {
            socket.send(&query(number, &format!("n{number}.example"), A)).await.unwrap();
            // The one thread has to get at them.
            tokio::task::yield_now().await;
        }
        eventually("as many as can be are asked outside", || outside.count() >= 64).await;
        assert_eq!(inside.try_exchange(&query(1, "a.test", A), Duration::from_millis(200)).await, None, "there is no room");
        assert!(outside.count() <= 64, "{}", outside.count());
        let recorded = inside.recorded().len();
        assert!(recorded <= 256, "{recorded}");
        let deadline = Instant::now() + Duration::from_secs(30);
        while inside.try_exchange(&query(1, "a.test", A), Duration::from_millis(100)).await.is_none() {
            assert!(Instant::now() < deadline, "there is no room again");
        }
    });
}

#[test]
fn repeated_questions_are_recorded_once_and_answered_each_time() {
    in_namespace("repeated_questions_are_recorded_once_and_answered_each_time", || async {
        let scratch = Scratch::new();
        let inside = Inside::start("", "", scratch.resolver("", CONF)).await;
        for _ in 0..100 {
            assert!(matches!(inside.ask("a.test", A).await, Reply::Address(_)));
            assert!(matches!(inside.ask("A.Test", AAAA).await, Reply::Address(_)));
        }
        assert_eq!(inside.recorded(), [("a.test".to_owned(), false)]);
    });
}

/// Names are made up at no cost; what happened to connections has to stay in the record.
#[test]
fn many_names_do_not_fill_the_record() {
    in_namespace("many_names_do_not_fill_the_record", || async {
        let scratch = Scratch::new();
        let inside = Inside::start("", "", scratch.resolver("", CONF)).await;
        for number in 0..3000 {
            assert!(matches!(inside.ask(&format!("n{number}.test"), A).await, Reply::Address(_)));
        }
        let events = inside.office.events.lock().unwrap().clone();
        let resolved = events.iter().filter(|event| event.kind == EventKind::Resolve).count();
        let omitted = events.iter().filter(|event| event.kind == EventKind::Omitted).map(|event| event.sent).collect::<Vec<_>>();
        // One more for each second that it takes.
        assert!((1000..1100).contains(&resolved), "{resolved}");
        assert!(omitted.len() < 15 && omitted.iter().sum::<u64>() > 900, "{omitted:?}");
    });
}

#[test]
fn when_every_address_is_in_use_there_is_none() {
    in_namespace("when_every_address_is_in_use_there_is_none", || async {
        let scratch = Scratch::new();
        let inside = Inside::start("", "", scratch.resolver("", CONF)).await;
        let mut held = Vec::new();
        for number in 0..64 {
            let Reply::Address(address) = inside.ask(&format!("n{number}.test"), A).await else { panic!("no address") };
            held.push(inside.office.names.lock().unwrap().hold(address).unwrap());
        }
        assert_eq!(inside.ask("one-more.test", A).await, Reply::Code(2));
        held.pop();
        let reply = inside.ask("one-more.test", A).await;
        assert_eq!(inside.name_of(&reply).as_deref(), Some("one-more.test"));
    });
}

#[test]
fn when_the_server_is_stopped_nothing_goes_on() {
    in_namespace("when_the_server_is_stopped_nothing_goes_on", || async {
        let outside = Fake::udp("127.0.0.1", |_| vec![]).await;
        let scratch = Scratch::new();
        let inside = Inside::start("*.example", "", scratch.resolver("", "nameserver 127.0.0.1\noptions timeout:30\n")).await;
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(&query(1, "a.example", A), inside.udp).await.unwrap();
        eventually("it is asked outside", || outside.count() == 1).await;
        inside.stop();
        let office = Arc::downgrade(&inside.office);
        drop(inside);
        eventually("everything that used it is gone", || office.strong_count() == 0).await;
    });
}

/// What a sandbox gets is never an address that is anywhere.
#[test]
fn real_addresses_never_go_in() {
    in_namespace("real_addresses_never_go_in", || async {
        let _outside =
            Fake::udp("127.0.0.1", |asked| vec![asked.addresses(&["169.254.169.254", "127.0.0.1", "::1", "8.8.8.8"])]).await;
        let scratch = Scratch::new();
        let inside = Inside::start("*.example", "", scratch.resolver("169.254.169.254 hosts.example\n", CONF)).await;
        for text in ["a.example", "hosts.example", "other.test"] {
            for kind in [A, AAAA] {
                match inside.ask(text, kind).await {
                    Reply::Address(IpAddr::V4(v4)) => assert_eq!(v4.octets()[..2], [198, 18]),
                    Reply::Address(IpAddr::V6(v6)) => assert_eq!(v6.segments()[..4], [0xfd12, 0x3456, 0x789a, 1]),
                    other => assert_eq!((text, other), ("hosts.example", Reply::Empty)),
                }
            }
        }
    });
}
