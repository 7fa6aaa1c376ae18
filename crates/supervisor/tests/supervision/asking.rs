//! Questions to a person.

use std::io::{Read, Write};

use whatif_supervisor::control::Answering;
use whatif_supervisor::control::protocol::{Ask, Asked};

use super::hello::hello;
use super::servers::Server;
use super::world::{PUBLIC, Wish, allowing, assert_reset, eventually, in_world, read_all};

/// The next one, whatever else is said meanwhile.
fn question(person: &mut Answering) -> Ask {
    loop {
        if let Asked::Question(ask) = person.hear().unwrap().unwrap() {
            return ask;
        }
    }
}

fn asking() -> Wish {
    Wish { ask: true, deny: vec!["never.test"], ..allowing(&["other.test"]) }
}

#[test]
fn a_yes_lets_all_that_wait_through_and_is_remembered() {
    in_world("asking::a_yes_lets_all_that_wait_through_and_is_remembered", asking(), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 443);
        let mut person = world.control().answering().unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| world.connect("a.test", 443)).collect();
        for client in &mut waiting {
            client.write_all(&hello("a.test")).unwrap();
        }
        let ask = question(&mut person);
        assert_eq!((ask.host.as_str(), ask.port), ("a.test", 443));
        assert!(ask.rule.starts_with("a.test"), "{}", ask.rule);
        assert_eq!(server.connections(), 0);
        person.answer(ask.id, true).unwrap();
        for client in &mut waiting {
            client.read_exact(&mut vec![0; hello("a.test").len()]).unwrap();
        }
        drop(person);
        eventually("nobody to ask", || (world.control().status().unwrap().answerers == 0).then_some(()));
        let mut later = world.connect("a.test", 443);
        later.write_all(&hello("a.test")).unwrap();
        later.read_exact(&mut [0]).unwrap();
        world.control().reload().unwrap();
        later.read_exact(&mut [0]).unwrap();
    });
}

#[test]
fn a_no_and_a_person_who_leaves_deny() {
    in_world("asking::a_no_and_a_person_who_leaves_deny", asking(), |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = Server::echo(PUBLIC, 443);
        let mut person = world.control().answering().unwrap();
        let mut refused = world.connect("a.test", 443);
        let ask = question(&mut person);
        person.answer(ask.id, false).unwrap();
        assert_reset(&mut refused);
        // A no holds, and nobody is asked about it again; another port is another question.
        world.assert_name_denied("a.test", 443);
        let mut again = world.connect("a.test", 8443);
        let second = question(&mut person);
        assert_eq!((second.host.as_str(), second.port), ("a.test", 8443));
        // An answer to what nobody asks any more means nothing.
        person.answer(ask.id, true).unwrap();
        drop(person);
        assert_reset(&mut again);
        // Nobody is there to be asked.
        world.assert_name_denied("a.test", 443);
        assert_eq!(server.connections(), 0);
        assert_eq!(world.connections_to("a.test").iter().filter(|event| !event.allowed).count(), 4);
        // Somebody else may say otherwise.
        let mut person = world.control().answering().unwrap();
        let mut later = world.connect("a.test", 443);
        let ask = question(&mut person);
        assert_eq!(ask.port, 443);
        person.answer(ask.id, true).unwrap();
        later.write_all(&hello("a.test")).unwrap();
        later.read_exact(&mut [0]).unwrap();
    });
}

#[test]
fn somebody_who_was_announced_is_waited_for_but_not_long() {
    let wish = Wish { is_answered: true, ..asking() };
    in_world("asking::somebody_who_was_announced_is_waited_for_but_not_long", wish, |world| {
        let mut early = world.connect("a.test", 443);
        eventually("the early one", || (world.control().status().unwrap().connections == 1).then_some(()));
        let mut person = world.control().answering().unwrap();
        let ask = question(&mut person);
        assert_eq!(ask.host, "a.test");
        person.answer(ask.id, false).unwrap();
        assert_reset(&mut early);
        drop(person);
        eventually("nobody to ask", || (world.control().status().unwrap().answerers == 0).then_some(()));
        let begun = std::time::Instant::now();
        world.assert_name_denied("b.test", 443);
        assert!(begun.elapsed().as_secs() < 2, "nobody is announced any more");
    });
}

#[test]
fn somebody_who_was_announced_and_does_not_come_denies() {
    let wish = Wish { is_answered: true, ..asking() };
    in_world("asking::somebody_who_was_announced_and_does_not_come_denies", wish, |world| {
        world.assert_name_denied("a.test", 443);
        world.assert_name_denied("b.test", 443);
    });
}

#[test]
fn what_a_rule_denies_is_not_asked_about() {
    in_world("asking::what_a_rule_denies_is_not_asked_about", asking(), |world| {
        let mut person = world.control().answering().unwrap();
        let mut denied = world.connect_to_proxy();
        denied.write_all(b"CONNECT never.test:443 HTTP/1.1\r\nHost: never.test:443\r\n\r\n").unwrap();
        assert!(read_all(&mut denied).0.starts_with(b"HTTP/1.1 403 "));
        world.assert_denied(super::world::address("169.254.169.254", 443));
        let mut asked = world.connect("last.test", 443);
        let ask = question(&mut person);
        assert_eq!(ask.host, "last.test");
        person.answer(ask.id, false).unwrap();
        assert_reset(&mut asked);
    });
}

#[test]
fn a_question_is_withdrawn_when_it_is_settled_elsewhere_or_nobody_waits() {
    in_world("asking::a_question_is_withdrawn_when_it_is_settled_elsewhere_or_nobody_waits", asking(), |world| {
        let mut first = world.control().answering().unwrap();
        let mut second = world.control().answering().unwrap();
        let mut client = world.connect("a.test", 443);
        let ask = question(&mut first);
        assert_eq!(question(&mut second), ask);
        first.answer(ask.id, false).unwrap();
        assert_reset(&mut client);
        assert_eq!(second.hear().unwrap(), Some(Asked::Withdrawn(ask.id)), "the other terminal need not answer");
        let client = world.connect("b.test", 443);
        let ask = question(&mut second);
        // Reset: whether somebody still has a connection that only ends is the keeper's to know, and this one knows nothing.
        rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        assert_eq!(second.hear().unwrap(), Some(Asked::Withdrawn(ask.id)), "the client has given up");
    });
}

#[test]
fn more_than_a_few_questions_are_denied_for_now() {
    in_world("asking::more_than_a_few_questions_are_denied_for_now", asking(), |world| {
        let mut person = world.control().answering().unwrap();
        let waiting: Vec<_> = (0..5).map(|n| world.connect(&format!("{n}.test"), 443)).collect();
        let asks: Vec<_> = (0..5).map(|_| question(&mut person)).collect();
        for n in 5..20 {
            world.assert_name_denied(&format!("{n}.test"), 443);
        }
        let Some(Asked::TooMany(unasked)) = person.hear().unwrap() else { panic!("it is said") };
        assert_eq!(unasked.host, "5.test");
        person.answer(asks[0].id, false).unwrap();
        assert_eq!(person.hear().unwrap(), Some(Asked::Withdrawn(asks[0].id)), "it is said once");
        drop(waiting);
    });
}
