//! What becomes of each request.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use whatif_cgroup::Freezer;
use whatif_sys::overlay::Overlay;

use super::commands::LogFiles;
use super::{Server, files, network, who};
use crate::channel::MOST_DESCRIPTORS;
use crate::log::LARGEST_FILE;
use crate::protocol::{Exec, Failed, Reason, Reply, Request, Stdio};

impl Server {
    pub(super) fn answer(&mut self, client: u64, request: Request) {
        // What is looked at must stay as it is, so whoever wants to change it waits, and so does the next one who wants to look.
        let writes = matches!(request, Request::Open { .. } | Request::MakeDirectory { .. } | Request::MakeLink { .. });
        let writes = writes || matches!(&request, Request::Files(about) if about.writes());
        let waits = writes || matches!(request, Request::Exec(_) | Request::Freeze | Request::Overlays { .. });
        let looks = matches!(request, Request::Directory { .. } | Request::Examine { .. } | Request::Files(_));
        if self.frozen.as_ref().is_some_and(|f| f.by != client && (waits || (looks && f.changes_layers))) {
            self.deferred.push((client, request));
            return;
        }
        if waits {
            self.lifetime.was_used();
        }
        let reply = match request {
            Request::Exec(exec) => match self.start(client, &exec) {
                Ok(()) => return,
                Err(failed) => Reply::Failed(failed),
            },
            Request::Signal { pid, signal } => self.commands.signal(pid, signal),
            Request::Resize { pid, columns, rows } => self.commands.resize(pid, columns, rows),
            Request::Wait { pid } => match self.commands.wait(client, pid) {
                Some(reply) => reply,
                None => return,
            },
            Request::Attach { id, from } => return self.commands.attach(client, id, from, &mut self.connections),
            Request::Taken { offset } => return self.commands.has_taken(client, offset, &mut self.connections),
            Request::ReadOutput { id, from } => match self.commands.read_output(id, from) {
                Ok((reply, piece)) => {
                    let piece: Vec<_> = piece.iter().map(AsFd::as_fd).collect();
                    return self.connections.send(client, &reply, &piece);
                }
                Err(failed) => Reply::Failed(failed),
            },
            Request::CloseInput { id } => self.commands.close_input(id, &mut self.connections),
            Request::List => match self.others_and_dead() {
                Ok(processes) => Reply::Processes(processes),
                Err(error) => Reply::Failed(unlisted(Reason::Refused, &error)),
            },
            Request::Stats => match self.stats() {
                Ok(stats) => Reply::Stats(stats),
                Err(error) => Reply::Failed(unlisted(Reason::Refused, &error)),
            },
            Request::Ended => Reply::Ended(self.commands.latest()),
            Request::LayersChanged { bytes, files } => {
                self.commands.watch.layers_changed(bytes, files);
                Reply::Done
            }
            Request::Renew { ends_at_ms } => {
                self.lifetime.renew(ends_at_ms);
                Reply::Done
            }
            Request::Supervise => match self.network.supervise(client) {
                Some((roles, listeners)) => return self.connections.send(client, &Reply::Supervising(roles), &listeners),
                None => Reply::Failed(Failed { reason: Reason::Supervised, ..refused("its network is supervised already") }),
            },
            Request::Socket => match network::sockets() {
                Ok(sockets) => {
                    let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
                    return self.connections.send(client, &Reply::Socket, &sockets);
                }
                Err(errno) => Reply::Failed(Failed { errno: errno.raw_os_error(), ..refused("no socket can be made") }),
            },
            Request::Who { local } => Reply::Who(who::owner_of(local)),
            Request::Open { path, access } => match files::open(&path.to_path(), access) {
                Ok((file, reply)) => return self.connections.send(client, &reply, &[file.as_fd()]),
                Err(error) => files::failed(&path.to_path(), &error),
            },
            Request::Directory { path } => files::directory(&path.to_path()),
            Request::MakeDirectory { path, mode } => files::make_directory(&path.to_path(), mode),
            Request::MakeLink { path, target } => files::make_link(&path.to_path(), &target.to_path()),
            Request::Examine { path } => files::examine(&path.to_path()),
            Request::Files(request) => return self.answer_about_files(client, request),
            Request::Freeze => self.freeze(client),
            Request::WantsFreezer => Reply::WantsFreezer(self.wants_freezer()),
            Request::Freezer(about) => match Freezer::from_parts(about, &mut || self.connections.take_descriptor(client)) {
                Some(freezer) => {
                    self.take_freezer(freezer);
                    Reply::Done
                }
                None => Reply::Failed(refused("a descriptor is missing")),
            },
            Request::ChangeLayers => match self.frozen.as_mut().filter(|f| f.by == client) {
                Some(frozen) => {
                    frozen.changes_layers = true;
                    self.files.jobs.give_up(&mut self.connections);
                    self.files.watches.let_go();
                    Reply::Done
                }
                None => Reply::Failed(refused("the sandbox is not held still")),
            },
            Request::HandOver { is_read_only, more } => match self.take_over(client, &is_read_only, more) {
                Ok(()) => Reply::Done,
                Err(failed) => Reply::Failed(failed),
            },
            Request::Overlays { without } => return self.send_overlays(client, without),
            Request::Thaw => {
                self.thaw(client);
                Reply::Done
            }
            Request::EndAll => self.end_all(),
            Request::Stop { grace_ms } => return self.begin_stop(client, Duration::from_millis(grace_ms)),
            Request::Settle | Request::Boot { .. } | Request::Bounds { .. } => {
                Reply::Failed(Failed { reason: Reason::Refused, message: "this keeper has booted".into(), errno: 0 })
            }
        };
        self.connections.send(client, &reply, &[]);
    }

    fn take_over(&mut self, client: u64, is_read_only: &[bool], more: bool) -> Result<(), Failed> {
        if !self.frozen.as_ref().is_some_and(|f| f.by == client && f.changes_layers) {
            return Err(refused("the layers of the sandbox do not change"));
        }
        let mut take = |is_read_only| Some(Overlay::from_parts(self.connections.take_descriptor(client)?, is_read_only));
        let taken = is_read_only.iter().map(|is_read_only| take(*is_read_only)).collect::<Option<Vec<_>>>();
        let taken = taken.ok_or_else(|| refused("a descriptor is missing"))?;
        if !more {
            self.overlays.clear();
        }
        self.overlays.extend(taken);
        Ok(())
    }

    fn send_overlays(&mut self, client: u64, without: usize) {
        let held = self.hold_if_idle(client);
        let rest = self.overlays.get(without..).unwrap_or_default();
        let sent = &rest[..rest.len().min(MOST_DESCRIPTORS)];
        let is_read_only = sent.iter().map(Overlay::is_read_only).collect();
        let reply = Reply::Overlays { is_read_only, more: sent.len() < rest.len(), held };
        let descriptors: Vec<_> = sent.iter().map(AsFd::as_fd).collect();
        self.connections.send(client, &reply, &descriptors);
    }

    fn start(&mut self, client: u64, exec: &Exec) -> Result<(), Failed> {
        if self.stopping.is_some() {
            return Err(Failed { reason: Reason::Ending, ..refused("the sandbox is ending") });
        }
        let mut passed = Vec::new();
        for _ in exec.stdio.iter().filter(|s| **s == Stdio::Passed) {
            passed.push(self.connections.take_descriptor(client).ok_or_else(|| refused("a descriptor is missing"))?);
        }
        let log = if let Some(id) = exec.id.filter(|_| exec.detached && exec.keeps_output) {
            if exec.errors_apart {
                return Err(refused("output that is kept in memory is kept as one"));
            }
            Some(self.commands.keep(id)?)
        } else if exec.detached {
            let mut file = || self.connections.take_descriptor(client).map(File::from).ok_or_else(|| refused("the log is missing"));
            let files = [file()?, file()?];
            let record = exec.id.map(|_| file()).transpose()?;
            let errors = if exec.errors_apart { Some([file()?, file()?]) } else { None };
            Some(LogFiles { files, record, errors, largest: LARGEST_FILE })
        } else {
            None
        };
        // Nothing begins in a group that is frozen, if whoever holds it starts something.
        let freezer = self.freezer.as_deref().filter(|_| self.frozen.is_none());
        self.commands.start(client, exec, &passed, log, freezer).map_err(|e| {
            self.commands.keep_not(exec.id.filter(|_| exec.keeps_output));
            Failed {
                reason: Reason::CannotExecute,
                message: format!("failed to start a process: {e}"),
                errno: e.raw_os_error().unwrap_or(0),
            }
        })
    }
}

/// The kernel does not say what is alive, so nothing is done that depends on it.
pub(super) fn unlisted(reason: Reason, error: &io::Error) -> Failed {
    let message = format!("the processes of the sandbox cannot be listed: {error}");
    Failed { reason, message, errno: error.raw_os_error().unwrap_or(0) }
}

fn refused(message: &str) -> Failed {
    Failed { reason: Reason::Refused, message: message.to_owned(), errno: 0 }
}
