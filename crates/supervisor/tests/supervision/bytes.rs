//! Bytes, ends and resets pass unchanged.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use whatif_types::network::EventKind;

use super::servers::Server;
use super::world::{PRIVATE, Wish, address, allowing, assert_reset, eventually, in_world, read_all};

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

#[test]
fn megabytes_arrive_unchanged_in_both_directions_at_once() {
    in_world("bytes::megabytes_arrive_unchanged_in_both_directions_at_once", allowing(&["10.1.2.3:7"]), |world| {
        let _server = Server::echo(PRIVATE, 7);
        let mut client = world.connect_to(address(PRIVATE, 7));
        let sent = pattern(20 << 20);
        let mut writer = client.try_clone().unwrap();
        let bytes = sent.clone();
        let writing = std::thread::spawn(move || {
            writer.write_all(&bytes).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let (received, end) = read_all(&mut client);
        writing.join().unwrap();
        assert_eq!(end, None);
        assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        let closed = world.event(PRIVATE, EventKind::Closed);
        assert_eq!((closed.sent, closed.received), (20 << 20, 20 << 20));
    });
}

#[test]
fn a_half_closed_connection_goes_on_in_the_other_direction() {
    in_world("bytes::a_half_closed_connection_goes_on_in_the_other_direction", allowing(&["10.1.2.3:7"]), |world| {
        let _server = Server::start(PRIVATE, 7, |server, mut stream| {
            server.each_part(&stream, |_| ());
            stream.write_all(b"you have said it all").unwrap();
        });
        let mut client = world.connect_to(address(PRIVATE, 7));
        client.write_all(b"all").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut client), (b"you have said it all".to_vec(), None));
    });
}

fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_reset_on_one_side_is_one_on_the_other() {
    in_world("bytes::a_reset_on_one_side_is_one_on_the_other", allowing(&["10.1.2.3:7", "10.1.2.3:8"]), |world| {
        let (told, seen) = std::sync::mpsc::channel();
        let told = std::sync::Mutex::new(told);
        let _reads = Server::start(PRIVATE, 7, move |_, mut stream| {
            let outcome = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
            told.lock().unwrap().send(outcome).unwrap();
        });
        let _resets = Server::start(PRIVATE, 8, |_, mut stream| {
            stream.read_exact(&mut [0]).unwrap();
            reset(stream);
        });
        let mut client = world.connect_to(address(PRIVATE, 7));
        client.write_all(b"x").unwrap();
        world.event(PRIVATE, EventKind::Connect);
        reset(client);
        assert_eq!(seen.recv_timeout(Duration::from_secs(10)).unwrap(), Err(std::io::ErrorKind::ConnectionReset));
        let mut client = world.connect_to(address(PRIVATE, 8));
        client.write_all(b"x").unwrap();
        assert_reset(&mut client);
        assert_eq!(world.event(PRIVATE, EventKind::Closed).because, "reset");
    });
}

#[test]
fn a_thousand_connections_at_once_are_served() {
    in_world("bytes::a_thousand_connections_at_once_are_served", allowing(&["10.1.2.3:7"]), |world| {
        let server = Server::echo(PRIVATE, 7);
        raise_limit();
        let mut clients: Vec<TcpStream> = (0..1000).map(|_| world.connect_to(address(PRIVATE, 7))).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.write_all(&pattern(1000 + number)).unwrap();
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let mut answer = vec![0; 1000 + number];
            client.read_exact(&mut answer).unwrap();
            assert!(answer == pattern(1000 + number));
        }
        assert_eq!(world.control().status().unwrap().connections, 1000);
        assert_eq!(server.connections(), 1000);
        let memory = resident_kib(world.supervisor_pid());
        println!("MEASURED 1000 connections: {memory} KiB resident");
        assert!(memory < 24 << 10, "{memory} KiB");
        drop(clients);
        eventually("all of them to end", || (world.control().status().unwrap().connections == 0).then_some(()));
    });
}

fn raise_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn ports_inside_are_reached_from_outside() {
    let wish = Wish { published: vec![3000, 3001], ..Wish::default() };
    in_world("bytes::ports_inside_are_reached_from_outside", wish, |world| {
        let (v4, v6) = world.inside().run(|| {
            let listen = |address: &str| std::net::TcpListener::bind(address).unwrap();
            (listen("127.0.0.1:3000"), listen("[::1]:3001"))
        });
        for (listener, outside) in [v4, v6].into_iter().zip(world.published.clone()) {
            let mut client = TcpStream::connect(outside).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(b"from outside").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut said = String::new();
            server.read_to_string(&mut said).unwrap();
            assert_eq!(said, "from outside");
            server.write_all(b"from inside").unwrap();
            drop(server);
            assert_eq!(read_all(&mut client).0, b"from inside");
        }
        // Nobody listens there any more, and somebody else's loopback is not asked instead.
        let _decoy = Server::echo("127.0.0.1", 3000);
        let mut client = TcpStream::connect(world.published[0]).unwrap();
        assert_reset(&mut client);
    });
}
