//! What a provider is to the engine. The engine knows no more of one than this.
//!
//! ```text
//!   launch ──▶ Launched ──▶ Instance ◀── find ◀── a record
//!                              │
//!                   connect, kill, wait, pause, stats, view, entrance …
//!
//!   orphans ──▶ Instances that no record needs to know of
//! ```
//!
//! An instance is a running sandbox: a keeper, and everything that it started. It belongs to nobody: dropping an `Instance` does not
//! end it, and whoever comes later finds it again. What it sees is not known here.

use std::fmt::Debug;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Process, Stats};
use whatif_sys::holder::Holder;
use whatif_types::{Enforced, Handle, Identity, NetMode, SandboxId};

use crate::{Finding, LaunchError, Pausing, Verdict};

/// One way of isolating processes.
pub trait Provider: Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// Whether this user can have sandboxes of it here, and if not, why and what helps. Only looks: nothing is started.
    fn probe(&self, uid: u32) -> Probe;

    /// By what its instances are held still here, tried out.
    fn try_pause(&self) -> Finding;

    fn capabilities(&self) -> Capabilities;

    /// Who the sandboxes of this user are outside, if nothing forbids the better one.
    fn identity_of(&self, uid: u32, gid: u32) -> Identity;

    /// The user outside as whom root runs the supervisor of a sandbox that has this identity there.
    fn supervisor_uid(&self, identity: Identity, reserved_ids: Option<u32>) -> u32;

    /// Starts a keeper, which then waits to be told what to become. On error nothing is left running.
    fn launch(&self, launch: &Launch<'_>) -> Result<Launched, LaunchError>;

    /// The instance that a record tells of. Nothing is looked at before it is asked something, so this costs nothing, and whether there
    /// is one shows only then.
    fn find(&self, at: &Whereabouts<'_>) -> Box<dyn Instance>;

    /// Everything of this provider that runs for sandboxes in a state directory, recorded or not. Which of it is left over is for
    /// whoever has the records to say.
    fn orphans<'a>(&self, state: &'a Path) -> Box<dyn Iterator<Item = Orphan> + 'a>;

    /// Removes what the machine still has of an instance that is gone: what limited it, and what it was paused with. Without a
    /// directory, everything that may be of it is looked for, which takes longer.
    fn clear(&self, id: &SandboxId, directory: Option<&Path>, recorded: &Recorded<'_>);
}

/// A running sandbox, or one that was running when somebody last knew.
pub trait Instance: Debug + Send + Sync {
    /// A connection to its keeper, in the directory it was launched or found in.
    fn connect(&self) -> Result<Client, ClientError>;

    /// From here on everything is about what is there now, and never about what may take its place. False: there is nothing, or it is
    /// out of our reach. The other questions do this first where nobody has.
    fn hold(&self) -> bool;

    /// Ends it with everything in it, at once, and without waiting. What is gone needs no killing.
    fn kill(&self);

    /// True when it is gone, with all that it had mounted, or was not there. Without a limit, waits as long as it takes.
    fn wait(&self, limit: Option<Duration>) -> bool;

    /// The root directory as it is seen inside.
    fn view(&self) -> io::Result<OwnedFd>;

    /// What a helper needs that is to put it on other layers while it lives.
    fn entrance(&self) -> io::Result<Entrance>;

    /// Begins to hold everything in it still. Complete it to rely on that; the caller can do something else first.
    fn pause(&self, recorded: &Recorded<'_>) -> Result<Pausing, ClientError>;

    /// Makes a later pause quick for what goes on running, while nobody waits for it. What is not done here is done by `pause`.
    fn prepare_pause(&self, recorded: &Recorded<'_>);

    /// The same before a command is started over this connection, and only as far as it does not delay that.
    fn prepare_pause_ahead(&self, keeper: &mut Client, recorded: &Recorded<'_>) -> Result<(), ClientError>;

    /// Whether it may have been prepared for a pause, so that there is something to clear when it is gone. The directory is its
    /// sandbox's as it is now.
    fn was_prepared(&self, directory: &Path) -> bool;

    /// Waits for one that was killed. True when it is gone, with what it may have left paused: that does not go by itself. The
    /// directory is its sandbox's as it is now.
    fn see_off(&self, directory: &Path, limit: Duration) -> bool;

    /// What it uses now, and has used since it was started.
    fn stats(&self) -> Result<Stats, ClientError>;

    /// Completes what its keeper says of its processes with what only shows from outside, as far as that can be had at once.
    fn complete(&self, processes: &mut [Process]);

    /// Whether its keeper is of a program that was replaced since.
    fn is_outdated(&self) -> bool;
}

/// What a provider found out about the machine it is on.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Of what it is made with.
    pub version: String,
    /// What it looked at, whether that will do, and what helps.
    pub findings: Vec<Finding>,
}

impl Probe {
    /// Whether nothing is in the way as far as one can see. Only a sandbox that stands is a proof.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.findings.iter().all(|finding| finding.verdict != Verdict::Fail)
    }
}

/// What can be done with an instance besides running commands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It can be put on other layers while it lives.
    pub restack: bool,
    /// Everything in it can be held still.
    pub pause: bool,
    /// Its processes can be saved as they are, and go on in another one.
    pub checkpoint: bool,
}

/// What a provider needs to know to start a keeper.
#[derive(Debug)]
pub struct Launch<'a> {
    pub id: &'a SandboxId,
    /// The sandbox's directory, where clients will look for the keeper.
    pub directory: &'a Path,
    /// Of a mapped one the provider chooses the base.
    pub identity: Identity,
    pub net: NetMode,
    /// A lock that the instance holds as long as anything of it lives.
    pub alive: BorrowedFd<'a>,
}

/// A keeper that has started.
#[derive(Debug)]
pub struct Launched {
    pub instance: Box<dyn Instance>,
    /// For the record: `Provider::find` wants it back.
    pub handle: Handle,
    pub identity: Identity,
    /// The first of the ids outside that no other sandbox of root has while it runs.
    pub reserved_ids: Option<u32>,
    /// The connection it was born with.
    pub birth: Client,
    pub prepared: Prepared,
}

/// Namespaces that were made before the keeper, which joins them. They last as long as this, so it is kept until the keeper stands.
#[derive(Debug)]
pub struct Prepared(pub(crate) Option<Holder>);

impl Prepared {
    /// To be sent along with what the keeper is to become, if there are any.
    #[must_use]
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().flat_map(|holder| [holder.user_namespace(), holder.as_fd()]).collect()
    }
}

/// Where an instance may be, as a record tells.
#[derive(Clone, Copy, Debug)]
pub struct Whereabouts<'a> {
    pub id: &'a SandboxId,
    /// The sandbox's directory as it is now.
    pub directory: &'a Path,
    pub handle: Option<Handle>,
}

/// What is recorded of an instance that it cannot tell itself.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// The state directory of its sandbox.
    pub state: &'a Path,
    /// By what its limits are enforced.
    pub enforced: &'a [Enforced],
}

/// The way to the mounts of an instance.
#[derive(Debug)]
pub struct Entrance {
    pub user: OwnedFd,
    pub mount: OwnedFd,
    pub root: OwnedFd,
}

/// An instance that was found without a record.
#[derive(Debug)]
pub struct Orphan {
    pub instance: Box<dyn Instance>,
    pub id: SandboxId,
    /// What the provider calls it, to tell people.
    pub handle: Handle,
    /// Where its sandbox is, if it still is anywhere.
    pub directory: Option<PathBuf>,
}
