//! The resolver and name servers of every kind: good, slow, broken and hostile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod name_support;

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use name_support::fake::Fake;
use name_support::message::{A, AAAA, Asked, BACK, CNAME, message, question, record};
use name_support::{Scratch, eventually, in_namespace};
use tokio::net::UdpSocket;
use whatif_netpolicy::HostName;
use whatif_supervisor::resolver::{Family, ResolveError, Resolver};

const ONE: &str = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
const TWO: &str = "nameserver 127.0.0.1\nnameserver 127.0.0.2\noptions timeout:1 attempts:1\n";

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

async fn resolve(resolver: &Resolver, text: &str) -> Result<Vec<IpAddr>, ResolveError> {
    resolver.resolve(&name(text)).await
}

#[test]
fn both_families_are_found_and_remembered() {
    in_namespace("both_families_are_found_and_remembered", || async {
        let server = Fake::udp("127.0.0.1", |asked| vec![asked.addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"])]).await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", ONE);
        for _ in 0..3 {
            assert_eq!(resolve(&resolver, "a.example").await, Ok(addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"])));
        }
        let kinds = server.asked().iter().map(|asked| asked.kind).collect::<HashSet<_>>();
        assert_eq!((kinds, server.count()), (HashSet::from([A, AAAA]), 2));
        assert!(server.asked().iter().all(|asked| asked.has_extension && asked.name == "a.example"));
        assert_eq!(resolver.lookup(&name("A.Example."), Family::V6).await, Ok(addresses(&["2001:db8::1"])));
        assert_eq!(server.count(), 2);
    });
}

#[test]
fn nobody_can_foresee_numbers_and_ports() {
    in_namespace("nobody_can_foresee_numbers_and_ports", || async {
        let server = Fake::udp("127.0.0.1", |asked| vec![asked.addresses(&["192.0.2.1"])]).await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", ONE);
        for number in 0..64 {
            assert!(resolver.lookup(&name(&format!("n{number}.example")), Family::V4).await.is_ok());
        }
        let ids = server.asked().iter().map(|asked| asked.id).collect::<Vec<_>>();
        for (what, values) in [("numbers", ids), ("ports", server.ports())] {
            let different = values.iter().collect::<HashSet<_>>();
            assert!(different.len() > 55, "{what}: {values:?}");
            let steps = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect::<HashSet<_>>();
            assert!(steps.len() > 30, "{what} follow a rule: {values:?}");
        }
    });
}

/// What a server, or somebody who knows which port asks, might send instead of an answer.
fn hostile(asked: &Asked) -> Vec<(&'static str, Vec<u8>)> {
    let forged = record(BACK, asked.kind, 60, if asked.kind == A { &[6; 4] } else { &[6; 16] });
    let other_id = Asked { id: asked.id.wrapping_add(1), ..asked.clone() };
    let other_name = Asked { question: question("b.example", asked.kind), ..asked.clone() };
    let other_kind = Asked { question: question(&asked.name, A + AAAA - asked.kind), ..asked.clone() };
    let chain = (0..1000_u16).map(|number| {
        let owner = if number == 0 { BACK.to_vec() } else { [&[4], format!("n{number:03}").as_bytes(), &[0xc0, 0x0e]].concat() };
        record(&owner, CNAME, 60, &[&[4], format!("n{:03}", number + 1).as_bytes(), &[0xc0, 0x0e]].concat())
    });
    let whole = asked.reply(0x8180, std::slice::from_ref(&forged));
    vec![
        ("another number", other_id.reply(0x8180, std::slice::from_ref(&forged))),
        ("another name", other_name.reply(0x8180, std::slice::from_ref(&forged))),
        ("another type", other_kind.reply(0x8180, std::slice::from_ref(&forged))),
        ("no question", message(asked.id, 0x8180, [0, 1, 0, 0], &forged)),
        ("no such name, but whose", message(asked.id, 0x8183, [0, 0, 0, 0], b"")),
        ("the question itself", message(asked.id, 0x0100, [1, 0, 0, 0], &asked.question)),
        ("a name that points to itself", asked.reply(0x8180, &[record(b"\xc0\x1b", asked.kind, 60, &[6; 4])])),
        ("a chain of 1000 names", asked.reply(0x8180, &chain.collect::<Vec<_>>())),
        ("a name that is its own alias", asked.reply(0x8180, &[record(BACK, CNAME, 60, BACK)])),
        ("an address that is too short", asked.reply(0x8180, &[record(BACK, asked.kind, 60, &[6; 3])])),
        ("an answer that is cut", whole[..whole.len() - 1].to_vec()),
        ("a header that is cut", whole[..7].to_vec()),
        ("nothing", Vec::new()),
        ("noise", (0..=255).cycle().take(700).collect()),
    ]
}

#[test]
fn hostile_answers_are_passed_over_and_the_true_one_is_taken() {
    in_namespace("hostile_answers_are_passed_over_and_the_true_one_is_taken", || async {
        let server = Fake::udp("127.0.0.1", |asked| {
            let mut datagrams = hostile(asked).into_iter().map(|(_, datagram)| datagram).collect::<Vec<_>>();
            datagrams.push(asked.addresses(&["192.0.2.1", "2001:db8::1"]));
            datagrams
        })
        .await;
        let scratch = Scratch::new();
        let found = resolve(&scratch.resolver("", ONE), "a.example").await;
        assert_eq!(found, Ok(addresses(&["192.0.2.1", "2001:db8::1"])));
        assert_eq!(server.count(), 2);
    });
}

#[test]
fn hostile_answers_alone_are_no_answer() {
    in_namespace("hostile_answers_alone_are_no_answer", || async {
        // The name of the question chooses the answer.
        let _server = Fake::udp("127.0.0.1", |asked| {
            let number = asked.name.trim_start_matches('n').trim_end_matches(".example").parse::<usize>().unwrap();
            vec![hostile(asked).remove(number).1]
        })
        .await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", ONE);
        let sample = hostile(&Asked { id: 1, name: "x".to_owned(), kind: A, has_extension: true, question: question("x", A) });
        let mut tasks = Vec::new();
        for (number, (what, _)) in sample.into_iter().enumerate() {
            let resolver = resolver.clone();
            tasks.push((what, tokio::spawn(async move { resolve(&resolver, &format!("n{number}.example")).await })));
        }
        for (what, task) in tasks {
            assert_eq!(task.await.unwrap(), Err(ResolveError::NoAnswer), "{what}");
        }
    });
}

#[test]
fn answers_from_elsewhere_are_not_seen() {
    in_namespace("answers_from_elsewhere_are_not_seen", || async {
        let real = UdpSocket::bind("127.0.0.1:53").await.unwrap();
        let forgers = [UdpSocket::bind("127.0.0.9:53").await.unwrap(), UdpSocket::bind("127.0.0.1:54").await.unwrap()];
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", ONE);
        let asking = tokio::spawn(async move { resolver.lookup(&name("a.example"), Family::V4).await });
        let mut buffer = [0; 512];
        let (length, from) = real.recv_from(&mut buffer).await.unwrap();
        let asked = Asked::read(&buffer[..length]);
        for forger in &forgers {
            forger.send_to(&asked.addresses(&["6.6.6.6"]), from).await.unwrap();
        }
        real.send_to(&asked.addresses(&["192.0.2.1"]), from).await.unwrap();
        assert_eq!(asking.await.unwrap(), Ok(addresses(&["192.0.2.1"])));
    });
}

#[test]
fn what_is_cut_comes_whole_over_tcp() {
    in_namespace("what_is_cut_comes_whole_over_tcp", || async {
        let _udp = Fake::udp("127.0.0.1", |asked| vec![asked.reply(0x8380, &[])]).await;
        let tcp = Fake::tcp("127.0.0.1", |asked| match asked.name.as_str() {
            "whole.example" => Some(asked.addresses(&["192.0.2.1"])),
            "wrong.example" => Some(hostile(asked).remove(1).1),
            "cut.example" => Some(asked.reply(0x8380, &[])),
            _ => None,
        })
        .await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", ONE);
        assert_eq!(resolver.lookup(&name("whole.example"), Family::V4).await, Ok(addresses(&["192.0.2.1"])));
        assert_eq!(resolver.lookup(&name("wrong.example"), Family::V4).await, Err(ResolveError::NoAnswer));
        assert_eq!(resolver.lookup(&name("cut.example"), Family::V4).await, Err(ResolveError::Unhelpful));
        assert_eq!(resolver.lookup(&name("closed.example"), Family::V4).await, Err(ResolveError::NoAnswer));
        assert_eq!(tcp.count(), 4);
        let only_tcp = scratch.resolver("", "nameserver 127.0.0.1\noptions use-vc\n");
        assert_eq!(only_tcp.lookup(&name("whole.example"), Family::V4).await, Ok(addresses(&["192.0.2.1"])));
    });
}

#[test]
fn another_server_is_asked_when_one_is_of_no_help() {
    in_namespace("another_server_is_asked_when_one_is_of_no_help", || async {
        let first = Fake::udp("127.0.0.1", |asked| match asked.name.as_str() {
            "silent.example" => vec![],
            "referral.example" => vec![asked.reply(0x8100, &[])],
            "none.example" => vec![asked.code(3)],
            _ => vec![asked.code(2)],
        })
        .await;
        let second = Fake::udp("127.0.0.2", |asked| match asked.name.as_str() {
            "refused.example" => vec![asked.code(5)],
            _ => vec![asked.addresses(&["192.0.2.1"])],
        })
        .await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", TWO);
        for text in ["broken.example", "silent.example", "referral.example"] {
            assert_eq!(resolver.lookup(&name(text), Family::V4).await, Ok(addresses(&["192.0.2.1"])), "{text}");
        }
        assert_eq!((first.count(), second.count()), (3, 3));
        assert_eq!(resolver.lookup(&name("none.example"), Family::V4).await, Err(ResolveError::NoSuchName));
        assert_eq!(second.count(), 3, "that there is no such name is an answer");
        assert_eq!(resolver.lookup(&name("refused.example"), Family::V4).await, Err(ResolveError::Unhelpful));
        let dead_first = scratch.resolver("", "nameserver 127.0.0.3\nnameserver ::1\nnameserver 127.0.0.2\noptions timeout:30\n");
        let start = Instant::now();
        assert_eq!(dead_first.lookup(&name("a.example"), Family::V4).await, Ok(addresses(&["192.0.2.1"])));
        assert!(start.elapsed() < Duration::from_secs(5), "a server that nobody runs is known at once");
    });
}

#[test]
fn a_server_that_knows_no_extensions_is_asked_without() {
    in_namespace("a_server_that_knows_no_extensions_is_asked_without", || async {
        let server = Fake::udp("127.0.0.1", |asked| match asked.has_extension {
            true => vec![message(asked.id, 0x8181, [0; 4], b"")],
            false => vec![asked.addresses(&["192.0.2.1"])],
        })
        .await;
        let scratch = Scratch::new();
        assert_eq!(scratch.resolver("", ONE).lookup(&name("a.example"), Family::V4).await, Ok(addresses(&["192.0.2.1"])));
        assert_eq!(server.count(), 2);
    });
}

#[test]
fn one_family_is_not_kept_waiting_by_the_other() {
    in_namespace("one_family_is_not_kept_waiting_by_the_other", || async {
        let _server =
            Fake::udp("127.0.0.1", |asked| if asked.kind == A { vec![asked.addresses(&["192.0.2.1"])] } else { vec![] }).await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", "nameserver 127.0.0.1\noptions timeout:30\n");
        let start = Instant::now();
        assert_eq!(resolve(&resolver, "a.example").await, Ok(addresses(&["192.0.2.1"])));
        assert!(start.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn files_are_read_again_when_they_change() {
    in_namespace("files_are_read_again_when_they_change", || async {
        let first = Fake::udp("127.0.0.1", |asked| vec![asked.addresses(&["192.0.2.1"])]).await;
        let _second = Fake::udp("127.0.0.2", |asked| vec![asked.addresses(&["192.0.2.2"])]).await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("10.0.0.5 db.internal\n", ONE);
        assert_eq!(resolve(&resolver, "db.internal").await, Ok(addresses(&["10.0.0.5"])));
        assert_eq!(resolver.lookup(&name("db.internal"), Family::V6).await, Ok(vec![]));
        assert_eq!(first.count(), 0, "what is written down is asked of nobody");
        assert_eq!(resolve(&resolver, "a.example").await, Ok(addresses(&["192.0.2.1"])));
        scratch.write("resolv.conf", "nameserver 127.0.0.2\n");
        assert_eq!(resolve(&resolver, "a.example").await, Ok(addresses(&["192.0.2.2"])), "what the old server said is forgotten");
        scratch.write("hosts", "10.0.0.6 db.internal\nfd00::6 a.example\n");
        assert_eq!(resolve(&resolver, "db.internal").await, Ok(addresses(&["10.0.0.6"])));
        assert_eq!(resolve(&resolver, "a.example").await, Ok(addresses(&["fd00::6"])));
        std::fs::remove_file(scratch.path("hosts")).unwrap();
        std::fs::remove_file(scratch.path("resolv.conf")).unwrap();
        assert_eq!(resolve(&resolver, "a.example").await, Ok(addresses(&["192.0.2.1"])), "without files, this machine is asked");
    });
}

#[test]
fn only_names_of_one_part_are_tried_below_the_hosts_domains() {
    in_namespace("only_names_of_one_part_are_tried_below_the_hosts_domains", || async {
        let server = Fake::udp("127.0.0.1", |asked| match asked.name.as_str() {
            "db.two.example" => vec![asked.addresses(&["192.0.2.1"])],
            _ => vec![asked.code(3)],
        })
        .await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", &format!("{ONE}search one.example two.example\n"));
        assert_eq!(resolver.lookup(&name("db"), Family::V4).await, Ok(addresses(&["192.0.2.1"])));
        assert_eq!(resolver.lookup(&name("db.corp"), Family::V4).await, Err(ResolveError::NoSuchName));
        let names = server.asked().iter().map(|asked| asked.name.clone()).collect::<Vec<_>>();
        assert_eq!(names, ["db.one.example", "db.two.example", "db.corp"]);
    });
}

#[test]
fn the_machine_itself_is_never_asked_for() {
    in_namespace("the_machine_itself_is_never_asked_for", || async {
        let server = Fake::udp("127.0.0.1", |asked| vec![asked.addresses(&["127.0.0.1"])]).await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("127.0.0.1 localhost a.localhost\n", ONE);
        for text in ["localhost", "a.localhost", "LOCALHOST.", "b.c.localhost"] {
            assert_eq!(resolve(&resolver, text).await, Err(ResolveError::Loopback), "{text}");
        }
        assert_eq!(server.count(), 0);
    });
}

#[test]
fn questions_under_way_are_bounded_and_end_when_nobody_waits() {
    in_namespace("questions_under_way_are_bounded_and_end_when_nobody_waits", || async {
        let server =
            Fake::udp(
                "127.0.0.1",
                |asked| if asked.name == "quick.example" { vec![asked.addresses(&["192.0.2.1"])] } else { vec![] },
            )
            .await;
        let scratch = Scratch::new();
        let resolver = scratch.resolver("", "nameserver 127.0.0.1\noptions timeout:30\n");
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..300 {
            let resolver = resolver.clone();
            tasks.spawn(async move { resolver.lookup(&name(&format!("n{number}.example")), Family::V4).await });
        }
        eventually("64 questions", || server.count() >= 64).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(server.count(), 64, "the others wait");
        tasks.shutdown().await;
        let start = Instant::now();
        assert_eq!(resolver.lookup(&name("quick.example"), Family::V4).await, Ok(addresses(&["192.0.2.1"])));
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_eq!(server.count(), 65, "who was waiting is not asked for any more");
    });
}
