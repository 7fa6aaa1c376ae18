//! The end of the sandbox, and that of the supervisor.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use whatif_types::network::EventKind;

use super::servers::Server;
use super::world::{PRIVATE, Wish, address, allowing, eventually, in_world};

#[test]
fn when_the_sandbox_ends_the_supervisor_writes_its_last_lines_and_goes() {
    let name = "ending::when_the_sandbox_ends_the_supervisor_writes_its_last_lines_and_goes";
    in_world(name, allowing(&["10.1.2.3:7"]), |world| {
        let _server = Server::echo(PRIVATE, 7);
        let mut client = world.connect_to(address(PRIVATE, 7));
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        world.end_keeper();
        let status = eventually("the end", || world.supervisor().try_wait().unwrap());
        assert!(status.success(), "{status}");
        let closed = world.event(PRIVATE, EventKind::Closed);
        assert_eq!((closed.sent, closed.received, closed.because.as_str()), (5, 5, "the sandbox ended"));
        assert!(client.read_exact(&mut [0]).is_err());
    });
}

#[test]
fn without_its_supervisor_a_sandbox_has_no_network() {
    in_world("ending::without_its_supervisor_a_sandbox_has_no_network", allowing(&["10.1.2.3:7"]), |world| {
        let server = Server::start(PRIVATE, 7, |_, mut stream| while stream.write_all(&[0; 65536]).is_ok() {});
        let mut client = world.connect_to(address(PRIVATE, 7));
        client.read_exact(&mut [0; 1 << 20]).unwrap();
        world.supervisor().kill().unwrap();
        world.supervisor().wait().unwrap();
        assert!(std::io::copy(&mut client, &mut std::io::sink()).is_err(), "the end looks like the end of the data");
        // The listeners went with it.
        let again = world.inside().run(|| TcpStream::connect_timeout(&address(PRIVATE, 7), Duration::from_secs(5)));
        assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        assert_eq!(server.connections(), 1);
    });
}

#[test]
fn a_supervisor_can_do_nothing_else() {
    in_world("ending::a_supervisor_can_do_nothing_else", Wish::default(), |world| {
        let pid = world.supervisor_pid();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        // The thread that serves, and those it has started; the test runner's own is none of them.
        let confined: Vec<String> = threads
            .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap())
            .filter(|status| status.contains("Seccomp:\t2"))
            .collect();
        assert_eq!(confined.len(), 2, "the server and the link to the keeper");
        for status in confined {
            assert!(status.contains("NoNewPrivs:\t1"), "{status}");
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
            }
            if rustix::process::geteuid().is_root() && std::fs::read_to_string("/proc/self/uid_map").unwrap().contains("4294967295")
            {
                assert!(status.contains("Uid:\t61234\t61234\t61234\t61234") && status.contains("Groups:\t \n"), "{status}");
            }
        }
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        // 1, or 0 where the machine's own limit is that: no file, and no program that core dumps are piped to.
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert!(matches!(core.split_whitespace().collect::<Vec<_>>()[4..6], ["0" | "1", "0" | "1"]), "{core}");
    });
}
