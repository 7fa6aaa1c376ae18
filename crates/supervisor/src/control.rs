//! Commands from outside: what goes on, new rules, ports, and questions to a person. One line of JSON each.

mod client;
mod lines;
pub mod protocol;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use whatif_netpolicy::Rule;
use whatif_sys::peer;

pub use self::client::{Answering, ControlClient, ControlError};
use self::lines::Lines;
use self::protocol::{Answer, Operation, PublishedPort, Reply, Said, Status};
use crate::published;
use crate::supervisor::Supervisor;

/// At once. Each is a command that somebody runs.
const MOST_CLIENTS: usize = 64;

pub(crate) fn listener(descriptor: OwnedFd) -> io::Result<UnixListener> {
    let listener = std::os::unix::net::UnixListener::from(descriptor);
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

pub(crate) async fn serve(supervisor: Arc<Supervisor>, listener: UnixListener) {
    let slots = Arc::new(tokio::sync::Semaphore::new(MOST_CLIENTS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
        if !is_ours(&supervisor, &stream) {
            continue;
        }
        let supervisor = Arc::clone(&supervisor);
        tokio::spawn(async move {
            let _ = Conversation { supervisor: &supervisor, lines: Lines::new(stream) }.hold().await;
            drop(slot);
        });
    }
}

/// The socket lies in a directory of the user's own, but a process that was handed a descriptor of it is not the user, and one in a
/// sandbox may have the user's uid.
fn is_ours(supervisor: &Supervisor, stream: &UnixStream) -> bool {
    let is_user = peer::of(stream.as_fd()).is_ok_and(|peer| peer.uid == supervisor.started_by || peer.uid == 0);
    is_user && peer::is_in_namespace(stream.as_fd(), &supervisor.descriptors).is_ok_and(|is_outside| is_outside)
}

struct Conversation<'s> {
    supervisor: &'s Arc<Supervisor>,
    lines: Lines,
}

impl Conversation<'_> {
    async fn hold(mut self) -> io::Result<()> {
        while let Some(line) = self.lines.next().await? {
            let reply = match serde_json::from_slice(&line) {
                Ok(Said::Operation(Operation::Asks)) => return self.hold_asking().await,
                Ok(Said::Operation(operation)) => self.carry_out(operation),
                Ok(Said::Answer { .. }) => Reply::failed("no such question is open"),
                Err(error) => Reply::failed(format!("malformed: {error}")),
            };
            self.lines.send(&reply).await?;
        }
        Ok(())
    }

    fn carry_out(&mut self, operation: Operation) -> Reply {
        let supervisor = self.supervisor;
        match operation {
            Operation::Status => Reply::Status { status: status(supervisor) },
            Operation::Reload => match supervisor.rules.reload(self.lines.take_descriptor()) {
                Ok(()) => {
                    supervisor.connections.review(&supervisor.rules);
                    Reply::done()
                }
                Err(error) => Reply::failed(error.to_string()),
            },
            Operation::Publish { inside } => {
                let Some(listener) = self.lines.take_descriptor() else { return Reply::failed("no listener came along") };
                match published::add(supervisor, listener, inside) {
                    Ok(()) => Reply::done(),
                    Err(error) => Reply::failed(error.to_string()),
                }
            }
            Operation::Unpublish { inside } => {
                if supervisor.published.remove(inside) {
                    Reply::done()
                } else {
                    Reply::failed("that port is not published")
                }
            }
            Operation::Asks => Reply::failed("asked twice"),
        }
    }

    /// From here on questions go out whenever they come up, and answers come in.
    async fn hold_asking(mut self) -> io::Result<()> {
        let asks = &self.supervisor.asks;
        let (number, mut questions) = asks.join();
        let outcome = async {
            self.lines.send(&Reply::done()).await?;
            loop {
                tokio::select! {
                    asked = questions.recv() => match asked {
                        Some(asked) => self.lines.send(&Reply::from(asked)).await?,
                        None => return Ok(()),
                    },
                    line = self.lines.next() => {
                        let Some(line) = line? else { return Ok(()) };
                        if let Ok(Said::Answer { answer }) = serde_json::from_slice(&line) {
                            settle(self.supervisor, number, answer);
                        }
                    }
                }
            }
        };
        let outcome = outcome.await;
        self.supervisor.asks.leave(number);
        outcome
    }
}

/// A yes holds for the life of this supervisor, a no for as long as whoever has said it is there.
fn settle(supervisor: &Supervisor, number: u64, answer: Answer) {
    let Some((host, port)) = supervisor.asks.subject(answer.id) else { return };
    if answer.allow && supervisor.rules.allow(Rule::for_host(&host, port)).is_ok() {
        supervisor.asks.settle_host(&host, port, true);
    } else {
        supervisor.asks.refuse(number, &host, port);
    }
}

fn status(supervisor: &Supervisor) -> Status {
    supervisor.log.settle();
    let (allowed, denied, omitted) = supervisor.log.counts();
    let published = supervisor.published.list().into_iter().map(|(inside, at)| PublishedPort { inside, at }).collect();
    Status {
        connections: supervisor.connections.count(),
        allowed,
        denied,
        omitted,
        turned_away: supervisor.connections.turned_away(),
        published,
        answerers: supervisor.asks.answerers(),
    }
}
