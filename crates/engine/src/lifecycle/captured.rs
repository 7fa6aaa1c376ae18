//! A command whose output we read ourselves: watched until it ends, or until somebody has had enough of it.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};
use whatif_keeper::Client;
use whatif_keeper::client::News;
use whatif_keeper::protocol::{Exited, Stdio};
use whatif_types::Sandbox;

use crate::EngineError;
use crate::lifecycle::Lifecycle;

/// What is between such a command and us.
pub(crate) struct Pipes {
    output: File,
    input: Option<Input>,
    /// The command's ends.
    passed: Vec<OwnedFd>,
    heard: Heard,
}

/// Which of its streams are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Standard output and standard error, as one.
    Both,
    /// What it says on standard error goes nowhere.
    Output,
}

/// What the command has not read yet.
struct Input {
    to: OwnedFd,
    rest: Vec<u8>,
}

impl Pipes {
    pub fn new(input: Option<&[u8]>, heard: Heard) -> Result<Self, EngineError> {
        let made = || -> Result<Self, Errno> {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            ioctl_fionbio(&reader, true)?;
            let output = File::from(reader);
            let Some(bytes) = input else { return Ok(Self { output, input: None, passed: vec![writer], heard }) };
            let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
            // The command may never read; then our writing must not wait.
            ioctl_fionbio(&to, true)?;
            Ok(Self { output, input: Some(Input { to, rest: bytes.to_vec() }), passed: vec![from, writer], heard })
        };
        made().map_err(|e| EngineError::io("open", Path::new("a pipe"), e.into()))
    }

    pub fn stdio(&self) -> [Stdio; 3] {
        let input = if self.input.is_some() { Stdio::Passed } else { Stdio::Null };
        let errors = if self.heard == Heard::Both { Stdio::Passed } else { Stdio::Null };
        [input, Stdio::Passed, errors]
    }

    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let again = self.passed.last().filter(|_| self.heard == Heard::Both);
        self.passed.iter().chain(again).map(AsFd::as_fd).collect()
    }

    /// What is there, but no more than a pipe holds: whoever writes faster than we read must not keep us from everything else.
    fn drain(&mut self, sink: &mut dyn FnMut(&[u8])) {
        let mut piece = [0; 32 << 10];
        let mut room = rustix::pipe::fcntl_getpipe_size(&self.output).unwrap_or(piece.len());
        while room > 0
            && let Ok(length @ 1..) = self.output.read(&mut piece)
        {
            sink(&piece[..length]);
            room = room.saturating_sub(length);
        }
    }

    fn write(&mut self) {
        let Some(input) = &mut self.input else { return };
        match rustix::io::write(&input.to, &input.rest) {
            Ok(written) => _ = input.rest.drain(..written),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // It does not want more.
            Err(_) => input.rest.clear(),
        }
        if input.rest.is_empty() {
            self.input = None;
        }
    }
}

impl Lifecycle {
    /// Until the command ends; `None` if `enough` became readable before. What it prints goes to the sink.
    pub(crate) fn watch(
        &self,
        sandbox: &Sandbox,
        client: &mut Client,
        mut pipes: Pipes,
        enough: Option<BorrowedFd<'_>>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Exited>, EngineError> {
        // Ours would keep the output open for ever.
        pipes.passed.clear();
        let failed = |e: Errno| EngineError::io("wait for", Path::new("the command"), e.into());
        let mut is_open = true;
        loop {
            pipes.drain(sink);
            let ready = wait(client, &pipes, is_open, enough).map_err(failed)?;
            if ready.enough {
                return Ok(None);
            }
            is_open &= !ready.is_output_closed;
            if ready.input {
                pipes.write();
            }
            // A process left behind may hold the pipe, so it is the command's own end that counts.
            if client.has_reply() || ready.keeper {
                match client.news()? {
                    News::Exited(exited) => {
                        pipes.drain(sink);
                        return Ok(Some(*exited));
                    }
                    News::NetworkWanted => self.network.supervise(sandbox)?,
                }
            }
        }
    }
}

struct Ready {
    keeper: bool,
    enough: bool,
    input: bool,
    is_output_closed: bool,
}

fn wait(client: &Client, pipes: &Pipes, is_open: bool, enough: Option<BorrowedFd<'_>>) -> Result<Ready, Errno> {
    if client.has_reply() {
        return Ok(Ready { keeper: true, enough: false, input: false, is_output_closed: false });
    }
    let keeper = client.as_fd();
    let output = is_open.then(|| pipes.output.as_fd());
    let input = pipes.input.as_ref().map(|input| input.to.as_fd());
    let mut fds = [
        PollFd::from_borrowed_fd(keeper, PollFlags::IN),
        slot(enough, PollFlags::IN, keeper),
        slot(input, PollFlags::OUT, keeper),
        slot(output, PollFlags::IN, keeper),
    ];
    match poll(&mut fds, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno),
    }
    let [keeper, was_enough, was_input, was_output] = fds.map(|fd| fd.revents());
    Ok(Ready {
        keeper: !keeper.is_empty(),
        enough: enough.is_some() && !was_enough.is_empty(),
        input: input.is_some() && !was_input.is_empty(),
        is_output_closed: is_open && was_output.contains(PollFlags::HUP) && !was_output.contains(PollFlags::IN),
    })
}

/// In the place of what is not there stands something that is asked nothing.
pub(crate) fn slot<'a>(fd: Option<BorrowedFd<'a>>, flags: PollFlags, otherwise: BorrowedFd<'a>) -> PollFd<'a> {
    fd.map_or(PollFd::from_borrowed_fd(otherwise, PollFlags::empty()), |fd| PollFd::from_borrowed_fd(fd, flags))
}
