//! Commands from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use whatif_types::network::EventKind;

use super::hello::hello;
use super::servers::Server;
use super::world::{PRIVATE, PUBLIC, Wish, address, allowing, assert_reset, eventually, in_world, read_all};

#[test]
fn new_rules_hold_at_once_and_cut_what_they_no_longer_allow() {
    let wish = allowing(&["10.1.2.3:7", "10.1.2.3:8", "a.test:443"]);
    in_world("control::new_rules_hold_at_once_and_cut_what_they_no_longer_allow", wish, |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let _servers = [Server::echo(PRIVATE, 7), Server::echo(PRIVATE, 8), Server::echo(PUBLIC, 443)];
        let mut stays = world.connect_to(address(PRIVATE, 7));
        let mut goes = world.connect_to(address(PRIVATE, 8));
        let mut named = world.connect("a.test", 443);
        let talk = |stream: &mut TcpStream, said: &[u8]| {
            stream.write_all(said).unwrap();
            stream.read_exact(&mut vec![0; said.len()]).unwrap();
        };
        talk(&mut stays, b"one");
        talk(&mut goes, b"one");
        talk(&mut named, &hello("a.test"));
        world.set_rules(&Wish { deny: vec!["*.test", "a.test"], ..allowing(&["10.1.2.3:7", "a.test:443"]) });
        assert_reset(&mut goes);
        assert_reset(&mut named);
        talk(&mut stays, b"two");
        world.assert_denied(address(PRIVATE, 8));
        assert!(world.event("a.test", EventKind::Closed).because.contains("denies it"));
        // What cannot be read changes nothing.
        std::fs::write(world.directory().join("network.json"), "{").unwrap();
        assert!(world.control().reload().unwrap_err().to_string().contains("malformed"));
        talk(&mut stays, b"three");
    });
}

#[test]
fn a_file_that_comes_along_is_read_instead() {
    in_world("control::a_file_that_comes_along_is_read_instead", Wish::default(), |world| {
        let _server = Server::echo(PRIVATE, 7);
        world.assert_denied(address(PRIVATE, 7));
        let path = world.directory().join("elsewhere");
        std::fs::write(&path, r#"{"allow":["10.1.2.3:7"]}"#).unwrap();
        world.control().reload_from(std::fs::File::open(path).unwrap()).unwrap();
        let mut client = world.connect_to(address(PRIVATE, 7));
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
    });
}

#[test]
fn ports_are_published_and_withdrawn() {
    in_world("control::ports_are_published_and_withdrawn", Wish::default(), |world| {
        let server = world.inside().run(|| TcpListener::bind("127.0.0.1:3000").unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut control = world.control();
        control.publish(3000, &listener).unwrap();
        drop(listener);
        let status = control.status().unwrap();
        assert_eq!((status.published.len(), status.published[0].inside, status.published[0].at), (1, 3000, at));
        let mut client = TcpStream::connect(at).unwrap();
        server.accept().unwrap().0.write_all(b"inside").unwrap();
        assert_eq!(read_all(&mut client).0, b"inside");
        control.unpublish(3000).unwrap();
        eventually("the listener to close", || TcpStream::connect(at).is_err().then_some(()));
        assert!(control.unpublish(3000).is_err());
        assert!(world.control().status().unwrap().published.is_empty());
    });
}

#[test]
fn nonsense_is_answered_or_ends_the_conversation() {
    in_world("control::nonsense_is_answered_or_ends_the_conversation", Wish::default(), |world| {
        let mut socket = world.control_socket();
        for nonsense in
            ["", "{", "[]", r#"{"op":"format"}"#, r#"{"op":"publish","inside":80}"#, r#"{"answer":{"id":1,"allow":true}}"#]
        {
            socket.write_all(format!("{nonsense}\n").as_bytes()).unwrap();
            let mut line = String::new();
            BufReader::new(socket.try_clone().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains(r#""ok":false"#), "{nonsense}: {line}");
        }
        let _ = socket.write_all(&vec![b'x'; 70 << 10]);
        let _ = socket.write_all(b"\n");
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.is_empty());
        world.control().status().unwrap();
    });
}
