//! What takes longer than one turn of the keeper's loop, done in slices: others have their turn in between.
//!
//! A client has one job at a time. Nothing that changes files goes on while somebody holds the sandbox still, and nothing at all
//! while its layers change: what is held open then would belong to layers that are frozen.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::delete::Delete;
use super::fill::Fill;
use super::list::List;
use super::place::Trouble;
use crate::protocol::{Failed, FileReply, Reason, Reply};
use crate::server::connections::Connections;

const MOST_JOBS: usize = 64;
/// The part of a turn that a job may take.
const SLICE: Duration = Duration::from_millis(4);
/// A client that waits is told so often that it is worked on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

pub(in crate::server) struct Jobs {
    jobs: Vec<Job>,
}

struct Job {
    client: u64,
    path: PathBuf,
    work: Work,
    told_at: Instant,
    /// Nobody wants it any more. It ends as soon as files may be changed.
    is_abandoned: bool,
}

pub(super) enum Work {
    List(List),
    Delete(Delete),
    Fill(Fill),
}

/// What came of a slice.
pub(super) enum Step {
    More,
    /// It goes on when more bytes have come.
    Waits,
    Done(Reply),
}

/// When a slice began.
pub(super) struct Slice(Instant);

impl Slice {
    pub(super) fn is_over(&self) -> bool {
        self.0.elapsed() >= SLICE
    }
}

impl Work {
    fn writes(&self) -> bool {
        !matches!(self, Self::List(_))
    }

    fn step(&mut self) -> Result<Step, Trouble> {
        let slice = Slice(Instant::now());
        match self {
            Self::List(list) => list.step(&slice),
            Self::Delete(delete) => delete.step(&slice),
            Self::Fill(fill) => fill.step(&slice),
        }
    }

    /// Whether there is something to do without waiting for anybody.
    fn is_ready(&self) -> bool {
        match self {
            Self::Fill(fill) => fill.is_ready(),
            Self::List(_) | Self::Delete(_) => true,
        }
    }
}

impl Job {
    fn is_of(&self, client: u64) -> bool {
        self.client == client && !self.is_abandoned
    }

    /// Whether its client waits for an answer.
    fn is_awaited(&self) -> bool {
        let waits = match &self.work {
            Work::Fill(fill) => fill.is_finishing(),
            Work::List(_) | Work::Delete(_) => true,
        };
        waits && !self.is_abandoned
    }
}

impl Jobs {
    pub(in crate::server) fn new() -> Self {
        Self { jobs: Vec::new() }
    }

    pub(in crate::server) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether this client may have another.
    pub(super) fn admit(&self, client: u64) -> Result<(), Trouble> {
        if self.jobs.len() >= MOST_JOBS || self.jobs.iter().any(|job| job.is_of(client)) {
            return Err(Errno::BUSY.into());
        }
        Ok(())
    }

    pub(super) fn add(&mut self, client: u64, path: &Path, work: Work) {
        self.jobs.push(Job { client, path: path.to_owned(), work, told_at: Instant::now(), is_abandoned: false });
    }

    /// All bytes were sent. One that has failed meanwhile has been answered.
    pub(super) fn finish(&mut self, client: u64, length: Option<u64>) -> Option<Reply> {
        let index = self.jobs.iter().position(|job| job.is_of(client))?;
        match (&mut self.jobs[index].work, length) {
            (Work::Fill(fill), Some(length)) => {
                fill.finish(length);
                None
            }
            (Work::Fill(_), None) => {
                self.jobs[index].is_abandoned = true;
                Some(Reply::Done)
            }
            _ => None,
        }
    }

    /// Takes a slice of each. Those that write rest while `is_held`.
    pub(in crate::server) fn work(&mut self, connections: &mut Connections, is_held: bool) {
        for mut job in std::mem::take(&mut self.jobs) {
            let rests = is_held && job.work.writes();
            if job.is_abandoned && !rests {
                continue;
            }
            match if rests { Ok(Step::Waits) } else { job.work.step() } {
                Ok(Step::Done(reply)) => connections.send(job.client, &reply, &[]),
                Err(trouble) => connections.send(job.client, &Reply::Failed(trouble.with(&job.path)), &[]),
                Ok(Step::More | Step::Waits) => {
                    if job.is_awaited() && job.told_at.elapsed() >= SIGN_OF_LIFE {
                        connections.send(job.client, &Reply::Files(FileReply::Working), &[]);
                        job.told_at = Instant::now();
                    }
                    self.jobs.push(job);
                }
            }
        }
    }

    pub(in crate::server) fn poll_fds(&self, is_held: bool) -> impl Iterator<Item = PollFd<'_>> {
        let waiting = self.jobs.iter().filter_map(move |job| match &job.work {
            Work::Fill(fill) if !is_held && !job.is_abandoned => fill.awaited(),
            _ => None,
        });
        waiting.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
    }

    pub(in crate::server) fn next_deadline(&self, is_held: bool) -> Option<Instant> {
        let next = |job: &Job| match is_held && job.work.writes() {
            false if job.is_abandoned || job.work.is_ready() => Some(Instant::now()),
            _ => job.is_awaited().then(|| job.told_at + SIGN_OF_LIFE),
        };
        self.jobs.iter().filter_map(next).min()
    }

    /// Nobody waits for what this client asked for.
    pub(in crate::server) fn client_left(&mut self, client: u64) {
        self.jobs.iter_mut().filter(|job| job.client == client).for_each(|job| job.is_abandoned = true);
    }

    /// The layers change: all that is held belongs to the old ones.
    pub(in crate::server) fn give_up(&mut self, connections: &mut Connections) {
        self.fail(connections, Errno::STALE, "the layers of the sandbox changed meanwhile", |_| true);
    }

    /// The sandbox has no room for what is written.
    pub(in crate::server) fn give_up_writing(&mut self, connections: &mut Connections) {
        self.fail(connections, Errno::DQUOT, "a limit of the sandbox is reached", |job| matches!(job.work, Work::Fill(_)));
    }

    fn fail(&mut self, connections: &mut Connections, errno: Errno, why: &str, is_meant: impl Fn(&Job) -> bool) {
        for job in self.jobs.extract_if(.., |job| is_meant(job)) {
            let message = format!("{}: {why}", job.path.display());
            let failed = Failed { reason: Reason::File, message, errno: errno.raw_os_error() };
            connections.send(job.client, &Reply::Failed(failed), &[]);
        }
    }
}
