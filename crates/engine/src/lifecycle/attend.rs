//! Waits for a command in the foreground, and tends it meanwhile: a client that waits for its command cannot forget to.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use whatif_keeper::client::News;
use whatif_types::EventKind;

use crate::EngineError;
use crate::lifecycle::Lifecycle;
use crate::lifecycle::exec::Running;
use crate::lifecycle::unrecorded::{LASTING, Recorded};

/// How often a command that goes on is tended.
const INTERVAL: Duration = Duration::from_secs(2);

/// How much of the time tending a command may take: one part of so many.
const SMALLEST_SHARE: u32 = 100;

/// When a command is to be tended for the first time.
pub(super) fn first(recorded: Recorded) -> Instant {
    Instant::now() + if recorded == Recorded::WhenItLasts { LASTING } else { INTERVAL }
}

impl Lifecycle {
    /// Waits until there is news of the command, one of the client's descriptors is ready, or it is time. True: there is news.
    pub fn attend(&self, running: &mut Running, others: &[PollFd<'_>], until: Option<Instant>) -> Result<bool, EngineError> {
        let has_news = running.has_news() || wait(running, others, until)?;
        if !has_news && Instant::now() >= running.due {
            let began = Instant::now();
            self.tend(running);
            running.due = Instant::now() + INTERVAL.max(began.elapsed() * SMALLEST_SHARE);
        }
        Ok(has_news)
    }

    /// What the keeper of a command says next; waits for it. Whoever serves its network goes by the records.
    pub fn news(&self, running: &mut Running) -> Result<News, EngineError> {
        let news = running.client.news().map_err(|error| self.ground.explain_end_of_command(&running.sandbox, error.into()))?;
        if matches!(news, News::NetworkWanted) {
            self.record_run(running)?;
        }
        // That of a `run` is told when it is known whether its sandbox stays.
        if let News::Exited(exited) = &news
            && !running.sandbox.details.transient
        {
            self.ground.tell(EventKind::CommandEnded, &running.sandbox, running.ended(exited));
        }
        Ok(news)
    }

    fn tend(&self, running: &mut Running) {
        // What the records do not take now they may take at the end.
        let _ = self.record_run(running);
        let sandbox = &running.sandbox;
        // Without bases only a later merge is poorer.
        let _ = self.ground.keep_bases(sandbox);
        // One that ends with its command would have to wait for its group to be gone.
        if !sandbox.details.transient {
            self.ground.prepare_pause(sandbox);
        }
        if std::mem::take(&mut running.fills_pool) {
            self.fill_pool_if_due(&running.sandbox);
        }
    }
}

fn wait(running: &Running, others: &[PollFd<'_>], until: Option<Instant>) -> Result<bool, EngineError> {
    let keeper = PollFd::from_borrowed_fd(running.client.as_fd(), PollFlags::IN);
    let mut fds: Vec<PollFd<'_>> = std::iter::once(keeper).chain(others.iter().cloned()).collect();
    let until = until.map_or(running.due, |until| until.min(running.due));
    let patience = until.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => Ok(!fds[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(EngineError::io("wait for", Path::new("the command"), errno.into())),
    }
}
