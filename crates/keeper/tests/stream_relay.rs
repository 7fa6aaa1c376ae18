//! Connections and descriptors through a stream: a client's unix socket at one end, a keeper's at the other, a pipe in each direction
//! between them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustix::pipe::pipe;
use whatif_keeper::Channel;
use whatif_keeper::client::{connect_to, listener};
use whatif_keeper::stream::{StreamError, line};
use whatif_keeper::transport::{Accepted, Standing, Stream, Transport};

/// A stream with a socket at the client's end, and the keeper's end in hand.
struct Ends {
    directory: PathBuf,
    line: Option<JoinHandle<StreamError>>,
    keeper: Stream,
}

impl Ends {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("whatif-relay-{}-{name}", std::process::id()));
        std::fs::create_dir(&directory).expect("it works");
        let listener = listener(&directory).expect("it works");
        let ((to_keeper_out, to_keeper), (to_client_out, to_client)) = (pipe().expect("it works"), pipe().expect("it works"));
        let line = std::thread::spawn(move || line::serve(&listener, to_client_out, to_keeper));
        Self { directory, line: Some(line), keeper: Stream::new(to_keeper_out, to_client).expect("it works") }
    }

    fn connect(&self) -> Channel {
        Channel::new(connect_to(&self.directory, "keeper.sock").expect("it works"))
    }

    /// Works at the keeper's end until there is an answer.
    fn until<T>(&mut self, mut ask: impl FnMut(&mut Stream) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            self.keeper.work();
            if let Some(answer) = ask(&mut self.keeper) {
                return answer;
            }
            assert!(Instant::now() < deadline, "it never happened");
            let _ = poll(&mut self.keeper.poll_fds(), Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
        }
    }

    fn accept(&mut self) -> Channel {
        self.until(|keeper| match keeper.accept() {
            Accepted::Client(channel, Standing::Full) => Some(channel),
            Accepted::Nobody => None,
            other => panic!("{other:?}"),
        })
    }

    fn frame(&mut self, channel: &mut Channel) -> String {
        self.until(|_| {
            channel.receive_some().expect("it works");
            channel.take_frame().expect("it works")
        })
    }

    /// Why the client's end says that it is over.
    fn end(mut self) -> StreamError {
        let line = self.line.take().expect("it works");
        let Self { keeper, directory, .. } = self;
        drop(keeper);
        std::fs::remove_dir_all(directory).expect("it works");
        line.join().expect("it works")
    }
}

fn ended(fd: OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::from(fd).read_to_end(&mut bytes).expect("it works");
    bytes
}

#[test]
fn frames_and_their_descriptors_arrive_in_order() {
    let mut ends = Ends::new("order");
    let mut client = ends.connect();
    let (stdin, mut typed) = pipe().map(|(a, b)| (a, File::from(b))).expect("it works");
    let (shown, stdout) = pipe().expect("it works");
    client.send(&"bare", &[]).expect("it works");
    client.send(&"with two", &[stdin.as_fd(), stdout.as_fd()]).expect("it works");
    drop((stdin, stdout));
    let mut keeper = ends.accept();
    assert_eq!(ends.frame(&mut keeper), "bare");
    assert_eq!(ends.frame(&mut keeper), "with two");
    let [from, to] = [(); 2].map(|()| keeper.take_descriptor().expect("it works"));
    typed.write_all(b"in").expect("it works");
    drop(typed);
    File::from(to).write_all(b"out").expect("it works");
    let reader = std::thread::spawn(move || ended(from));
    ends.until(|_| reader.is_finished().then_some(()));
    assert_eq!(reader.join().expect("it works"), b"in");
    let shown = std::thread::spawn(move || ended(shown));
    ends.until(|_| shown.is_finished().then_some(()));
    assert_eq!(shown.join().expect("it works"), b"out");
    keeper.send(&"done", &[]).expect("it works");
    let answer = std::thread::spawn(move || (client.receive::<String>().expect("it works"), client));
    ends.until(|_| answer.is_finished().then_some(()));
    let (answer, client) = answer.join().expect("it works");
    assert_eq!(answer, "done");
    drop(client);
    ends.until(|_| keeper.receive_some().is_err().then_some(()));
    assert!(matches!(ends.end(), StreamError::Closed));
}

#[test]
fn a_descriptor_that_nobody_reads_holds_up_nobody_else() {
    let mut ends = Ends::new("slow");
    let mut client = ends.connect();
    let (unread, stuffed) = pipe().expect("it works");
    client.send(&"stuffed", &[stuffed.as_fd()]).expect("it works");
    drop(stuffed);
    let mut keeper = ends.accept();
    assert_eq!(ends.frame(&mut keeper), "stuffed");
    let to = keeper.take_descriptor().expect("it works");
    rustix::io::ioctl_fionbio(&to, true).expect("it works");
    let (mut sent, mut quiet) = (0_usize, 0);
    ends.until(|_| {
        match rustix::io::write(&to, &[7; 4096]) {
            Ok(length) => (sent, quiet) = (sent + length, 0),
            Err(_) => quiet += 1,
        }
        (quiet == 200).then_some(())
    });
    // Two pipes, a window, and no more.
    assert!((1 << 16..1 << 19).contains(&sent), "{sent} bytes are on their way");
    let mut other = ends.connect();
    other.send(&"another", &[]).expect("it works");
    let mut at_keeper = ends.accept();
    assert_eq!(ends.frame(&mut at_keeper), "another");
    drop(to);
    let reader = std::thread::spawn(move || ended(unread));
    ends.until(|_| reader.is_finished().then_some(()));
    assert_eq!(reader.join().expect("it works").len(), sent, "and all of it arrives");
    ends.end();
}

#[test]
fn a_writer_learns_that_its_reader_is_gone() {
    let mut ends = Ends::new("gone");
    let mut client = ends.connect();
    let (reader, writer) = pipe().expect("it works");
    client.send(&"writes", &[writer.as_fd()]).expect("it works");
    drop((reader, writer));
    let mut keeper = ends.accept();
    ends.frame(&mut keeper);
    let to = keeper.take_descriptor().expect("it works");
    rustix::io::ioctl_fionbio(&to, true).expect("it works");
    ends.until(|_| (rustix::io::write(&to, b"x") == Err(rustix::io::Errno::PIPE)).then_some(()));
    ends.end();
}

#[test]
fn something_else_at_the_other_end_is_told_so() {
    let ((input, mut to_keeper), (from_keeper, output)) =
        (pipe().map(|(a, b)| (a, File::from(b))).expect("it works"), pipe().map(|(a, b)| (File::from(a), b)).expect("it works"));
    let mut keeper = Stream::new(input, output).expect("it works");
    to_keeper.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it works");
    while !keeper.is_over() {
        keeper.work();
    }
    drop(keeper);
    let told = ended(OwnedFd::from(from_keeper));
    assert!(String::from_utf8_lossy(&told).ends_with("the other side does not speak the keeper's stream"));
}

#[test]
fn whoever_leaves_a_socket_in_two_steps_has_left_it() {
    let mut ends = Ends::new("steps");
    let mut client = ends.connect();
    let (theirs, kept) = std::os::unix::net::UnixStream::pair().expect("it works");
    client.send(&"both", &[theirs.as_fd()]).expect("it works");
    drop(theirs);
    let mut keeper = ends.accept();
    ends.frame(&mut keeper);
    let mut socket = std::os::unix::net::UnixStream::from(keeper.take_descriptor().expect("it works"));
    kept.shutdown(std::net::Shutdown::Write).expect("it works");
    socket.set_nonblocking(true).expect("it works");
    ends.until(|_| (socket.read(&mut [0; 1]).ok() == Some(0)).then_some(()));
    drop(kept);
    ends.until(|_| {
        let mut fds = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::OUT)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("it works");
        fds[0].revents().contains(rustix::event::PollFlags::HUP).then_some(())
    });
    ends.end();
}
