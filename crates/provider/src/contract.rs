//! What a provider is to the engine. The engine knows no more of one than this.
//!
//! ```text
//!   launch ──▶ Launching ──▶ Launched ──▶ Instance ◀── find ◀── a record
//!                                           │
//!                                connect, kill, wait, pause, restack, checkpoint, stats, ports, view …
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
use whatif_types::{Boot, Enforced, Handle, Identity, Limits, NetMode, SandboxId};

use crate::{
    BindError, Binding, Bound, CheckpointError, Enforcement, Finding, LaunchError, Pausing, Ports, Remains, RestackError,
    Restacker, Restacking, Verdict,
};

/// One way of isolating processes.
pub trait Provider: Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// Whether this user can have sandboxes of it here, and if not, why and what helps. Only looks: nothing is started.
    fn probe(&self, uid: u32) -> Probe;

    /// By what its instances are held still here, tried out.
    fn try_pause(&self) -> Finding;

    /// Which limits can be enforced here for this user, tried out, and which there are by default.
    fn try_limits(&self, identity: Identity) -> Vec<Finding>;

    fn capabilities(&self) -> Capabilities;

    /// Who the sandboxes of this user are outside, if nothing forbids the better one.
    fn identity_of(&self, uid: u32, gid: u32) -> Identity;

    /// The user outside as whom root runs the supervisor of a sandbox that has this identity there.
    fn supervisor_uid(&self, identity: Identity, reserved_ids: Option<u32>) -> u32;

    /// Starts a keeper, which then waits to be told where it belongs and what to become. On error nothing is left running.
    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Launching>, LaunchError>;

    /// The instance that a record tells of. Nothing is looked at before it is asked something, so this costs nothing, and whether there
    /// is one shows only then.
    fn find(&self, at: &Whereabouts<'_>) -> Box<dyn Instance>;

    /// Gets ready to put an instance on other layers, before it is known which: that takes as long as most of what follows.
    /// Programs as for `Launch`.
    fn restacker(&self, programs: &Path) -> io::Result<Restacker>;

    /// Everything of this provider that runs for sandboxes in a state directory, recorded or not. Which of it is left over is for
    /// whoever has the records to say.
    fn orphans<'a>(&self, state: &'a Path) -> Box<dyn Iterator<Item = Orphan> + 'a>;

    /// How these limits would be enforced for an instance with this identity. Only looks.
    fn enforcement(&self, limits: &Limits, identity: Identity) -> Enforcement;

    /// Sets up what enforces the limits of an instance, before anything runs in it. What an earlier one left in the way is removed.
    fn bind(&self, binding: &Binding<'_>) -> Result<Bound, BindError>;

    /// What limits or holds instances of a state directory, whether they run or not.
    fn remains(&self, state: &Path) -> Result<Vec<Remains>, BindError>;

    /// Removes something of an instance that is gone, with whatever is left in it. False if it is still there.
    fn remove(&self, remains: &Remains) -> bool;

    /// Takes away what was only needed for what has been removed.
    fn tidy(&self);

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

    /// Begins to put it on the layers of this description, while it lives and nothing but its keeper runs in it. Only begins: what
    /// comes back is told each further step.
    fn restack(&self, by: Restacker, boot: &Boot) -> Result<Restacking, RestackError>;

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

    /// Its network, to serve it: what it sends, and the way to its ports. `None`: somebody serves it already.
    fn ports(&self) -> Result<Option<Ports>, ClientError>;

    /// Saves its processes as they are in an empty directory, so that they can go on in another instance. One of a provider without
    /// that capability refuses, and leaves the directory and the processes alone.
    fn checkpoint(&self, _into: &Path) -> Result<(), CheckpointError> {
        Err(CheckpointError::Unsupported)
    }

    /// What it uses now, and has used since it was started.
    fn stats(&self) -> Result<Stats, ClientError>;

    /// Completes what its keeper says of its processes with what only shows from outside, as far as that can be had at once.
    fn complete(&self, processes: &mut [Process]);

    /// Whether its keeper is of another program than the one that is started now.
    fn is_outdated(&self, programs: &Path) -> bool;
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
    /// Of a mapped one the provider chooses the base.
    pub identity: Identity,
    pub net: NetMode,
    /// Whether it goes before the rest of the machine if that runs out of memory.
    pub is_expendable: bool,
    /// Where programs may be kept that it is started with. What is kept there may go at any time.
    pub programs: &'a Path,
}

/// A keeper that is starting, while its sandbox is still being thought about. Dropped, it ends.
pub trait Launching: Debug + Send {
    fn id(&self) -> &SandboxId;

    /// Gives it its place: the sandbox's directory, where clients will look for it, and a lock that it holds as long as anything of it
    /// lives.
    fn settle(self: Box<Self>, directory: &Path, alive: BorrowedFd<'_>) -> Result<Launched, LaunchError>;
}

/// A keeper that has started, and knows where it belongs.
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
