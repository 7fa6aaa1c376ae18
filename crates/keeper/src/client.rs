//! The engine's side of a connection to a keeper.

mod files;
mod followed;

pub use self::files::Range;
pub use self::followed::Followed;

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

use whatif_cgroup::Freezer;
use whatif_sys::overlay::Overlay;
use whatif_types::CommandId;
use whatif_types::network::{Role, Who};

use crate::channel::{Channel, ChannelError, MOST_DESCRIPTORS};
use crate::protocol::{Access, Entry, Exec, Exited, Failed, Finished, Happening, Process, Reason, Reply, Request, Stats, Text};

/// How long a keeper may take to answer anything but "tell me when it ends".
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it may take to be let in.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// No keeper sends more of a command's output at a time.
const LARGEST_PIECE: usize = 1 << 20;

/// The name of the control socket in a sandbox's directory.
pub const SOCKET: &str = "keeper.sock";

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens: the keeper is gone.
    #[error("the sandbox's keeper is not running")]
    NotRunning,
    /// It is there and says nothing: stopped, or starved.
    #[error("the sandbox's keeper does not answer")]
    NoAnswer,
    #[error("lost the connection to the sandbox's keeper")]
    Channel(#[from] ChannelError),
    #[error("{}", .0.message)]
    Failed(Failed),
    #[error("the keeper answered out of turn")]
    OutOfTurn,
    #[error("cannot use the keeper's socket")]
    Socket(#[source] io::Error),
    /// Of what was to be sent.
    #[error("failed to read what is to be written")]
    Source(#[source] io::Error),
}

impl From<rustix::io::Errno> for ClientError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Socket(errno.into())
    }
}

#[derive(Debug)]
pub struct Client {
    channel: Channel,
    /// What happened to files that are watched, and was heard before an answer.
    heard: Vec<Happening>,
    /// How many answers nobody waited for. They come before any other.
    owed: usize,
    /// The next answer is about overlays.
    asked_for_overlays: bool,
}

/// What a keeper says while a command runs.
#[derive(Debug)]
pub enum News {
    Exited(Box<Exited>),
    /// Somebody inside wants the network, which nobody supervises yet.
    NetworkWanted,
}

/// A command that this client is attached to.
#[derive(Debug)]
pub struct Attached {
    pub pid: i32,
    /// What it reads: a pipe, or the master of its terminal.
    pub input: Option<OwnedFd>,
    pub is_terminal: bool,
    /// All output so far.
    pub end: u64,
}

/// A part of a command's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where in the output it begins.
    pub start: u64,
    pub bytes: Vec<u8>,
}

/// What a keeper says to a client that is attached.
#[derive(Debug)]
pub enum Heard {
    /// There is more output than the client has taken.
    Output,
    /// Whoever holds the other end of its input lets go of it.
    InputClosed,
    Finished(Box<Finished>),
}

/// TCP sockets of a sandbox's network, connected to nothing: for IPv4, and for IPv6 if it has that.
#[derive(Debug)]
pub struct Sockets {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

impl Sockets {
    /// Each with the address of this port on the loopback it belongs to, in the order in which they are to be tried.
    pub fn toward(self, port: u16) -> impl Iterator<Item = (OwnedFd, SocketAddr)> {
        let v4 = (self.v4, SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        std::iter::once(v4).chain(self.v6.map(|v6| (v6, SocketAddr::from((Ipv6Addr::LOCALHOST, port)))))
    }
}

impl Client {
    #[must_use]
    pub fn over(channel: Channel) -> Self {
        Self { channel, heard: Vec::new(), owed: 0, asked_for_overlays: false }
    }

    /// Connects to the keeper of the sandbox in this directory.
    pub fn connect(directory: &Path) -> Result<Self, ClientError> {
        connect_to(directory, SOCKET).map(|socket| Self::over(Channel::new(socket)))
    }

    /// The bare connection, for whoever goes on with it.
    #[must_use]
    pub fn into_socket(self) -> OwnedFd {
        self.channel.into_socket()
    }

    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Whether a reply has arrived already; then there may be nothing left for `poll` to see.
    #[must_use]
    pub fn has_reply(&self) -> bool {
        self.channel.has_frame() || !self.heard.is_empty()
    }

    /// Whether one has arrived, or is arriving.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)];
        self.has_reply() || !matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
    }

    pub fn send(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        Self::sent(self.channel.send(request, descriptors))
    }

    fn sent(sent: Result<(), ChannelError>) -> Result<(), ClientError> {
        match sent {
            Err(ChannelError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Err(ClientError::NoAnswer),
            // It may have said before it left why; that is what the reply will be.
            Err(ChannelError::Closed) => Ok(()),
            other => Ok(other?),
        }
    }

    /// The next reply; a failure the keeper reports is an error here. Whether it said that it ends, or was quicker to do so, is one.
    pub fn reply(&mut self) -> Result<Reply, ClientError> {
        match self.reply_or_end() {
            Err(ClientError::Failed(failed)) if failed.reason == Reason::Ending => Err(ChannelError::Closed.into()),
            other => other,
        }
    }

    /// The same for those to whom it matters that nothing was begun.
    fn reply_or_end(&mut self) -> Result<Reply, ClientError> {
        while self.owed > 0 {
            let answer = self.next_reply();
            // One that has not come may come yet.
            self.owed -= usize::from(!matches!(answer, Err(ClientError::NoAnswer)));
            if !matches!(answer?, Reply::Done) {
                return Err(ClientError::OutOfTurn);
            }
        }
        self.next_reply()
    }

    fn next_reply(&mut self) -> Result<Reply, ClientError> {
        match self.channel.receive() {
            Ok(Reply::Failed(failed)) => Err(ClientError::Failed(failed)),
            Err(ChannelError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Err(ClientError::NoAnswer),
            other => Ok(other?),
        }
    }

    /// Starts a command. With a terminal, its master is returned.
    pub fn exec(&mut self, exec: Exec, descriptors: &[BorrowedFd<'_>]) -> Result<(i32, Option<OwnedFd>), ClientError> {
        self.send(&Request::Exec(Box::new(exec)), descriptors)?;
        self.started()
    }

    /// The answer to an `Exec` already sent.
    pub fn started(&mut self) -> Result<(i32, Option<OwnedFd>), ClientError> {
        loop {
            match self.reply_or_end()? {
                Reply::Started { pid } => return Ok((pid, self.channel.take_descriptor())),
                // The answer to a freezer that was lent just before.
                Reply::Done => {}
                _ => return Err(ClientError::OutOfTurn),
            }
        }
    }

    /// Waits for the end of a command this connection started or asked about.
    pub fn exited(&mut self) -> Result<Exited, ClientError> {
        loop {
            if let News::Exited(exited) = self.news()? {
                return Ok(*exited);
            }
        }
    }

    /// Waits for what there is to know about a command this connection started or asked about.
    pub fn news(&mut self) -> Result<News, ClientError> {
        loop {
            match self.reply() {
                Ok(Reply::Exited(exited)) => return Ok(News::Exited(Box::new(exited))),
                Ok(Reply::NetworkWanted) => return Ok(News::NetworkWanted),
                // Answers to signals and resizes sent meanwhile, and a command that takes its time.
                Ok(Reply::Done) | Err(ClientError::NoAnswer) => {}
                Ok(_) => return Err(ClientError::OutOfTurn),
                Err(error) => return Err(error),
            }
        }
    }

    pub fn wait(&mut self, pid: i32) -> Result<Exited, ClientError> {
        self.send(&Request::Wait { pid }, &[])?;
        self.exited()
    }

    /// `None` if no such command runs.
    pub fn attach(&mut self, id: CommandId, from: u64) -> Result<Option<Attached>, ClientError> {
        self.send(&Request::Attach { id, from }, &[])?;
        match self.reply() {
            Ok(Reply::Attached { pid, has_input, is_terminal, end }) => {
                let mut input = || self.channel.take_descriptor().ok_or(ClientError::OutOfTurn);
                Ok(Some(Attached { pid, input: has_input.then(&mut input).transpose()?, is_terminal, end }))
            }
            Err(ClientError::Failed(failed)) if failed.reason == Reason::NoSuchProcess => Ok(None),
            Ok(_) => Err(ClientError::OutOfTurn),
            Err(error) => Err(error),
        }
    }

    /// Everything up to here need not be kept for this client. The answer is news, if there is any.
    pub fn taken(&mut self, offset: u64) -> Result<(), ClientError> {
        self.send(&Request::Taken { offset }, &[])
    }

    /// What the keeper itself keeps of a command's output from there on. Empty if there is no more yet.
    pub fn read_output(&mut self, id: CommandId, from: u64) -> Result<Piece, ClientError> {
        self.send(&Request::ReadOutput { id, from }, &[])?;
        let Reply::Piece { start, length } = self.reply()? else { return Err(ClientError::OutOfTurn) };
        let mut bytes = vec![0; length.min(LARGEST_PIECE)];
        if length > 0 {
            let pipe = self.channel.take_descriptor().ok_or(ClientError::OutOfTurn)?;
            File::from(pipe).read_exact(&mut bytes).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => ChannelError::Closed,
                _ => ChannelError::Io(error),
            })?;
        }
        Ok(Piece { start, bytes })
    }

    /// Asks without waiting for the answer; `hear` skips it.
    pub fn close_input(&mut self, id: CommandId) -> Result<(), ClientError> {
        self.send(&Request::CloseInput { id }, &[])
    }

    /// What there is to know about the command this client is attached to; waits for it.
    pub fn hear(&mut self) -> Result<Heard, ClientError> {
        loop {
            match self.reply() {
                Ok(Reply::Output { .. }) => return Ok(Heard::Output),
                Ok(Reply::InputClosed) => return Ok(Heard::InputClosed),
                Ok(Reply::Finished(finished)) => return Ok(Heard::Finished(Box::new(finished))),
                // Answers to signals, and to an end of input; whoever they were for may have ended meanwhile.
                Ok(Reply::Done) => {}
                Err(ClientError::Failed(failed)) if failed.reason == Reason::NoSuchProcess => {}
                Ok(_) => return Err(ClientError::OutOfTurn),
                Err(error) => return Err(error),
            }
        }
    }

    pub fn signal(&mut self, pid: i32, signal: i32) -> Result<(), ClientError> {
        self.send(&Request::Signal { pid, signal }, &[])?;
        self.done()
    }

    /// Asks without waiting for the answer; `exited` skips it.
    pub fn forward_signal(&mut self, pid: i32, signal: i32) -> Result<(), ClientError> {
        self.send(&Request::Signal { pid, signal }, &[])
    }

    pub fn forward_resize(&mut self, pid: i32, columns: u16, rows: u16) -> Result<(), ClientError> {
        self.send(&Request::Resize { pid, columns, rows }, &[])
    }

    pub fn list(&mut self) -> Result<Vec<Process>, ClientError> {
        self.ask_for_list()?;
        self.listed()
    }

    /// The first half of `list`: the keeper answers while the caller does something else.
    pub fn ask_for_list(&mut self) -> Result<(), ClientError> {
        self.send(&Request::List, &[])
    }

    /// The second half.
    pub fn listed(&mut self) -> Result<Vec<Process>, ClientError> {
        match self.reply()? {
            Reply::Processes(processes) => Ok(processes),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    pub fn stats(&mut self) -> Result<Stats, ClientError> {
        self.send(&Request::Stats, &[])?;
        match self.reply()? {
            Reply::Stats(stats) => Ok(stats),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    /// Becomes the supervisor of the sandbox's network. The listeners come along.
    pub fn supervise(&mut self) -> Result<Vec<(Role, OwnedFd)>, ClientError> {
        self.send(&Request::Supervise, &[])?;
        match self.reply()? {
            Reply::Supervising(roles) => roles
                .into_iter()
                .map(|role| self.channel.take_descriptor().map(|descriptor| (role, descriptor)).ok_or(ClientError::OutOfTurn))
                .collect(),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    /// Fresh TCP sockets of the sandbox's network.
    pub fn sockets(&mut self) -> Result<Sockets, ClientError> {
        self.send(&Request::Socket, &[])?;
        match self.reply()? {
            Reply::Socket => {
                let first = self.channel.take_descriptor().ok_or(ClientError::OutOfTurn)?;
                Ok(Sockets { v4: first, v6: self.channel.take_descriptor() })
            }
            _ => Err(ClientError::OutOfTurn),
        }
    }

    /// The process inside that has a TCP socket with this address.
    pub fn who(&mut self, local: SocketAddr) -> Result<Option<Who>, ClientError> {
        self.send(&Request::Who { local }, &[])?;
        match self.reply()? {
            Reply::Who(who) => Ok(who),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    /// Opens a regular file inside. The mode is that of the file.
    pub fn open(&mut self, path: &Path, access: Access) -> Result<(File, u32), ClientError> {
        self.send(&Request::Open { path: path.into(), access }, &[])?;
        match self.reply()? {
            Reply::Opened { mode, .. } => {
                let file = self.channel.take_descriptor().ok_or(ClientError::OutOfTurn)?;
                Ok((File::from(file), mode))
            }
            _ => Err(ClientError::OutOfTurn),
        }
    }

    pub fn directory(&mut self, path: &Path) -> Result<Vec<Entry>, ClientError> {
        self.send(&Request::Directory { path: path.into() }, &[])?;
        match self.reply()? {
            Reply::Entries(entries) => Ok(entries),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    pub fn examine(&mut self, path: &Path) -> Result<Option<Entry>, ClientError> {
        self.send(&Request::Examine { path: path.into() }, &[])?;
        match self.reply()? {
            Reply::Examined(entry) => Ok(entry),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    pub fn make_directory(&mut self, path: &Path, mode: u32) -> Result<(), ClientError> {
        self.send(&Request::MakeDirectory { path: Text::from(path), mode }, &[])?;
        self.done()
    }

    pub fn make_link(&mut self, path: &Path, target: &Path) -> Result<(), ClientError> {
        self.send(&Request::MakeLink { path: Text::from(path), target: Text::from(target) }, &[])?;
        self.done()
    }

    /// Holds every process still and tells which ones there are. They go on when `thaw` is called or this client is dropped.
    pub fn freeze(&mut self) -> Result<Vec<Process>, ClientError> {
        self.send(&Request::Freeze, &[])?;
        loop {
            match self.reply()? {
                Reply::Processes(processes) => return Ok(processes),
                // The answer to a freezer that was lent just before.
                Reply::Done => {}
                _ => return Err(ClientError::OutOfTurn),
            }
        }
    }

    /// Whether it would hold something by signals because it has no freezer.
    pub fn wants_freezer(&mut self) -> Result<bool, ClientError> {
        self.send(&Request::WantsFreezer, &[])?;
        match self.reply()? {
            Reply::WantsFreezer(wants) => Ok(wants),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    /// Lends a freezer to hold with. Without waiting for the answer, which `freeze`, `started` and `news` skip: taking processes in
    /// takes some milliseconds.
    pub fn lend_freezer(&mut self, freezer: &Freezer) -> Result<(), ClientError> {
        self.send(&Request::Freezer(freezer.about().clone()), &freezer.descriptors())
    }

    /// To be followed by `thaw`: if this client is dropped before that, the sandbox ends.
    pub fn change_layers(&mut self) -> Result<(), ClientError> {
        self.send(&Request::ChangeLayers, &[])?;
        self.done()
    }

    /// Gives the keeper the overlays that the sandbox consists of, in place of those it has.
    pub fn hand_over(&mut self, overlays: &[Overlay]) -> Result<(), ClientError> {
        let mut chunks = overlays.chunks(MOST_DESCRIPTORS);
        let mut next = Some(chunks.next().unwrap_or_default());
        let mut more = false;
        while let Some(chunk) = next {
            let descriptors: Vec<_> = chunk.iter().map(AsFd::as_fd).collect();
            let is_read_only = chunk.iter().map(Overlay::is_read_only).collect();
            self.send(&Request::HandOver { is_read_only, more }, &descriptors)?;
            self.done()?;
            (next, more) = (chunks.next(), true);
        }
        Ok(())
    }

    /// The overlays that the sandbox consists of, and whether nothing runs in it. Then nothing is started until `thaw`.
    pub fn overlays(&mut self) -> Result<(Vec<Overlay>, bool), ClientError> {
        let mut overlays = Vec::new();
        loop {
            if !std::mem::take(&mut self.asked_for_overlays) {
                self.send(&Request::Overlays { without: overlays.len() }, &[])?;
            }
            let Reply::Overlays { is_read_only, more, held } = self.reply()? else { return Err(ClientError::OutOfTurn) };
            for is_read_only in is_read_only {
                let context = self.channel.take_descriptor().ok_or(ClientError::OutOfTurn)?;
                overlays.push(Overlay::from_parts(context, is_read_only));
            }
            if !more {
                return Ok((overlays, held));
            }
        }
    }

    /// Before anything else is asked: `overlays` then finds the answer, which the keeper gives meanwhile.
    pub fn ask_for_overlays(&mut self) -> Result<(), ClientError> {
        self.asked_for_overlays = true;
        self.send(&Request::Overlays { without: 0 }, &[])
    }

    pub fn thaw(&mut self) -> Result<(), ClientError> {
        self.send(&Request::Thaw, &[])?;
        self.done()
    }

    /// The same together with whatever is asked next, and at the latest by `flush`.
    pub fn thaw_ahead(&mut self) -> Result<(), ClientError> {
        self.owed += 1;
        Ok(self.channel.put(&Request::Thaw)?)
    }

    /// What was to be sent together with something else goes by itself.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        Self::sent(self.channel.flush_all())
    }

    /// The commands that ended lately.
    pub fn ended(&mut self) -> Result<Vec<Exited>, ClientError> {
        self.send(&Request::Ended, &[])?;
        match self.reply()? {
            Reply::Ended(ended) => Ok(ended),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    pub fn layers_changed(&mut self, bytes: u64, files: u64) -> Result<(), ClientError> {
        self.send(&Request::LayersChanged { bytes, files }, &[])?;
        self.done()
    }

    pub fn renew(&mut self, ends_at_ms: Option<u64>) -> Result<(), ClientError> {
        self.send(&Request::Renew { ends_at_ms }, &[])?;
        self.done()
    }

    /// Ends every process, but not the sandbox, and tells which ones there were.
    pub fn end_all(&mut self) -> Result<Vec<Process>, ClientError> {
        self.send(&Request::EndAll, &[])?;
        match self.reply()? {
            Reply::Processes(processes) => Ok(processes),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    /// Ends everything in the sandbox and waits for the keeper to say so.
    pub fn stop(&mut self, grace_ms: u64) -> Result<(), ClientError> {
        self.send(&Request::Stop { grace_ms }, &[])?;
        match self.done() {
            // It may be gone before its answer is.
            Err(ClientError::Channel(ChannelError::Closed)) => Ok(()),
            other => other,
        }
    }

    fn done(&mut self) -> Result<(), ClientError> {
        match self.reply()? {
            Reply::Done => Ok(()),
            _ => Err(ClientError::OutOfTurn),
        }
    }
}

/// Connects to the socket of this name in a directory.
pub fn connect_to(directory: &Path, name: &str) -> Result<OwnedFd, ClientError> {
    let (socket, address, _directory) = socket_in(directory, name)?;
    // Somebody who accepts nobody must not hold up whoever asks.
    set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_PATIENCE))?;
    match connect(&socket, &address) {
        Ok(()) => {
            set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
            Ok(socket)
        }
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => Err(ClientError::NotRunning),
        Err(rustix::io::Errno::AGAIN) => Err(ClientError::NoAnswer),
        Err(errno) => Err(errno.into()),
    }
}

/// The socket a new keeper will listen on.
pub fn listener(directory: &Path) -> Result<OwnedFd, ClientError> {
    listener_at(directory, SOCKET)
}

/// A new socket of this name in a directory.
pub fn listener_at(directory: &Path, name: &str) -> Result<OwnedFd, ClientError> {
    let (socket, address, held) = socket_in(directory, name)?;
    match rustix::fs::unlinkat(&held, name, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    bind(&socket, &address)?;
    listen(&socket, 64)?;
    Ok(socket)
}

/// A socket and the address of the control socket, by way of an opened directory: paths in a socket address are limited to 107
/// bytes, and a state directory may lie deeper than that.
fn socket_in(directory: &Path, name: &str) -> Result<(OwnedFd, SocketAddrUnix, OwnedFd), ClientError> {
    let held = match rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Err(ClientError::NotRunning),
        other => other?,
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", held.as_fd().as_raw_fd()))?;
    Ok((socket, address, held))
}
