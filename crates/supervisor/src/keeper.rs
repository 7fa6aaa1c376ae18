//! The link to the keeper. Its client waits for each answer, so it has a thread of its own and a queue.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use tokio::sync::oneshot;
use whatif_keeper::channel::Channel;
use whatif_keeper::client::{Client, ClientError, Sockets};
use whatif_types::network::Who;

/// Finding a process costs the keeper a walk through `/proc`. When so much of a second went by for it, no more is asked.
const SPENT_A_SECOND: Duration = Duration::from_millis(50);
const LONGEST_QUEUE: usize = 64;
const SOCKET_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
enum Job {
    Sockets(oneshot::Sender<Option<Sockets>>),
    Who(SocketAddr, oneshot::Sender<Option<Who>>),
}

#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    jobs: Mutex<Sender<Job>>,
    waiting: AtomicUsize,
    wake: OwnedFd,
    budget: Mutex<Budget>,
}

#[derive(Debug)]
struct Budget {
    since: Instant,
    spent: Duration,
}

impl Keeper {
    /// Begins to listen. The receiver resolves when the keeper is gone.
    pub(crate) fn start(socket: OwnedFd) -> io::Result<(Self, oneshot::Receiver<()>)> {
        // A keeper that is held still comes back; only an end of the channel means that it is gone.
        set_socket_timeout(&socket, Timeout::Recv, None)?;
        set_socket_timeout(&socket, Timeout::Send, None)?;
        let (jobs, queue) = channel();
        let (gone, is_gone) = oneshot::channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let budget = Mutex::new(Budget { since: Instant::now(), spent: Duration::ZERO });
        let shared = Arc::new(Shared { jobs: Mutex::new(jobs), waiting: AtomicUsize::new(0), wake, budget });
        let keeper = Self { shared: Arc::clone(&shared) };
        let client = Client::over(Channel::new(socket));
        thread::Builder::new().name("keeper".to_owned()).stack_size(128 << 10).spawn(move || {
            talk(client, &queue, &shared);
            let _ = gone.send(());
        })?;
        Ok((keeper, is_gone))
    }

    /// Fresh sockets of the sandbox's network.
    pub(crate) async fn sockets(&self) -> Option<Sockets> {
        let (answer, answered) = oneshot::channel();
        self.ask(Job::Sockets(answer));
        tokio::time::timeout(SOCKET_PATIENCE, answered).await.ok()?.ok()?
    }

    /// Which process has this socket. The answer comes when it comes, or never.
    pub(crate) fn who(&self, local: SocketAddr) -> oneshot::Receiver<Option<Who>> {
        let (answer, answered) = oneshot::channel();
        if self.shared.waiting.load(Ordering::Relaxed) < LONGEST_QUEUE && self.is_within_budget() {
            self.ask(Job::Who(local, answer));
        }
        answered
    }

    fn ask(&self, job: Job) {
        let sent = self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        if sent.is_ok() {
            self.shared.waiting.fetch_add(1, Ordering::Relaxed);
            let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
        }
    }

    fn is_within_budget(&self) -> bool {
        let mut budget = self.shared.budget.lock().unwrap_or_else(PoisonError::into_inner);
        if budget.since.elapsed() >= Duration::from_secs(1) {
            *budget = Budget { since: Instant::now(), spent: Duration::ZERO };
        }
        budget.spent < SPENT_A_SECOND
    }
}

/// Until the keeper is gone.
fn talk(mut client: Client, queue: &Receiver<Job>, shared: &Shared) {
    loop {
        let (speaks, wakes) = {
            let mut ready = [
                PollFd::from_borrowed_fd(client.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(shared.wake.as_fd(), PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => (!ready[0].revents().is_empty(), !ready[1].revents().is_empty()),
            }
        };
        // Nobody has asked anything: an end, or news that are not for us.
        if (speaks || client.has_reply()) && is_gone(client.reply().err()) {
            return;
        }
        if wakes {
            let _ = rustix::io::read(&shared.wake, &mut [0_u8; 8]);
            while let Ok(job) = queue.try_recv() {
                shared.waiting.fetch_sub(1, Ordering::Relaxed);
                let began = Instant::now();
                if is_gone(job.run(&mut client)) {
                    return;
                }
                shared.budget.lock().unwrap_or_else(PoisonError::into_inner).spent += began.elapsed();
            }
        }
    }
}

impl Job {
    /// Whoever asked may have stopped waiting, before or meanwhile.
    fn run(self, client: &mut Client) -> Option<ClientError> {
        match self {
            Self::Sockets(answer) if !answer.is_closed() => match client.sockets() {
                Ok(sockets) => _ = answer.send(Some(sockets)),
                Err(error) => return Some(error),
            },
            Self::Who(local, answer) if !answer.is_closed() => match client.who(local) {
                Ok(who) => _ = answer.send(who),
                Err(error) => return Some(error),
            },
            Self::Sockets(_) | Self::Who(..) => {}
        }
        None
    }
}

/// A keeper that answers out of turn is no keeper.
fn is_gone(error: Option<ClientError>) -> bool {
    !matches!(error, None | Some(ClientError::Failed(_)))
}
