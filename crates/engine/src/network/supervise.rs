//! Starts the supervisor of a sandbox's network: when somebody inside first wants the network, not before.

use std::fs::{DirBuilder, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use whatif_keeper::Channel;
use whatif_keeper::client;
use whatif_provider::Ports;
use whatif_sys::children;
use whatif_sys::process::Process;
use whatif_types::network::{Instructions, Role, UpstreamProxies};
use whatif_types::{Sandbox, SandboxId};

use super::supervisor::Ready;
use super::{CONTROL, LOG, PID, Published, directory};
use crate::ground::keepers::instance_in;
use crate::network::{Network, NetworkError};
use crate::{EngineError, private_file};

/// How long a supervisor may take until it serves.
const PATIENCE: Duration = Duration::from_secs(10);
/// How its command line begins after the program: `whatif supervisor <id>`.
pub const COMMAND: &str = "supervisor";

impl Network {
    /// Sees to it that somebody serves the network of a sandbox that has one to serve.
    pub fn supervise(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        if sandbox.details.is_supervised() { self.supervise_with(sandbox, None) } else { Ok(()) }
    }

    /// The same for somebody who will answer the supervisor's questions.
    pub fn supervise_answered(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        match self.claim_network(sandbox)? {
            Some(claim) => self.supervise_claimed(sandbox, Claim { is_answered: true, ..claim }, None),
            None => Ok(()),
        }
    }

    /// Whoever has published ports is reachable from the beginning on, and whoever has secrets must know whom to trust.
    pub(crate) fn serve_from_the_start(&self, sandbox: &Sandbox, published: Published) -> Result<(), EngineError> {
        let is_due = !published.0.is_empty() || !sandbox.details.network.secrets.is_empty();
        if is_due { self.supervise_with(sandbox, Some(published)) } else { Ok(()) }
    }

    /// Waits until somebody inside wants the network, and sees to it then. For when nobody else will be there to be told.
    pub fn supervise_when_wanted(&self, id: &SandboxId) -> Result<(), EngineError> {
        // Whoever ends it meanwhile says so in the records, not we.
        let Some(sandbox) = self.ground.store.get(id)? else { return Ok(()) };
        match self.claim_network(&sandbox)? {
            Some(claim) if claim.wait() => self.supervise_claimed(&sandbox, claim, None),
            _ => Ok(()),
        }
    }

    /// The same as `supervise` with ports that are bound already.
    pub(crate) fn supervise_with(&self, sandbox: &Sandbox, published: Option<Published>) -> Result<(), EngineError> {
        match self.claim_network(sandbox)? {
            Some(claim) => self.supervise_claimed(sandbox, claim, published),
            None => Ok(()),
        }
    }

    /// Nobody else is the supervisor while we hold this. `None` if somebody is.
    fn claim_network(&self, sandbox: &Sandbox) -> Result<Option<Claim>, EngineError> {
        let place = self.ground.directory(sandbox)?;
        let Some(ports) = instance_in(sandbox, &place)?.ports()? else { return Ok(None) };
        let network = directory(&place);
        make_directory(&network)?;
        let control = client::listener_at(&network, CONTROL)?;
        Ok(Some(Claim { ports, control, is_answered: false }))
    }

    fn supervise_claimed(&self, sandbox: &Sandbox, claim: Claim, published: Option<Published>) -> Result<(), EngineError> {
        let Claim { ports, control, is_answered } = claim;
        let place = self.ground.directory(sandbox)?;
        let network = directory(&place);
        // What was meant when it was claimed may be long ago.
        let sandbox = &self.ground.reread(sandbox)?;
        self.write_rules(&network, &self.rules_of(sandbox)?)?;
        let published = match published {
            Some(published) => published,
            // Without one of them the rest is still of use; `missing_ports` tells.
            None => Published::bind_those_free(&sandbox.details.network.publish),
        };
        let mut passed: Vec<(Role, OwnedFd)> = ports.into_descriptors();
        passed.push((Role::Control, control));
        passed.push((Role::Log, open_log(&network)?));
        passed.push((Role::Directory, open_directory(&network)?));
        passed.extend(published.0.into_iter().map(|(publish, listener)| (Role::Published { inside: publish.inside }, listener)));
        let handover = self.hand_over_secrets(sandbox, &place)?;
        let provider = whatif_provider::by_name(&sandbox.provider)?;
        let instructions = Instructions {
            sandbox: sandbox.name.clone(),
            uid: provider.supervisor_uid(sandbox.details.identity, sandbox.details.reserved_ids),
            limits: sandbox.details.limits.clone(),
            descriptors: passed.iter().map(|(role, _)| *role).collect(),
            is_answered,
            upstream: self.upstream_proxies(),
            secrets: handover.secrets,
            authority: handover.authority,
            roots: handover.roots,
        };
        let descriptors: Vec<BorrowedFd<'_>> = passed.iter().map(|(_, descriptor)| descriptor.as_fd()).collect();
        start(sandbox, &network, &instructions, &descriptors)
            .map_err(|message| NetworkError::Supervisor { name: sandbox.name.clone(), message })?;
        self.catch_up(sandbox)
    }

    /// Whoever changed the rules while the supervisor was being started could not tell it.
    fn catch_up(&self, started_with: &Sandbox) -> Result<(), EngineError> {
        let mut known = started_with.details.network.clone();
        loop {
            let now = self.ground.reread(started_with)?;
            if now.details.network == known {
                return Ok(());
            }
            self.renew_rules(&now)?;
            known = now.details.network;
        }
    }

    /// The proxies the user's own programs use.
    fn upstream_proxies(&self) -> UpstreamProxies {
        let variable = |names: [&str; 2]| {
            let find = |name: &str| {
                self.ground.caller.environment.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.clone())
            };
            names.iter().find_map(|name| find(name))
        };
        UpstreamProxies {
            http_proxy: variable(["http_proxy", "HTTP_PROXY"]),
            https_proxy: variable(["https_proxy", "HTTPS_PROXY"]),
            no_proxy: variable(["no_proxy", "NO_PROXY"]),
        }
    }
}

/// The right to supervise a network, and what comes with it.
struct Claim {
    ports: Ports,
    /// Whoever has something to say to the supervisor waits here until there is one.
    control: OwnedFd,
    is_answered: bool,
}

impl Claim {
    /// True when somebody wants the network or its supervisor, false when the sandbox is gone.
    fn wait(&self) -> bool {
        let mut fds = vec![PollFd::from_borrowed_fd(self.ports.end(), PollFlags::IN), PollFd::new(&self.control, PollFlags::IN)];
        fds.extend(self.ports.listeners().map(|listener| PollFd::new(listener, PollFlags::IN)));
        loop {
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
                Ok(_) => return fds[0].revents().is_empty(),
            }
        }
    }
}

fn start(sandbox: &Sandbox, network: &Path, instructions: &Instructions, descriptors: &[BorrowedFd<'_>]) -> Result<(), String> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(|e| e.to_string())?;
    set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE)).map_err(|e| e.to_string())?;
    let mut child = spawn(sandbox, theirs).map_err(|e| e.to_string())?;
    // For whoever ends the sandbox; without it the supervisor ends by itself.
    let _ = private_file::replace(&network.join(PID), child.id().to_string().as_bytes());
    let mut channel = Channel::new(ours);
    let answer = channel.send(instructions, descriptors).and_then(|()| channel.receive::<Ready>());
    let problem = match answer {
        Ok(Ready::Serving) => {
            children::leave_alone(&child);
            return Ok(());
        }
        Ok(Ready::Failed(message)) => message,
        Err(error) => error.to_string(),
    };
    // It is our own child and not collected yet, so its number is still its own.
    let _ = child.kill();
    let _ = child.wait();
    Err(problem)
}

/// Ends the supervisor of a sandbox that ends. It would do so by itself, unless somebody holds it still.
pub(crate) fn end(place: &Path, id: &SandboxId, patience: Duration) {
    let Some(supervisor) = find(place, id) else { return };
    if !supervisor.wait(Some(patience)) {
        supervisor.kill();
        let _ = supervisor.wait(Some(PATIENCE));
    }
    forget(place);
}

/// A sandbox that starts anew has had none so far.
pub(crate) fn forget(place: &Path) {
    let _ = std::fs::remove_file(directory(place).join(PID));
}

/// The supervisor that serves a sandbox. Whoever only waits to start one is none.
pub(super) fn find(place: &Path, id: &SandboxId) -> Option<Process> {
    let text = std::fs::read_to_string(directory(place).join(PID)).ok()?;
    Process::find(text.parse().ok()?, COMMAND, id.as_str())
}

/// It goes on when we end, and ends with the sandbox.
fn spawn(sandbox: &Sandbox, input: OwnedFd) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args([COMMAND, sandbox.id.as_str()])
        .env_clear()
        .current_dir("/")
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

fn make_directory(network: &Path) -> Result<(), EngineError> {
    match DirBuilder::new().mode(0o700).create(network) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(EngineError::io("create", network, error)),
        _ => Ok(()),
    }
}

fn open_log(network: &Path) -> Result<OwnedFd, EngineError> {
    let path = network.join(LOG);
    let file = File::options().append(true).create(true).mode(0o600).open(&path);
    file.map(Into::into).map_err(|e| EngineError::io("open", &path, e))
}

fn open_directory(network: &Path) -> Result<OwnedFd, EngineError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(network, flags, Mode::empty()).map_err(|e| EngineError::io("open", network, e.into()))
}
