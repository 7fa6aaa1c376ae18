//! Attaches to a command in the background: reads its output as it comes, gives it input, hears of its end.
//!
//! The output is read from the log. The keeper is told how far we are and gives up nothing that we have not read yet; so a slow
//! reader slows the command down, and no byte is lost.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use whatif_keeper::Client;
use whatif_keeper::client::{Attached as Running, Heard};
use whatif_keeper::log::record::Record;
use whatif_keeper::protocol::{Exited, Finished};
use whatif_types::{Chosen, CommandId, Sandbox, Selector, Status};

use crate::EngineError;
use crate::ground::GroundError;
use crate::ground::ended::has_ended;
use crate::lifecycle::captured::slot;
use crate::lifecycle::logs::{Found, Log, Part};
use crate::lifecycle::{Lifecycle, LifecycleError};

/// A command that we are attached to, or one that had ended before.
#[derive(Debug)]
pub struct Attached {
    pub id: CommandId,
    pub is_terminal: bool,
    /// What it reads: a pipe, or the master of its terminal.
    pub input: Option<OwnedFd>,
    log: Log,
    /// Held open: whoever removes the sandbox removes it too.
    record: File,
    /// Nothing that we have not read is given up while it is connected.
    client: Option<Client>,
    end: End,
}

/// What a keeper says of a command that we are attached to.
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// There is more output, or there will be no more.
    Output,
    /// Nobody can give it input any more.
    InputClosed,
}

/// What can be done without waiting.
#[derive(Default)]
struct Ready {
    keeper: bool,
    input: bool,
    enough: bool,
}

fn is_enough(keeper: Option<BorrowedFd<'_>>, input: Option<BorrowedFd<'_>>, enough: BorrowedFd<'_>) -> Result<Ready, EngineError> {
    let mut fds =
        [PollFd::from_borrowed_fd(enough, PollFlags::IN), slot(keeper, PollFlags::IN, enough), slot(input, PollFlags::OUT, enough)];
    match poll(&mut fds, None) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Ready::default()),
        Err(errno) => return Err(EngineError::io("wait for", Path::new("the command"), errno.into())),
    }
    let [was_enough, was_keeper, was_input] = fds.map(|fd| !fd.revents().is_empty());
    Ok(Ready { enough: was_enough, keeper: keeper.is_some() && was_keeper, input: input.is_some() && was_input })
}

#[derive(Debug)]
enum End {
    NotYet,
    Known(Box<Exited>),
    /// It ended, and its keeper did not get to say how.
    Unknown,
}

impl Attached {
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.log.sandbox
    }

    #[must_use]
    pub fn pid(&self) -> i32 {
        self.log.pid
    }

    /// Up to where in the output everything was read, or told to be gone.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.log.position()
    }

    /// Becomes readable when the keeper says something. `None` when nothing more will be said.
    #[must_use]
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().filter(|_| !self.is_over()).map(Client::as_fd)
    }

    /// Whether the keeper has said something already; then there may be nothing left for `poll` to see.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !self.is_over() && client.has_reply())
    }

    /// What comes next of the output, or `None` if there is nothing more yet.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Option<Part>, EngineError> {
        self.log.next(buffer)
    }

    /// All that was read so far need not be kept for us.
    pub fn has_taken(&mut self, offset: u64) -> Result<(), EngineError> {
        match &mut self.client {
            Some(client) => Ok(client.taken(offset)?),
            None => Ok(()),
        }
    }

    /// To the process group of the command.
    pub fn signal(&mut self, signal: i32) -> Result<(), EngineError> {
        let pid = self.pid();
        match &mut self.client {
            Some(client) => Ok(client.forward_signal(pid, signal)?),
            None => Ok(()),
        }
    }

    /// Nobody gives it input any more.
    pub fn close_input(&mut self) -> Result<(), EngineError> {
        self.input = None;
        match &mut self.client {
            Some(client) => Ok(client.close_input(self.id)?),
            None => Ok(()),
        }
    }

    /// Waits until the command is over. False: `enough` became readable, or was closed, before. Its output is not waited for by
    /// anybody meanwhile: the log holds the latest of it.
    pub fn wait(&mut self, enough: BorrowedFd<'_>) -> Result<bool, EngineError> {
        while !self.is_over() {
            let ready =
                if self.has_news() { Ready { keeper: true, ..Ready::default() } } else { is_enough(self.as_fd(), None, enough)? };
            if ready.enough {
                return Ok(false);
            }
            if ready.keeper {
                self.hear_and_skip()?;
            }
        }
        Ok(true)
    }

    /// Gives it input as it reads, and waits for that. False: it does not want more, or `enough` became readable or was closed.
    pub fn feed(&mut self, mut bytes: &[u8], enough: BorrowedFd<'_>) -> Result<bool, EngineError> {
        while !bytes.is_empty() {
            let Some(input) = self.input.as_ref().filter(|_| !self.is_over()) else { return Ok(false) };
            let ready = is_enough(self.as_fd(), Some(input.as_fd()), enough)?;
            if ready.enough {
                return Ok(false);
            }
            if ready.input {
                // So much fits wherever anything does.
                match rustix::io::write(input, &bytes[..bytes.len().min(rustix::pipe::PIPE_BUF)]) {
                    Ok(written) => bytes = &bytes[written..],
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(_) => return Ok(false),
                }
            }
            if ready.keeper || self.has_news() {
                self.hear_and_skip()?;
            }
        }
        Ok(true)
    }

    fn hear_and_skip(&mut self) -> Result<(), EngineError> {
        if matches!(self.hear()?, News::Output) {
            // The keeper knows where it ends.
            self.has_taken(u64::MAX)?;
        }
        Ok(())
    }

    /// Whether no more output comes than there is.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.end, End::NotYet)
    }

    /// How it ended, once it is over.
    pub fn exited(&self) -> Result<&Exited, EngineError> {
        match &self.end {
            End::Known(exited) => Ok(exited),
            End::NotYet | End::Unknown => {
                Err(LifecycleError::EndUnknown { name: self.log.sandbox.name.clone(), id: self.id }.into())
            }
        }
    }

    /// What the keeper says next; waits for it.
    pub fn hear(&mut self) -> Result<News, EngineError> {
        let finished = match self.client.as_mut().map(Client::hear) {
            Some(Ok(Heard::Finished(finished))) => Some(*finished),
            Some(Ok(Heard::Output)) => return Ok(News::Output),
            Some(Ok(Heard::InputClosed)) => return Ok(News::InputClosed),
            Some(Err(error)) if !has_ended(&error) => return Err(error.into()),
            // It is gone; what it recorded is all there is to know.
            Some(Err(_)) | None => self.recorded()?,
        };
        self.finish(finished)?;
        Ok(News::Output)
    }

    fn finish(&mut self, finished: Option<Finished>) -> Result<(), EngineError> {
        match finished {
            Some(finished) => {
                self.log.reader().end_at(finished.output);
                self.end = End::Known(Box::new(finished.exited));
            }
            None => {
                self.log.bound(false)?;
                self.end = End::Unknown;
            }
        }
        Ok(())
    }

    fn recorded(&self) -> Result<Option<Finished>, EngineError> {
        let record =
            Record::read(&self.record).map_err(|e| EngineError::io("read the record of", Path::new(&self.id.to_string()), e))?;
        Ok(record.and_then(|record| record.finished))
    }
}

impl Lifecycle {
    /// `whatif attach`: to the command that was chosen, or else to the latest that runs, or else to the latest. Reads its output
    /// from `from` on, or all that is kept.
    pub fn attach(&self, which: &Selector, chosen: Option<Chosen>, from: Option<u64>) -> Result<Attached, EngineError> {
        let sandbox = self.ground.resolve_to_use(which)?;
        let (found, id) = self.choose(&sandbox, chosen)?;
        let record = self.open_record(&sandbox, id)?;
        let running = self.connect_to(&sandbox, id, &record, from.unwrap_or(0))?;
        let log = self.open_log(sandbox, &found)?;
        let mut attached = Attached { id, is_terminal: false, input: None, log, record, client: None, end: End::NotYet };
        match running {
            Some((client, running)) => {
                (attached.is_terminal, attached.input, attached.client) = (running.is_terminal, running.input, Some(client));
            }
            None => {
                let finished = attached.recorded()?;
                attached.finish(finished)?;
                // What it left running may have written more.
                attached.log.bound(false)?;
            }
        }
        if let Some(from) = from {
            let end = attached.log.end()?;
            if from > end {
                return Err(LifecycleError::BeyondOutput { id, end, from }.into());
            }
            attached.log.reader().go_to(from);
        }
        Ok(attached)
    }

    fn choose(&self, sandbox: &Sandbox, chosen: Option<Chosen>) -> Result<(Found, CommandId), EngineError> {
        let mut found = self.commands(sandbox)?;
        found.retain(|f| f.id.is_some() && f.is(chosen));
        let is_asked = sandbox.status == Status::Active && chosen.is_none();
        let alive = if is_asked { self.ground.ask(sandbox, |mut client| client.list())?.unwrap_or_default() } else { Vec::new() };
        let runs = |found: &&Found| alive.iter().any(|process| process.id == found.id);
        let best = found.iter().rfind(runs).or(found.last());
        match best.and_then(|found| Some((found.clone(), found.id?))) {
            Some(found) => Ok(found),
            None => Err(LifecycleError::NothingToAttachTo { sandbox: sandbox.name.clone(), chosen }.into()),
        }
    }

    /// `None` if it has ended.
    fn connect_to(
        &self,
        sandbox: &Sandbox,
        id: CommandId,
        record: &File,
        from: u64,
    ) -> Result<Option<(Client, Running)>, EngineError> {
        let recorded = Record::read(record).map_err(|e| EngineError::io("read the record of", Path::new(&id.to_string()), e))?;
        if sandbox.status != Status::Active || recorded.is_some_and(|record| record.finished.is_some()) {
            return Ok(None);
        }
        self.ground.require_our_keeper(sandbox)?;
        let connected =
            self.ground.connect(sandbox).and_then(|mut client| Ok(client.attach(id, from)?.map(|running| (client, running))));
        match connected {
            Err(EngineError::Ground(GroundError::Keeper(error))) if has_ended(&error) => Ok(None),
            other => other,
        }
    }
}
