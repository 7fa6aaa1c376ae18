//! What becomes of each request about files.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::Errno;

use super::fill::Fill;
use super::jobs::{Jobs, Work};
use super::list::List;
use super::place::Trouble;
use super::watch::Watches;
use super::{change, look};
use crate::protocol::{FileReply, FileRequest, Reply};
use crate::server::Server;

/// What the keeper does about files beyond one answer.
pub(in crate::server) struct Files {
    pub jobs: Jobs,
    pub watches: Watches,
}

impl Files {
    pub(in crate::server) fn new() -> Self {
        Self { jobs: Jobs::new(), watches: Watches::new() }
    }
}

impl Server {
    pub(in crate::server) fn answer_about_files(&mut self, client: u64, request: FileRequest) {
        let path = match &request {
            FileRequest::Finish { .. } => Path::new("").to_owned(),
            FileRequest::Move { from, .. } => from.to_path(),
            FileRequest::Stat { path, .. }
            | FileRequest::List { path, .. }
            | FileRequest::Read { path, .. }
            | FileRequest::Write { path, .. }
            | FileRequest::Append { path, .. }
            | FileRequest::Delete { path, .. }
            | FileRequest::MakeDirectories { path, .. }
            | FileRequest::Watch { path } => path.to_path(),
        };
        match self.do_to_file(client, &path, request) {
            Ok(Some(reply)) => self.connections.send(client, &reply, &[]),
            Ok(None) => {}
            Err(trouble) => self.connections.send(client, &Reply::Failed(trouble.with(&path)), &[]),
        }
    }

    /// The answer, unless there is none yet.
    fn do_to_file(&mut self, client: u64, path: &Path, request: FileRequest) -> Result<Option<Reply>, Trouble> {
        if let FileRequest::Finish { length } = request {
            return Ok(self.files.jobs.finish(client, length));
        }
        self.files.jobs.admit(client)?;
        match request {
            FileRequest::Finish { .. } => {}
            FileRequest::Stat { follow, .. } => return Ok(Some(Reply::Files(FileReply::Stat(look::stat(path, follow)?)))),
            FileRequest::Read { offset, length, if_version, .. } => {
                let (reply, piece) = look::read(path, offset, length, if_version.as_deref())?;
                let piece: Vec<_> = piece.iter().map(AsFd::as_fd).collect();
                self.connections.send(client, &Reply::Files(reply), &piece);
            }
            FileRequest::List { after, most, .. } => {
                let list = List::begin(path, after.as_ref(), most)?;
                self.files.jobs.add(client, path, Work::List(list));
            }
            FileRequest::Write { mode, condition, .. } => {
                let from = self.connections.take_descriptor(client).ok_or(Errno::BADF)?;
                let fill = Fill::replace(path, mode, condition, from)?;
                return Ok(Some(self.begin_fill(client, path, fill)));
            }
            FileRequest::Append { create, if_version, .. } => {
                let from = self.connections.take_descriptor(client).ok_or(Errno::BADF)?;
                let fill = Fill::append(path, create, if_version.as_deref(), from)?;
                return Ok(Some(self.begin_fill(client, path, fill)));
            }
            FileRequest::Delete { recursive, if_version, .. } => match change::delete(path, recursive, if_version.as_deref())? {
                Some(delete) => self.files.jobs.add(client, path, Work::Delete(delete)),
                None => return Ok(Some(Reply::Done)),
            },
            FileRequest::Move { to, replace, .. } => {
                change::rename(path, &to.to_path(), replace)?;
                return Ok(Some(Reply::Done));
            }
            FileRequest::MakeDirectories { mode, .. } => {
                change::make_directories(path, mode)?;
                return Ok(Some(Reply::Done));
            }
            FileRequest::Watch { .. } => {
                self.files.watches.add(client, path)?;
                return Ok(Some(Reply::Done));
            }
        }
        Ok(None)
    }

    fn begin_fill(&mut self, client: u64, path: &Path, fill: Fill) -> Reply {
        // The room that the sandbox may take is watched while somebody writes.
        self.commands.watch.begin();
        self.files.jobs.add(client, path, Work::Fill(fill));
        Reply::Files(FileReply::Ready)
    }

    /// Takes a slice of what is to be done.
    pub(in crate::server) fn work_on_files(&mut self) {
        if !self.files.jobs.is_empty() {
            self.lifetime.was_used();
        }
        self.files.jobs.work(&mut self.connections, self.frozen.is_some());
        self.files.watches.tell(&mut self.connections);
    }
}
