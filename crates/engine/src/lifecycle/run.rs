//! `whatif run`: make a sandbox, run a command in it, and keep the sandbox only if there is something to keep.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use whatif_diff::Summary;
use whatif_keeper::protocol::{Exited, Request};
use whatif_layers::StateDir;
use whatif_layers::state_dir::SandboxLock;
use whatif_provider::Instance;
use whatif_types::sandbox::StopReason;
use whatif_types::text::Text;
use whatif_types::{EventKind, LimitHit, Sandbox, Span, Status};

use crate::ground::GroundError;
use crate::ground::ended::mark_stopped;
use crate::ground::lifetime::is_expired;
use crate::lifecycle::create::{Created, Making, NewSandbox, Start, with_a_name};
use crate::lifecycle::exec::{CommandSpec, Running, Surroundings, hand_over};
use crate::lifecycle::unrecorded::Recorded;
use crate::lifecycle::{Lifecycle, LifecycleError};
use crate::network::{LAST_WORDS, Troubles, end_supervisor};
use crate::{EngineError, now};

/// How long a killed sandbox may take to be gone.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
/// Recorded for a command that reached its timeout, whichever signal ended it. It is what `timeout` returns.
const TIMED_OUT: i32 = 124;

/// Whether the sandbox stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// When it changed something that matters or left a process running.
    #[default]
    IfItMatters,
    Always,
    /// Without any process that its command left.
    Stopped,
    Never,
}

/// A run under way. If it is dropped before `finish`, the next command decides what becomes of the sandbox.
#[derive(Debug)]
pub struct Run {
    pub running: Running,
    lock: SandboxLock,
    instance: Box<dyn Instance>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished {
    pub sandbox: Sandbox,
    pub summary: Summary,
    /// Why nothing is known about what it changed.
    pub unseen: Option<EngineError>,
    pub kept: bool,
    /// Another command removed it while its command ran.
    pub removed: bool,
    pub left_processes: bool,
    /// Whom it did not get through to.
    pub network: Troubles,
}

impl Finished {
    /// What is lost with the sandbox's own `/tmp`, because nothing runs in it any more. Directories that lead to a project or home
    /// there were not left by the command.
    #[must_use]
    pub fn left_in_tmp(&self, exited: &Exited) -> Vec<Text> {
        let is_on_the_way = |name: &Text| {
            let path = Path::new("/tmp").join(name.to_path());
            self.sandbox.details.trees.iter().chain([&self.sandbox.project]).any(|tree| tree.starts_with(&path))
        };
        let is_lost = !self.left_processes;
        exited.left_in_tmp.iter().filter(|name| is_lost && !is_on_the_way(name)).cloned().collect()
    }
}

impl Lifecycle {
    pub fn run(&self, new: &NewSandbox, spec: &CommandSpec, descriptors: &[BorrowedFd<'_>]) -> Result<Run, EngineError> {
        let mut run = self.run_from(None, new, spec, descriptors)?;
        run.running.fills_pool = true;
        Ok(run)
    }

    /// The same with a head that begins over more than reality.
    pub(crate) fn run_from(
        &self,
        start: Option<&Start<'_>>,
        new: &NewSandbox,
        spec: &CommandSpec,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Run, EngineError> {
        let at = self.whereabouts(new)?;
        let ahead = self.launch_ahead(new, &at);
        let mut validated = self.validate_at(at, new)?;
        let published = validated.bind_ports()?;
        let asked_for: Vec<String> = new.env.iter().chain(&spec.env).cloned().collect();
        let timeout = spec.timeout.or(validated.limits.timeout.map(Span::duration));
        let spec = CommandSpec { env: asked_for, timeout, ..spec.clone() };
        let arguments = || spec.arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        let command: Vec<String> = spec.called.as_ref().map_or_else(arguments, |called| vec![called.clone()]);
        // With secrets, whom to trust must be known before anything runs.
        let may_begin = validated.network.secrets.is_empty();
        let recorded = if start.is_none() { Recorded::of_run(new, &validated, &*self.ground.store) } else { Recorded::AtOnce };
        let created = validated.with_network(|validated| {
            with_a_name(new.name.as_deref(), |name| {
                let around = Surroundings { sandbox: name, cwd: &validated.cwd, net: validated.net, network: &validated.network };
                let exec = self.request(&validated.config, around, &spec, false);
                let first = may_begin.then_some((&exec, descriptors));
                self.create_with(name, new, validated, &Making { command: &command, first, start, recorded, ahead: ahead.as_ref() })
            })
        })?;
        let Created { sandbox, recorded, lock, mut client, instance } = created;
        let mut served = self.network.serve_from_the_start(&sandbox, published);
        if served.is_ok() && !may_begin {
            let exec = self.request(&validated.config, Surroundings::of(&sandbox, &validated.cwd), &spec, false);
            hand_over(sandbox.details.identity, descriptors);
            served = client.send(&Request::Exec(Box::new(exec)), descriptors).map_err(EngineError::from);
        }
        match served.and_then(|()| Ok(client.started()?)) {
            Ok(started) => Ok(Run { running: Running::new(sandbox, recorded, client, &spec, started), lock, instance }),
            Err(error) => {
                let was_over = is_expired(&sandbox)?;
                // Nothing ran, so there is nothing to look at. Not in the background: races call this from several threads.
                self.discard_here(&sandbox, &*instance)?;
                drop(lock);
                Err(if was_over { LifecycleError::Expired { name: sandbox.name }.into() } else { error })
            }
        }
    }

    /// The head is all there is to keep: no process stays for it.
    fn leave_head(&self, sandbox: &mut Sandbox, instance: &dyn Instance, reason: StopReason) -> Result<(), EngineError> {
        instance.kill();
        let directory = self.ground.directory(sandbox)?;
        if !sandbox.details.enforced.is_empty() || instance.was_prepared(&directory) {
            instance.see_off(&directory, LAST_MOMENTS);
            self.ground.unbind_in(sandbox, &directory);
        }
        end_supervisor(&directory, &sandbox.id, LAST_WORDS);
        mark_stopped(sandbox, reason);
        Ok(())
    }

    /// Keeps a sandbox in which nothing was run.
    pub(crate) fn keep_filled(&self, created: Created) -> Result<Sandbox, EngineError> {
        let Created { mut sandbox, lock, client, instance, .. } = created;
        drop(client);
        let summary = self.ground.summarize_own(&sandbox)?;
        sandbox.details.changed_files = summary.changed_files;
        sandbox.details.size_bytes = summary.size_bytes;
        sandbox.details.transient = false;
        sandbox.details.disposable = false;
        self.leave_head(&mut sandbox, &*instance, StopReason::Finished)?;
        if !instance.wait(Some(LAST_MOMENTS)) {
            return Err(LifecycleError::StillRunning { name: sandbox.name }.into());
        }
        self.flush_copies(&sandbox)?;
        self.ground.record(&mut sandbox)?;
        self.ground.state.settle(&sandbox.id)?;
        drop(lock);
        Ok(sandbox)
    }

    /// Ends a run that nobody wants any more, and deletes its sandbox before it returns.
    pub(crate) fn abandon(&self, run: Run) -> Result<(), EngineError> {
        let Run { running, lock, instance } = run;
        self.discard_here(&running.sandbox, &*instance)?;
        drop(running);
        drop(lock);
        Ok(())
    }

    /// Decides about the sandbox of a run whose command has ended, and puts it away or keeps it.
    pub fn finish(&self, run: Run, exited: &Exited, keep: Keep) -> Result<Finished, EngineError> {
        let (name, code) = (run.running.sandbox.name.clone(), exited.code);
        let fills_pool = run.running.fills_pool;
        let settled = self.settle_run(run, exited, keep).inspect(|finished| {
            if fills_pool {
                self.fill_pool_if_due(&finished.sandbox);
            }
        });
        settled.map_err(|error| match error {
            EngineError::Ground(GroundError::Incomplete { .. }) => {
                LifecycleError::WorkGone { name, code, source: Box::new(error) }.into()
            }
            error => LifecycleError::RanBut { name, code, source: Box::new(error) }.into(),
        })
    }

    fn settle_run(&self, run: Run, exited: &Exited, keep: Keep) -> Result<Finished, EngineError> {
        let Run { mut running, lock, instance } = run;
        // Work that nobody could look at is never thrown away.
        let (summary, unseen) = match self.ground.summarize_own(&running.sandbox) {
            Ok(summary) => (summary, None),
            // Without its directory nothing leads to its keeper later.
            Err(error @ EngineError::Ground(GroundError::Incomplete { .. }))
                if self.ground.state.find(&running.sandbox.id)?.is_none() =>
            {
                instance.kill();
                instance.wait(Some(LAST_MOMENTS));
                return Err(error);
            }
            Err(error) => (Summary { matters: true, ..Summary::default() }, Some(error)),
        };
        let network = self.network.troubles_since(&running.sandbox, 0);
        let ended = running.ended(exited);
        // A time limit that a process could outlive by leaving its session would be none.
        let left_processes = !exited.timed_out && exited.others_alive && keep != Keep::Stopped && running.leaves_others();
        let removed = StateDir::is_unwanted(&self.ground.directory(&running.sandbox)?)?;
        let kept = match keep {
            _ if removed => false,
            Keep::Always | Keep::Stopped => true,
            Keep::Never => false,
            Keep::IfItMatters => summary.matters || left_processes,
        };
        if !kept {
            let sandbox = Sandbox { status: Status::Deleted, ..running.sandbox.clone() };
            self.put_out_of_the_way(running, lock, &*instance)?;
            self.ground.tell(EventKind::CommandEnded, &sandbox, ended);
            return Ok(Finished { sandbox, summary, unseen, kept, removed, left_processes, network });
        }
        self.record_run(&mut running)?;
        let mut sandbox = running.sandbox.clone();
        sandbox.details.exit_code = Some(if exited.timed_out { TIMED_OUT } else { exited.code });
        sandbox.details.usage = Some(exited.usage);
        sandbox.details.changed_files = summary.changed_files;
        sandbox.details.size_bytes = summary.size_bytes;
        sandbox.details.transient = false;
        sandbox.details.disposable = false;
        sandbox.updated_at = now();
        if !left_processes {
            drop(running);
            let is_over = exited.limit_hit == Some(LimitHit::Ttl);
            self.leave_head(&mut sandbox, &*instance, if is_over { StopReason::Expired } else { StopReason::Finished })?;
            // Whoever looks at it next must not see anybody write any more.
            if keep == Keep::Stopped && !instance.wait(Some(LAST_MOMENTS)) {
                return Err(LifecycleError::StillRunning { name: sandbox.name }.into());
            }
        }
        self.flush_copies(&sandbox)?;
        self.ground.record(&mut sandbox)?;
        StateDir::mark_used(&self.ground.state.settle(&sandbox.id)?);
        self.ground.tell(EventKind::SandboxCreated, &sandbox, vec![("changed_files", summary.changed_files.into())]);
        self.ground.tell(EventKind::CommandEnded, &sandbox, ended);
        if !left_processes {
            self.ground.tell_end(&sandbox);
        }
        if left_processes {
            self.ground.publish(&sandbox);
            self.ground.prepare_pause(&sandbox);
            self.ground.attend_if_due(&sandbox);
        }
        drop(lock);
        if let Some(gone @ EngineError::Ground(GroundError::Incomplete { .. })) = unseen {
            return Err(gone);
        }
        Ok(Finished { sandbox, summary, unseen, kept, removed, left_processes, network })
    }
}
