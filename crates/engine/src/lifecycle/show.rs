//! Everything about one sandbox.

use std::time::{Duration, Instant};

use serde::Serialize;
use whatif_diff::Summary;
use whatif_keeper::protocol::{Exited, Process, Reason, Stats};
use whatif_types::boot::{PROTOCOL_VERSION, Protection};
use whatif_types::network::Publish;
use whatif_types::sandbox::Details;
use whatif_types::{Chosen, Handle, Sandbox, Selector, Status};

use crate::EngineError;
use crate::ground::GroundError;
use crate::lifecycle::list::Listed;
use crate::lifecycle::{Lifecycle, LifecycleError};

/// What most programs need to end when they are asked to.
const AFTER_SIGNAL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    #[serde(flatten)]
    pub listed: Listed,
    pub updated_at: String,
    pub version: u64,
    /// Who had it made; not known of one that an earlier version made.
    pub owner: Option<String>,
    pub keeper_pid: Option<Handle>,
    #[serde(with = "whatif_types::text::path")]
    pub directory: std::path::PathBuf,
    pub details: Details,
    #[serde(with = "whatif_types::text::paths")]
    pub masked_paths: Vec<std::path::PathBuf>,
    pub protection: Protection,
    pub processes: Vec<Process>,
    /// What a running one uses as a whole.
    pub stats: Option<Stats>,
    /// Commands that ended lately, oldest first.
    pub ended: Vec<Exited>,
    /// Until its time is up.
    pub remaining_ms: Option<u64>,
    pub changes: Summary,
    /// The label of the snapshot it was last at.
    pub at: Option<String>,
    /// Published ports that another program has.
    pub taken_ports: Vec<Publish>,
}

/// What runs in a sandbox.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessList {
    /// Commands that ended lately, oldest first.
    pub ended: Vec<Exited>,
    pub processes: Vec<Process>,
    /// Its name.
    pub sandbox: String,
}

impl Lifecycle {
    /// `whatif show`.
    pub fn show(&self, which: &Selector) -> Result<Shown, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let processes = self.processes_of(&sandbox)?;
        let (stats, ended) = match sandbox.status {
            Status::Active => (self.ground.ask_instance(&sandbox, |instance| instance.stats())?, self.ended_of(&sandbox)?),
            _ => (None, Vec::new()),
        };
        let remaining_ms = self.ground.remaining_ms(&sandbox)?;
        let listed = self.listed(sandbox.clone())?;
        // What is left of an incomplete one says nothing about what it changed.
        let changes = if listed.missing.is_empty() { self.ground.summarize(&sandbox)? } else { Summary::default() };
        let directory =
            self.ground.state.find(&sandbox.id)?.unwrap_or_else(|| self.ground.state.sandboxes().join(sandbox.id.as_str()));
        let details = sandbox.details.clone();
        let at = match &details.position.at {
            Some(id) => self.ground.store.get_snapshot(id)?.map(|s| s.label),
            None => None,
        };
        let taken_ports = self.network.missing_ports(&sandbox);
        Ok(Shown {
            taken_ports,
            at,
            updated_at: whatif_types::timestamp::rfc3339(sandbox.updated_at),
            version: sandbox.version,
            owner: sandbox.owner.clone(),
            keeper_pid: details.handle,
            directory,
            protection: details.protection.clone(),
            details,
            masked_paths: self.ground.masked_paths(&sandbox)?,
            processes,
            stats,
            ended,
            remaining_ms,
            changes,
            listed,
        })
    }

    /// `whatif ps`.
    pub fn processes(&self, which: &Selector) -> Result<ProcessList, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let (processes, ended) = (self.processes_of(&sandbox)?, self.ended_of(&sandbox)?);
        Ok(ProcessList { ended, processes, sandbox: sandbox.name })
    }

    fn ended_of(&self, sandbox: &Sandbox) -> Result<Vec<Exited>, EngineError> {
        // One of an earlier version does not remember them.
        let remembers = sandbox.details.keeper_version == PROTOCOL_VERSION;
        let is_asked = sandbox.status == Status::Active && remembers;
        if is_asked { Ok(self.ground.ask(sandbox, |mut client| client.ended())?.unwrap_or_default()) } else { Ok(Vec::new()) }
    }

    fn processes_of(&self, sandbox: &Sandbox) -> Result<Vec<Process>, EngineError> {
        if sandbox.status != Status::Active {
            return Ok(Vec::new());
        }
        let mut processes = self.ground.ask(sandbox, |mut client| client.list())?.unwrap_or_default();
        // A sandbox that went meanwhile has nothing to add.
        if let Ok(instance) = self.ground.instance(sandbox) {
            instance.complete(&mut processes);
        }
        Ok(processes)
    }

    /// `whatif kill`: one process by the number `ps` shows, or a command by its id. Returns the number.
    pub fn kill(&self, which: &Selector, chosen: Chosen, signal: i32) -> Result<i32, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        if sandbox.status != Status::Active {
            return Err(GroundError::Stopped { name: sandbox.name }.into());
        }
        let missing = || EngineError::from(LifecycleError::NoSuchProcess { name: sandbox.name.clone(), chosen });
        let explain = |error| match self.ground.explain_end(&sandbox, error) {
            EngineError::Lifecycle(LifecycleError::Command(failed)) if failed.reason == Reason::NoSuchProcess => missing(),
            other => other,
        };
        let mut client = self.ground.connect(&sandbox)?;
        let pid = match chosen {
            Chosen::Pid(pid) => pid,
            Chosen::Id(id) => {
                client.list().map_err(explain)?.iter().find(|p| p.id == Some(id)).map(|p| p.pid).ok_or_else(missing)?
            }
        };
        client.signal(pid, signal).map_err(explain)?;
        Ok(pid)
    }

    /// Whether a process is still there a moment after it was sent a signal. Where that cannot be found out, it is taken to be gone.
    #[must_use]
    pub fn outlives_signal(&self, which: &Selector, pid: i32) -> bool {
        let deadline = Instant::now() + AFTER_SIGNAL;
        let is_alive = || {
            let sandbox = self.ground.resolve(which).ok()?;
            let all = self.ground.connect(&sandbox).ok()?.list().ok()?;
            Some(all.iter().any(|process| process.pid == pid && process.state != 'Z'))
        };
        loop {
            let alive = is_alive().unwrap_or(false);
            if !alive || Instant::now() >= deadline {
                return alive;
            }
            std::thread::sleep(AFTER_SIGNAL / 20);
        }
    }
}
