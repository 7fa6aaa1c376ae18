//! Runs commands in a sandbox that stands.

use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Exec, Exited, Reason, Request, Settings, Stdio, Text};
use whatif_layers::StateDir;
use whatif_types::config::UserConfig;
use whatif_types::environment::{self, Filtered};
use whatif_types::network::NetWish;
use whatif_types::sandbox::StopReason;
use whatif_types::{CommandId, EventKind, Identity, NetMode, Sandbox, Selector, Span, Status};

use crate::EngineError;
use crate::ground::GroundError;
use crate::ground::ended::has_ended;
use crate::ground::events::Facts;
use crate::ground::keepers::instance_in;
use crate::ground::lifetime::last_words;
use crate::lifecycle::start::Why;
use crate::lifecycle::unrecorded::Recorded;
use crate::lifecycle::view::{Freshened, knows_its_overlays};
use crate::lifecycle::{Lifecycle, LifecycleError, attend};
use crate::network::secrets;

/// How long a process may linger after its command before it counts as left running.
const LAST_MOMENT: Duration = Duration::from_millis(200);

/// How long a sandbox that goes to rest may take to be there again.
const REST_PATIENCE: Duration = Duration::from_secs(4);

/// What clients exit with when the time of a command was up.
const TIMED_OUT: i32 = 124;

/// Characters of a command that an event has.
const LONGEST_SHOWN: usize = 200;

/// What to run and with what.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    pub arguments: Vec<OsString>,
    /// `NAME` to carry a variable although it looks like a secret, `NAME=VALUE` to set one.
    pub env: Vec<String>,
    pub cwd: Option<PathBuf>,
    pub stdio: [Stdio; 3],
    /// Columns and rows of a terminal to make for it.
    pub terminal: Option<(u16, u16)>,
    pub timeout: Option<Duration>,
    /// What records and commits call it, where its arguments are a script of our own.
    pub called: Option<String>,
}

impl CommandSpec {
    /// On one line, cut where it is long.
    fn shown(&self) -> String {
        let words = || self.arguments.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let whole = self.called.clone().unwrap_or_else(words);
        match whole.char_indices().nth(LONGEST_SHOWN) {
            Some((end, _)) => format!("{}…", &whole[..end]),
            None => whole,
        }
    }
}

/// How the output of a command in the background is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Standard output and standard error in one log, in the order in which they were written.
    Together,
    /// Each in a log of its own.
    Apart,
}

/// What a command finds around it.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub sandbox: &'a str,
    pub cwd: &'a Path,
    pub net: NetMode,
    pub network: &'a NetWish,
}

impl<'a> Surroundings<'a> {
    pub fn of(sandbox: &'a Sandbox, cwd: &'a Path) -> Self {
        Self { sandbox: &sandbox.name, cwd, net: sandbox.details.net, network: &sandbox.details.network }
    }
}

/// A command under way, and the sandbox it runs in. Dropping it ends the command, unless it was detached.
#[derive(Debug)]
pub struct Running {
    pub sandbox: Sandbox,
    pub(super) recorded: Recorded,
    pub(super) client: Client,
    /// When it is to be tended.
    pub(super) due: Instant,
    /// Its sandbox may have come from the pool, which is filled up when the command lasts, or has ended: not while it begins.
    pub(super) fills_pool: bool,
    pub pid: i32,
    /// The master of its terminal.
    pub terminal: Option<OwnedFd>,
    /// As events name it.
    command: String,
    began: Instant,
}

/// A sandbox that stands, ready for a command.
#[derive(Debug)]
pub struct Entered {
    pub sandbox: Sandbox,
    pub(crate) client: Client,
    /// What it was entered for.
    request: Option<Exec>,
}

impl Entered {
    /// Another connection may now ask for what this one may still be holding still.
    pub(crate) fn let_go(&mut self) -> Result<(), EngineError> {
        Ok(self.client.flush()?)
    }
}

/// A command in the background and the sandbox it runs in.
#[derive(Debug)]
pub struct Detached {
    pub sandbox: Sandbox,
    pub pid: i32,
    pub id: CommandId,
}

impl Running {
    pub(super) fn new(
        sandbox: Sandbox,
        recorded: Recorded,
        client: Client,
        spec: &CommandSpec,
        started: (i32, Option<OwnedFd>),
    ) -> Self {
        let (pid, terminal) = started;
        let (command, began, due) = (spec.shown(), Instant::now(), attend::first(recorded));
        Self { sandbox, recorded, client, due, fills_pool: false, pid, terminal, command, began }
    }

    /// What events say of its end.
    pub(super) fn ended(&self, exited: &Exited) -> Facts {
        let mut facts = vec![
            ("command", self.command.as_str().into()),
            ("exit_code", if exited.timed_out { TIMED_OUT } else { exited.code }.into()),
            ("took_ms", (self.began.elapsed().as_millis() as u64).into()),
        ];
        let limit = exited.limit_hit.or(exited.room_refused).and_then(|hit| serde_json::to_value(hit).ok());
        facts.extend(limit.map(|limit| ("limit_hit", limit)));
        facts.extend(exited.timed_out.then_some(("timed_out", true.into())));
        facts
    }

    pub(crate) fn parts(&mut self) -> (&Sandbox, &mut Client) {
        (&self.sandbox, &mut self.client)
    }

    pub(super) fn has_news(&self) -> bool {
        self.client.has_reply()
    }

    pub fn signal(&mut self, signal: i32) -> Result<(), EngineError> {
        Ok(self.client.forward_signal(self.pid, signal)?)
    }

    /// Whether other processes stay. What is merely on its way out (git's own housekeeping, a zombie) gets a moment.
    pub(crate) fn leaves_others(&mut self) -> bool {
        let deadline = Instant::now() + LAST_MOMENT;
        loop {
            let alive = self.client.list().is_ok_and(|all| all.iter().any(|p| p.state != 'Z'));
            if !alive || Instant::now() >= deadline {
                return alive;
            }
            std::thread::sleep(LAST_MOMENT / 10);
        }
    }

    pub fn resize(&mut self, columns: u16, rows: u16) -> Result<(), EngineError> {
        Ok(self.client.forward_resize(self.pid, columns, rows)?)
    }
}

/// Gives pipes to the one who is root inside, so that `/dev/stdout` and its like can be opened by name there.
/// An anonymous pipe is reachable only by who holds it, so its owner matters to nobody else.
pub(crate) fn hand_over(identity: Identity, descriptors: &[BorrowedFd<'_>]) {
    if let Identity::Mapped { base, .. } = identity {
        for descriptor in descriptors {
            let is_pipe = rustix::fs::fstat(descriptor).is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode).is_fifo());
            if is_pipe {
                let _ =
                    rustix::fs::fchown(descriptor, Some(rustix::fs::Uid::from_raw(base)), Some(rustix::fs::Gid::from_raw(base)));
            }
        }
    }
}

impl Lifecycle {
    /// `whatif exec`: starts a command in the foreground.
    pub fn exec(&self, mut entered: Entered, spec: &CommandSpec, descriptors: &[BorrowedFd<'_>]) -> Result<Running, EngineError> {
        let exec = self.request_for(&mut entered, spec)?;
        hand_over(entered.sandbox.details.identity, descriptors);
        let (Entered { sandbox, client, .. }, started) = self.begin(entered, exec, descriptors)?;
        Ok(Running::new(sandbox, Recorded::AtOnce, client, spec, started))
    }

    /// `whatif exec -d`: starts a command that goes on; its output is in its log.
    pub fn exec_detached(&self, mut entered: Entered, spec: &CommandSpec, kept: Kept) -> Result<Detached, EngineError> {
        let is_ours = self.ground.require_our_keeper(&entered.sandbox);
        let is_apart = kept == Kept::Apart && spec.terminal.is_none();
        if spec.terminal.is_some() || spec.stdio[0] == Stdio::Kept || is_apart {
            is_ours.as_ref().map_err(|_| GroundError::OtherKeeper { name: entered.sandbox.name.clone() })?;
        }
        let log = self.new_log(&entered.sandbox, if is_apart { Kept::Apart } else { Kept::Together })?;
        let mut exec = Exec { detached: true, errors_apart: is_apart, ..self.request_for(&mut entered, spec)? };
        let mut descriptors = log.descriptors();
        match is_ours {
            Ok(()) => exec.id = Some(log.id),
            Err(_) => descriptors.truncate(2),
        }
        let is_known_to_keeper = exec.id.is_some();
        let (Entered { sandbox, .. }, (pid, _)) = self.begin(entered, exec, &descriptors)?;
        if !is_known_to_keeper {
            log.record_start(pid, spec.arguments.first().map(|a| a.to_string_lossy().into_owned()).unwrap_or_default())?;
        }
        self.ground.prepare_pause(&sandbox);
        self.bound_logs(&sandbox)?;
        self.ground.attend_if_due(&sandbox);
        let facts = vec![("command", spec.shown().into()), ("id", log.id.to_string().into())];
        self.ground.tell(EventKind::CommandStarted, &sandbox, facts);
        Ok(Detached { sandbox, pid, id: log.id })
    }

    /// Starts a command. A sandbox that was just going to rest is woken again for it.
    fn begin(
        &self,
        mut entered: Entered,
        exec: Exec,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Entered, (i32, Option<OwnedFd>)), EngineError> {
        let deadline = Instant::now() + REST_PATIENCE;
        let request = Request::Exec(Box::new(exec));
        loop {
            let sent = self.ground.prepare_pause_ahead(&entered.sandbox, &mut entered.client);
            let sent = sent.and_then(|()| entered.client.send(&request, descriptors));
            match sent.and_then(|()| entered.client.started()) {
                Ok(started) => return Ok((entered, started)),
                Err(error) if self.is_going_to_rest(&entered.sandbox, &error) && Instant::now() < deadline => {}
                // Another command stops it, and gives what runs in it more time than this one waits.
                Err(ClientError::Failed(failed)) if failed.reason == Reason::Ending => {
                    return Err(GroundError::EndedMeanwhile { name: entered.sandbox.name, has_run: false }.into());
                }
                Err(ClientError::Failed(failed)) if failed.reason == Reason::NotFound => {
                    return Err(LifecycleError::NotFoundIn { name: entered.sandbox.name, failed }.into());
                }
                Err(error) => return Err(self.ground.explain_end(&entered.sandbox, error)),
            }
            std::thread::sleep(REST_PATIENCE / 200);
            entered = self.enter(&entered.sandbox.name.as_str().into())?;
        }
    }

    /// Nothing was started: the keeper refuses because it ends, or has ended for want of anything to do. Where somebody wants it
    /// to end, entering it again says so.
    fn is_going_to_rest(&self, sandbox: &Sandbox, error: &ClientError) -> bool {
        let rested = || self.ground.directory(sandbox).is_ok_and(|d| last_words(&d) == StopReason::Idle);
        match error {
            ClientError::Failed(failed) => failed.reason == Reason::Ending,
            ClientError::Channel(_) => sandbox.details.limits.idle.is_some() && rested(),
            _ => false,
        }
    }

    /// Connects to the keeper of a sandbox, bringing it up again where nobody meant it to be down. If nothing runs in it, it sees
    /// reality as it is now.
    pub fn enter(&self, which: &Selector) -> Result<Entered, EngineError> {
        let mut entered = self.enter_with(which, None)?;
        entered.let_go()?;
        Ok(entered)
    }

    /// The same for a command that comes next, which is prepared meanwhile. Its streams and its terminal are not looked at yet.
    pub fn enter_for(&self, which: &Selector, spec: &CommandSpec) -> Result<Entered, EngineError> {
        self.enter_with(which, Some(spec))
    }

    fn enter_with(&self, which: &Selector, spec: Option<&CommandSpec>) -> Result<Entered, EngineError> {
        let deadline = Instant::now() + REST_PATIENCE;
        let mut may_mount_again = true;
        loop {
            let mut entered = self.enter_as_it_is(which)?;
            // The keeper answers what it was asked meanwhile.
            entered.request = spec.map(|spec| self.exec_request(&entered.sandbox, spec)).transpose()?;
            match self.freshen(&entered.sandbox, &mut entered.client) {
                Ok(Freshened::NeedsOtherMounts(why)) if may_mount_again => {
                    // Once: reality may go on exchanging directories.
                    may_mount_again = false;
                    drop(entered.client);
                    self.unmount_if_idle(&entered.sandbox, why)?;
                    continue;
                }
                // It ended meanwhile, as one does whose layers could not be changed.
                Err(EngineError::Ground(GroundError::Keeper(error))) if has_ended(&error) && Instant::now() < deadline => {}
                // If that fails, what the sandbox sees of files that reality replaced is unknown, and treated so.
                _ => return Ok(entered),
            }
            std::thread::sleep(REST_PATIENCE / 2000);
        }
    }

    fn enter_as_it_is(&self, which: &Selector) -> Result<Entered, EngineError> {
        if let Some(entered) = which.word().and_then(|name| self.enter_published(name)) {
            self.ground.require_mounted(&entered.sandbox)?;
            return Ok(entered);
        }
        let deadline = Instant::now() + REST_PATIENCE;
        loop {
            match self.enter_by_record(which) {
                // Its keeper takes nobody in any more, and is not gone yet.
                Err(EngineError::Ground(GroundError::Keeper(ClientError::NotRunning))) if Instant::now() < deadline => {}
                other => return other,
            }
            std::thread::sleep(REST_PATIENCE / 2000);
        }
    }

    fn enter_by_record(&self, which: &Selector) -> Result<Entered, EngineError> {
        let mut sandbox = self.ground.resolve_to_use(which)?;
        if sandbox.status != Status::Active {
            if sandbox.details.stop_reason == Some(StopReason::Requested) {
                return Err(GroundError::Stopped { name: sandbox.name }.into());
            }
            sandbox = self.start_stopped(sandbox, Why::ForACommand)?;
        }
        let client = self.ground.connect(&sandbox)?;
        self.ground.require_mounted(&sandbox)?;
        Ok(Entered { sandbox, client, request: None })
    }

    /// The usual case: it runs, and a small file beside its socket says all there is to know.
    fn enter_published(&self, name: &str) -> Option<Entered> {
        let (directory, sandbox) = self.ground.published(name)?;
        let mut client = instance_in(&sandbox, &directory).ok()?.connect().ok()?;
        if knows_its_overlays(&sandbox) {
            client.ask_for_overlays().ok()?;
        }
        crate::ground::removed::note_subject(&sandbox);
        StateDir::mark_used(&directory);
        Some(Entered { sandbox, client, request: None })
    }

    /// The request that it was entered for, or one made now.
    fn request_for(&self, entered: &mut Entered, spec: &CommandSpec) -> Result<Exec, EngineError> {
        let made = entered.request.take();
        let exec = made.map_or_else(|| self.exec_request(&entered.sandbox, spec), Ok)?;
        Ok(Exec { stdio: spec.stdio, terminal: spec.terminal, ..exec })
    }

    fn exec_request(&self, sandbox: &Sandbox, spec: &CommandSpec) -> Result<Exec, EngineError> {
        let config = self.ground.caller.config_for(&sandbox.project)?;
        let carried = sandbox.details.carried_env.iter().chain(&spec.env).cloned().collect::<Vec<_>>();
        // Where the caller stands, if that is within the sandbox's project; else where the sandbox was made.
        let caller = &self.ground.caller;
        let is_within = caller.cwd.starts_with(&sandbox.project) && !caller.has_lost_directory()?;
        let here = if is_within { &caller.cwd } else { &sandbox.details.cwd };
        let cwd = spec.cwd.as_ref().map_or_else(|| here.clone(), |chosen| here.join(chosen));
        let timeout = spec.timeout.or(sandbox.details.limits.timeout.map(Span::duration));
        let spec = CommandSpec { env: carried, timeout, ..spec.clone() };
        let mut exec = self.request(&config, Surroundings::of(sandbox, &cwd), &spec, false);
        // The keeper has the umask, limits and priority of whoever started it.
        exec.settings = Some(Settings::own());
        // What was set when the sandbox was made wins over reality's value; the keeper adds it.
        let set_now = |name: &str| spec.env.iter().any(|e| e.split('=').next() == Some(name));
        exec.environment.retain(|(n, _)| !sandbox.details.set_env.iter().any(|s| s.as_bytes() == n.as_bytes() && !set_now(s)));
        Ok(exec)
    }

    /// The request for a command.
    pub(crate) fn request(&self, config: &UserConfig, around: Surroundings<'_>, spec: &CommandSpec, detached: bool) -> Exec {
        let mut variables = self.environment(config, &spec.env).carried;
        // The proxies of outside are the supervisor's business; inside there is another. So are secrets: inside, their variables
        // have something in their place.
        let is_proxied = |name: &str| around.net == NetMode::Filtered && environment::is_proxy(name);
        let is_secret = |name: &str| secrets::stays_outside(around.network, name);
        variables.retain(|(n, _)| !is_secret(n) && (!is_proxied(n) || spec.env.contains(n)));
        let Surroundings { sandbox: name, cwd, .. } = around;
        variables.retain(|(n, _)| n != "PWD" && n != "OLDPWD");
        variables.push(("PWD".to_owned(), cwd.to_string_lossy().into_owned()));
        variables.push(("WHATIF_SANDBOX".to_owned(), name.to_owned()));
        for (name, value) in spec.env.iter().filter_map(|e| e.split_once('=')) {
            variables.retain(|(n, _)| n != name);
            variables.push((name.to_owned(), value.to_owned()));
        }
        Exec {
            arguments: spec.arguments.iter().map(Text::from).collect(),
            environment: variables.iter().map(|(n, v)| (Text::from(n), Text::from(v))).collect(),
            directory: Text::from(cwd),
            stdio: spec.stdio,
            terminal: spec.terminal,
            detached,
            id: None,
            keeps_output: false,
            errors_apart: false,
            timeout_ms: spec.timeout.map(|t| t.as_millis() as u64),
            settings: Settings::not_inherited(),
        }
    }

    pub(crate) fn environment(&self, config: &UserConfig, asked_for: &[String]) -> Filtered {
        environment::filter(self.ground.caller.environment.iter().cloned(), &config.environment, asked_for)
    }
}
