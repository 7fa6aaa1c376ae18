//! Clients that are attached to a command that was detached.

use whatif_types::CommandId;

use super::commands::Commands;
use super::connections::Connections;
use super::log::Log;
use crate::protocol::{Failed, Reason, Reply};

impl Commands {
    /// Of the commands that run, and of those that ended and have not been read to their end.
    pub(super) fn logs(&mut self) -> impl Iterator<Item = &mut Log> {
        self.running.iter_mut().flat_map(|r| r.log.iter_mut().chain(&mut r.errors)).chain(&mut self.open_logs)
    }

    /// A client is attached to one command at most.
    pub(super) fn attach(&mut self, client: u64, id: CommandId, from: u64, connections: &mut Connections) {
        self.logs().for_each(|log| log.detach(client));
        if let Some(running) = self.running.iter_mut().find(|r| r.id() == Some(id)) {
            let (pid, is_terminal) = (running.pid, running.terminal.is_some());
            let end = running.log.as_ref().map_or(0, Log::end);
            let input = running.takes_input();
            let reply = Reply::Attached { pid, has_input: input.is_some(), is_terminal, end };
            connections.send(client, &reply, &input.into_iter().collect::<Vec<_>>());
            if let Some(log) = &mut running.log {
                log.attach(client, from);
                log.tell(connections);
            }
            return;
        }
        // One that ended is waited for only as long as others have not read what it wrote.
        match self.open_logs.iter_mut().find(|log| log.id == Some(id) && log.finished().is_none()) {
            Some(log) => {
                let reply = Reply::Attached { pid: log.pid(), has_input: false, is_terminal: false, end: log.end() };
                connections.send(client, &reply, &[]);
                log.attach(client, from);
                log.tell(connections);
            }
            None => match self.ended_before(id) {
                Some(told) => told.iter().for_each(|reply| connections.send(client, reply, &[])),
                None => connections.send(client, &no_such_command(id), &[]),
            },
        }
    }

    pub(super) fn has_taken(&mut self, client: u64, offset: u64, connections: &mut Connections) {
        for log in self.logs() {
            log.has_taken(client, offset);
            log.tell(connections);
        }
    }

    /// Whoever else is attached has the other end too, and is told to let go of it.
    pub(super) fn close_input(&mut self, id: CommandId, connections: &mut Connections) -> Reply {
        let Some(running) = self.running.iter_mut().find(|r| r.id() == Some(id)) else { return no_such_command(id) };
        if running.input.take().is_some() {
            for client in running.log.iter().flat_map(Log::readers) {
                connections.send(client, &Reply::InputClosed, &[]);
            }
        }
        Reply::Done
    }

    /// The keeper ends: what the commands wrote last is kept, and everybody who is attached hears of their end.
    pub(super) fn close_logs(&mut self, connections: &mut Connections) {
        self.logs().for_each(|log| log.close(connections));
    }
}

fn no_such_command(id: CommandId) -> Reply {
    let message = format!("no command {id} is running in the sandbox");
    Reply::Failed(Failed { reason: Reason::NoSuchProcess, message, errno: 3 })
}
