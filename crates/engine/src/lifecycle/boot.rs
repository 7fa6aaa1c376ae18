//! Brings a keeper up for a sandbox whose directory exists: for `new`, `run` and `start` alike.

use std::cell::RefCell;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Exec, Reason, Reply, Request};
use whatif_layers::allotment::Mounted;
use whatif_layers::copy::{self, Depth};
use whatif_layers::links::Links;
use whatif_layers::plan::{self, Inputs};
use whatif_layers::shift::{SPARE_WORK, UNFINISHED_HEAD};
use whatif_layers::state_dir::AliveLock;
use whatif_layers::survey::{self, Scope, Survey};
use whatif_layers::{allotment, durable, masks, remove, veil};
use whatif_provider::{Instance, Launch, LaunchError, Launched, Launching, Prepared, Provider};
use whatif_sys::absence::{self, MeansAbsent, OrAbsent};
use whatif_sys::patience;
use whatif_types::boot::{Boot, Masks, PROTOCOL_VERSION, Protection, Work};
use whatif_types::config::UserConfig;
use whatif_types::grants::{Allowed, Grants};
use whatif_types::limits::DefaultLimits;
use whatif_types::sandbox::Viewed;
use whatif_types::{Backend, Enforced, Handle, Identity, LayerId, NetMode, PlaceKind, Plan, Sandbox, SandboxId};

use crate::choice::Choice;
use crate::ground::GroundError;
use crate::ground::allotment::Mounting;
use crate::ground::intact::heads_of;
use crate::ground::limits::Lease;
use crate::ground::viewed::viewed_now;
use crate::lifecycle::exec::hand_over;
use crate::lifecycle::recut::{Beneath, Cut};
use crate::lifecycle::{Lifecycle, LifecycleError};
use crate::network::NetworkError;
use crate::trees::copied_trees;
use crate::{EngineError, devices, secrets};

/// Called with a sandbox's directory, and with what is mounted over its heads afterwards.
pub(crate) type Fill<'a> = dyn Fn(&Path, &Plan) -> Result<(), EngineError> + 'a;

/// What is fixed before the first try.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub id: &'a SandboxId,
    pub directory: &'a Path,
    pub project: &'a Path,
    /// For a sandbox that has been up before: its trees by number. Its head is precious then, and nothing else is tried.
    pub known_trees: Option<&'a [PathBuf]>,
    /// The sandbox that is mounted again: what it changed must be seen again.
    pub mounted_before: Option<&'a Sandbox>,
    /// The frozen layers under its head, bottom first.
    pub stack: &'a [LayerId],
    /// Whose they are, for a new sandbox: all of them must be seen.
    pub beneath: Option<&'a Beneath<'a>>,
    /// What was exposed to the sandbox that these layers come from.
    pub veiled: &'a [String],
    /// Puts something into fresh heads before anything is mounted over them.
    pub fill: Option<&'a Fill<'a>>,
    pub net: NetMode,
    pub grants: &'a Grants,
    /// Ports of the host's loopback that can be reached inside.
    pub reach: &'a [u16],
    pub environment: &'a [(String, String)],
    pub provider: &'static dyn Provider,
    /// Asked for by name: if it does not work there is no other try.
    pub backend: Option<Backend>,
    pub config: &'a UserConfig,
    pub secrets: &'a dyn secrets::Known,
    pub lease: Lease<'a>,
}

/// A keeper on its way, and what is known of it; `finish_boot` before trusting it.
pub(crate) struct Booting {
    pub instance: Box<dyn Instance>,
    pub handle: Handle,
    pub client: Client,
    pub choice: Choice,
    pub identity: Identity,
    pub reserved_ids: Option<u32>,
    pub plan: Plan,
    /// The trees by number.
    pub trees: Vec<PathBuf>,
    /// Before anything was mounted for it.
    pub viewed: Viewed,
    /// What its limits are enforced by.
    pub enforced: Vec<Enforced>,
    /// Those that nobody asked for.
    pub default_limits: Option<DefaultLimits>,
    /// Once it stands.
    pub protection: Protection,
    /// Not needed any more once the keeper has joined it.
    _prepared: Prepared,
}

impl Booting {
    /// What a record says of it.
    pub(crate) fn note_in(&self, sandbox: &mut Sandbox) {
        let details = &mut sandbox.details;
        details.handle = Some(self.handle);
        details.backend = self.plan.backend;
        details.backend_reason.clone_from(&self.choice.reason);
        details.identity = self.identity;
        details.reserved_ids = self.reserved_ids;
        details.trees.clone_from(&self.trees);
        details.copied_trees = copied_trees(&self.plan);
        details.position.heads = Some(heads_of(&self.plan));
        details.enforced.clone_from(&self.enforced);
        details.default_limits.clone_from(&self.default_limits);
        details.protection = self.protection.clone();
    }

    /// Waits until it is gone.
    pub(crate) fn end(&self) {
        self.instance.kill();
        self.instance.wait(None);
    }
}

impl Lifecycle {
    /// Starts a keeper ahead of everything that is still to be found out about its sandbox.
    pub(super) fn launch(&self, launch: &Launch<'_>, provider: &dyn Provider) -> Result<Box<dyn Launching>, EngineError> {
        provider.launch(launch).map_err(|error| self.explain_nesting(error))
    }

    pub(super) fn identity_for(&self, choice: &Choice) -> Identity {
        if choice.same_ids && self.ground.caller.works_as_root() { Identity::Same } else { self.ground.caller.identity() }
    }

    /// Starts a keeper and prepares its layers. It has no command yet: nothing runs before the sandbox has its row.
    pub(crate) fn begin_boot(&self, wish: &Wish<'_>, choice: Choice) -> Result<Booting, EngineError> {
        self.begin_boot_with(None, wish, choice)
    }

    /// The same with a keeper that is on its way already.
    pub(super) fn begin_boot_with(
        &self,
        mut launching: Option<Box<dyn Launching>>,
        wish: &Wish<'_>,
        choice: Choice,
    ) -> Result<Booting, EngineError> {
        let mut tries = 0;
        loop {
            match self.try_to_begin(launching.take(), wish, choice.clone()) {
                Err(error) if wish.known_trees.is_none() && has_moved(&error) && tries < MOST_TRIES => {
                    tries += 1;
                    self.clear_heads(wish)?;
                }
                other => return other,
            }
        }
    }

    fn try_to_begin(&self, launching: Option<Box<dyn Launching>>, wish: &Wish<'_>, choice: Choice) -> Result<Booting, EngineError> {
        // The keeper loads while its layers are planned and prepared.
        let (identity, programs) = (self.identity_for(&choice), &self.ground.state.cache());
        let launching = match launching {
            Some(launching) => launching,
            None => {
                let is_expendable = !wish.lease.limits.are_off();
                self.launch(&Launch { id: wish.id, identity, net: wish.net, is_expendable, programs }, wish.provider)?
            }
        };
        let alive = alive_lock(wish.directory)?;
        let launched = launching.settle(wish.directory, alive.as_fd());
        let launched = launched.map_err(|error| self.explain_nesting(error))?;
        drop(alive);
        let Launched { instance, handle, identity, reserved_ids, birth: mut client, prepared } = launched;
        let end = |_: &EngineError| instance.kill();
        let Cut { plan, masks, trees } = self.prepare_layers(wish, choice.backend).inspect_err(end)?;
        let mut boot = self.describe_boot(wish, plan.clone(), masks, identity, Work::default());
        boot.devices = devices::granted(wish.grants).map_err(|error| LifecycleError::from(error).into()).inspect_err(end)?;
        boot.measures_head = wish.lease.limits.limits_room();
        boot.has_allotment = self.ground.has_allotment(wish.lease.limits, wish.directory).inspect_err(end)?;
        boot.counts_sockets = wish.lease.limits.memory.is_some();
        let to_join = prepared.descriptors();
        let bounded = !wish.lease.limits.are_off() || !wish.lease.limits.is_unlimited() || wish.config.disk.keep_free.is_some();
        let viewed = viewed_now(wish.project, plan.trees());
        // A keeper that ended during its start has said why; `finish_boot` reads it.
        let _ = client.send(&Request::Boot { boot: Box::new(boot), prepared: !to_join.is_empty(), bounded }, &to_join);
        drop(to_join);
        // The keeper puts the sandbox together meanwhile.
        let (mut enforced, mut default_limits) = (Vec::new(), None);
        if bounded {
            let bounds = self.ground.bind(wish.id, wish.directory, wish.lease, wish.config, (wish.provider, identity, handle));
            let bounds = bounds.inspect_err(end)?;
            let (request, descriptors) = bounds.request();
            let _ = client.send(&request, &descriptors);
            drop(descriptors);
            (enforced, default_limits) = (bounds.bound.enforced, bounds.bound.defaults);
        }
        let (protection, _prepared) = (Protection::default(), prepared);
        Ok(Booting {
            instance,
            handle,
            client,
            choice,
            identity,
            reserved_ids,
            plan,
            trees,
            viewed,
            enforced,
            default_limits,
            protection,
            _prepared,
        })
    }

    pub(crate) fn describe_boot(&self, wish: &Wish<'_>, plan: Plan, masks: Masks, identity: Identity, work: Work) -> Boot {
        Boot {
            version: PROTOCOL_VERSION,
            id: wish.id.clone(),
            directory: wish.directory.to_owned(),
            work,
            project: wish.project.to_owned(),
            layers: self.ground.state.layers(),
            stack: wish.stack.iter().rev().cloned().collect(),
            masks,
            plan,
            identity,
            devices: Vec::new(),
            allows_userns: wish.grants.allows(Allowed::Userns),
            net: wish.net,
            reach: wish.reach.to_vec(),
            environment: wish.environment.to_vec(),
            runtime_dir: self.ground.caller.runtime_dir.clone(),
            measures_head: false,
            has_allotment: false,
            counts_sockets: false,
        }
    }

    /// Waits until the sandbox stands. When it fails, the keeper is gone: nothing writes to what the caller is about to delete.
    pub(crate) fn finish_boot(
        &self,
        wish: &Wish<'_>,
        mut booting: Booting,
        first: Option<(&Exec, &[BorrowedFd<'_>])>,
    ) -> Result<Booting, EngineError> {
        match self.await_boot(wish, &mut booting, first) {
            Ok(protection) => Ok(Booting { protection, ..booting }),
            Err(error) => {
                booting.end();
                Err(error)
            }
        }
    }

    /// If a way of layering does not work here, the next best is tried, and remembered.
    fn await_boot(
        &self,
        wish: &Wish<'_>,
        booting: &mut Booting,
        first: Option<(&Exec, &[BorrowedFd<'_>])>,
    ) -> Result<Protection, EngineError> {
        let mut reasons: Vec<String> = Vec::new();
        let mut fell_back = false;
        let mut tries = 0;
        loop {
            // Sent before the sandbox stands, so that the keeper goes on to it without a pause.
            if let Some((exec, descriptors)) = first {
                hand_over(booting.identity, descriptors);
                let _ = booting.client.send(&Request::Exec(Box::new(exec.clone())), descriptors);
            }
            self.recycle_spent(&|| !booting.client.is_ready());
            let failed = match booting.client.reply() {
                Ok(Reply::Booted { protection, .. }) => {
                    if fell_back {
                        booting.choice.store(self.ground.state.root());
                    }
                    self.limit_what_is_mounted(wish)?;
                    return Ok(protection);
                }
                Ok(_) => return Err(ClientError::OutOfTurn.into()),
                Err(ClientError::Failed(failed)) => failed,
                Err(error) => return Err(error.into()),
            };
            if failed.reason == Reason::BootNetwork {
                return Err(NetworkError::NoRules { message: failed.message }.into());
            }
            if wish.known_trees.is_some() {
                return Err(LifecycleError::Boot { message: failed.message, errno: failed.errno }.into());
            }
            let mut choice = booting.choice.clone();
            if is_absence(failed.errno) && tries < MOST_TRIES {
                tries += 1;
                booting.instance.wait(None);
                self.clear_heads(wish)?;
                *booting = self.begin_boot(wish, choice)?;
                continue;
            }
            match failed.reason {
                Reason::BootIdMapping if !choice.same_ids => choice.same_ids = true,
                // Before 5.19 overlayfs takes no idmapped layers; then the same ids on both sides are the lesser loss.
                Reason::BootLayers if self.ground.caller.works_as_root() && !choice.same_ids => choice.same_ids = true,
                Reason::BootLayers if wish.backend.is_some() => {
                    return Err(LifecycleError::Backend { backend: booting.choice.backend, message: failed.message }.into());
                }
                Reason::BootLayers => {
                    reasons.push(format!("{}: {}", choice.backend, failed.message));
                    choice.backend = next_best(choice.backend).ok_or(LifecycleError::NoBackend { reasons: reasons.clone() })?;
                }
                _ => return Err(LifecycleError::Boot { message: failed.message, errno: failed.errno }.into()),
            }
            fell_back = true;
            // Why each better backend was given up, not only the last one.
            choice.reason = Some(if reasons.is_empty() { failed.message } else { reasons.join("; ") });
            booting.instance.wait(None);
            self.clear_heads(wish)?;
            *booting = self.begin_boot(wish, choice)?;
        }
    }

    /// The way to begin with: what was asked for, or what worked last.
    pub(crate) fn first_choice(&self, asked_for: Option<Backend>) -> Choice {
        let remembered = Choice::load(self.ground.state.root());
        match asked_for {
            Some(backend) => Choice {
                backend,
                same_ids: remembered.same_ids || (self.ground.caller.works_as_root() && backend == Backend::Fuse),
                ..Choice::default()
            },
            None => remembered,
        }
    }

    /// Inside a sandbox new namespaces are forbidden, which explains itself badly.
    fn explain_nesting(&self, error: LaunchError) -> EngineError {
        match self.ground.caller.nesting() {
            Some(outer) => GroundError::Nested { outer }.into(),
            None => error.into(),
        }
    }

    fn prepare_layers(&self, wish: &Wish<'_>, backend: Backend) -> Result<Cut, EngineError> {
        let cut = self.cut(wish, backend)?;
        self.make_heads(wish, &cut.plan, Work::default(), Heads::MayExist)?;
        if let Some(fill) = wish.fill {
            fill(wish.directory, &cut.plan)?;
        }
        Ok(cut)
    }

    /// What the sandbox shall see, of reality as it is now.
    pub(crate) fn plan_layers(&self, wish: &Wish<'_>, backend: Backend) -> Result<(Plan, Masks), EngineError> {
        let survey = self.survey(wish)?;
        let plan = self.plan(wish, &survey, backend)?;
        let rewrites = &wish.secrets.get()?.rewrites;
        let hidden = self.hidden(wish)?;
        let masks =
            masks::describe(&plan, &survey.mounts, self.ground.caller.identity(), &hidden, rewrites, &self.ground.state.cache())?;
        Ok((plan, masks))
    }

    /// A head and fresh work directories for every tree.
    pub(crate) fn make_heads(&self, wish: &Wish<'_>, plan: &Plan, work: Work, heads: Heads) -> Result<(), EngineError> {
        let veiled = self.veiled(wish)?;
        let mounting = if heads == Heads::AreNew { Mounting::InItsPlace } else { Mounting::Anew };
        let project = self.ground.project_for_head(wish.lease, wish.directory, (plan.backend, mounting))?;
        let join = |directory: &Path| project.map_or(Ok(()), |project| allotment::join(directory, project));
        for place in &plan.places {
            let (tree, depth) = match place.kind {
                PlaceKind::Writable { tree } => (tree, (plan.backend == Backend::Copy).then_some(Depth::Tree)),
                PlaceKind::Skeleton { tree } => (tree, Some(Depth::Level)),
                _ => continue,
            };
            make_work(wish.directory, &work.name(tree), tree)?;
            join(&wish.directory.join("work").join(work.name(tree)))?;
            let head = wish.directory.join("head").join(tree.to_string());
            // In the same directory: an ordinary user may not move a directory that it cannot write elsewhere.
            let unfinished = head.with_file_name(format!("{UNFINISHED_HEAD}{tree}"));
            let is_there = absence::is_dir(&head).map_err(|e| EngineError::io("examine", &head, e))?;
            let made = match (is_there, heads) {
                (true, Heads::MayExist) => continue,
                (true, Heads::AreNew) if depth.is_none() => &head,
                (false, Heads::AreNew) if depth.is_none() => {
                    make_private(&head)?;
                    &head
                }
                // A sandbox that is being made is nobody's until it is whole.
                (false, _) if wish.known_trees.is_none() => {
                    make_private(&head)?;
                    &head
                }
                // One that starts again or gets other layers holds work: a head that a killed command left half copied, or
                // without its attributes, would pass for changes.
                _ => {
                    remove::tree(&unfinished)?;
                    make_private(&unfinished)?;
                    &unfinished
                }
            };
            join(made)?;
            let mut layers = self.ground.state.parts_of(wish.stack, &tree.to_string())?;
            let is_here = |path: &&PathBuf| plan.place_of(path).is_some_and(|p| p.path == place.path);
            let hidden_again: Vec<&Path> =
                veiled.iter().filter(is_here).filter_map(|path| path.strip_prefix(&place.path).ok()).collect();
            if depth.is_none() {
                for path in &hidden_again {
                    veil::cover(made, &layers, &place.path, path)?;
                }
            }
            let topmost = layers.pop();
            match (depth, topmost) {
                // A copied tree is whole in every layer.
                (Some(_), Some(layer)) => {
                    let mut copied = copy::copied_layer(&layer, made)?;
                    for path in &hidden_again {
                        veil::leave_out(made, copied.as_mut(), path)?;
                    }
                    if let Some(copied) = copied {
                        copied.write(&head)?;
                    }
                }
                (Some(depth), None) => {
                    let mut copied = copy::into_directory(&place.path, made, depth, &self.hidden(wish)?).map_err(|error| {
                        let is_closed = error.source.kind() == ErrorKind::PermissionDenied;
                        match is_closed && error.path.starts_with(&place.path) {
                            true => EngineError::from(LifecycleError::Uncopied(error)),
                            false => error.into(),
                        }
                    })?;
                    rewrite_in_copy(wish, &place.path, made, &self.ground.state.cache(), &mut copied)?;
                    copied.write(&head)?;
                }
                // Its root looks as what shows through it does.
                (None, topmost) => {
                    let shown = topmost.as_deref().unwrap_or(&place.path);
                    let looked = fs::symlink_metadata(shown).or_absent().map_err(|e| EngineError::io("examine", shown, e))?;
                    if let Some(metadata) = looked {
                        match copy::copy_looks(shown, made, &metadata) {
                            // Reality has just removed it, and the sandbox does without.
                            Err(error) if error.source.means_absent() => {}
                            other => other?,
                        }
                    }
                }
            }
            if made != &head {
                if depth.is_some() {
                    // What it is a copy of may go as soon as the records lead here.
                    durable::copied(made, &head)?;
                }
                fs::rename(made, &head).map_err(|e| EngineError::io("keep", &head, e))?;
            }
        }
        Ok(())
    }

    /// To put it together it may have had a little more room than it has.
    fn limit_what_is_mounted(&self, wish: &Wish<'_>) -> Result<(), EngineError> {
        if wish.lease.limits.limits_room() && wish.known_trees.is_some() {
            let room = self.ground.room_of(wish.lease.limits, wish.lease.sandbox)?;
            self.ground.limit_room(wish.directory, &room, |trees| Mounted::With { trees })?;
        }
        Ok(())
    }

    fn clear_heads(&self, wish: &Wish<'_>) -> Result<(), EngineError> {
        self.ground.release_room(wish.lease.limits, wish.directory);
        for part in ["head", "work"].map(|part| wish.directory.join(part)) {
            remove::tree(&part)?;
            make_private(&part)?;
        }
        Ok(())
    }

    pub(crate) fn survey(&self, wish: &Wish<'_>) -> Result<Survey, EngineError> {
        Ok(survey::take(&Scope {
            as_root: self.ground.caller.works_as_root(),
            home: &self.ground.caller.home,
            project: wish.project,
            runtime_dir: self.ground.caller.runtime_dir.as_deref(),
            extra_writable: &wish.config.files.writable,
        })?)
    }

    pub(crate) fn plan(&self, wish: &Wish<'_>, survey: &Survey, backend: Backend) -> Result<Plan, EngineError> {
        if wish.known_trees.is_none() && plan::is_absent_inside(wish.project, &survey.private) {
            return Err(LifecycleError::PrivateProject { path: wish.project.to_owned() }.into());
        }
        // A file that is a mount of its own (as containers have them) cannot be rewritten by a layer; it is hidden instead.
        let known = wish.secrets.get()?;
        let mut secrets = known.targets.clone();
        secrets.extend(survey.kernel_views.iter().cloned());
        secrets.extend(known.rewrites.iter().map(|r| r.path.clone()).filter(|p| survey.file_mounts.contains(p)));
        let failed = RefCell::new(None);
        let subdirectories = |directory: &Path| {
            survey::subdirectories(directory).unwrap_or_else(|error| {
                failed.borrow_mut().get_or_insert(error);
                Vec::new()
            })
        };
        let plan = plan::plan(&Inputs {
            mounts: &survey.mounts,
            file_mounts: &survey.file_mounts,
            as_root: self.ground.caller.works_as_root(),
            backend,
            home: &self.ground.caller.home,
            project: wish.project,
            writable: &survey.writable,
            private: &survey.private,
            state_dir: self.ground.state.root(),
            secrets: &secrets,
            known_trees: wish.known_trees.unwrap_or_default(),
            subdirectories: &subdirectories,
            is_closed: &survey::is_closed,
            run_links: &survey.run_links,
        });
        failed.into_inner().map_or(Ok(plan), |error| Err(error.into()))
    }

    /// What is masked for a sandbox and was not for the one that its layers come from.
    fn veiled(&self, wish: &Wish<'_>) -> Result<Vec<PathBuf>, EngineError> {
        if wish.veiled.is_empty() {
            return Ok(Vec::new());
        }
        let were_exposed = secrets::resolved(&self.ground.caller, wish.veiled)?;
        let known = wish.secrets.get()?;
        let rewritten = known.rewrites.iter().map(|rewrite| &rewrite.path);
        let masked = known.hidden.iter().chain(&known.nicknames).chain(rewritten);
        let mut links = Links::default();
        let mut veiled = Vec::new();
        for path in masked.filter(|path| were_exposed.iter().any(|exposed| path.starts_with(exposed))) {
            // A link hides what it leads to as well.
            veiled.extend(links.follow(path)?.places());
        }
        veiled.sort();
        veiled.dedup();
        Ok(veiled)
    }

    /// Everything that must not be seen inside; the state directory first of all.
    pub(crate) fn hidden(&self, wish: &Wish<'_>) -> Result<Vec<PathBuf>, EngineError> {
        let mut hidden = vec![self.ground.state.root().to_owned()];
        hidden.extend(wish.secrets.get()?.hidden.iter().cloned());
        Ok(hidden)
    }
}

/// Reality goes on while a sandbox is made of it: a directory that was there when it was planned may be gone when it is put
/// together. Then it is planned anew, so often.
const MOST_TRIES: usize = 5;

fn has_moved(error: &EngineError) -> bool {
    error.of_path().and_then(std::io::Error::raw_os_error).is_some_and(is_absence)
}

/// What is missing when a directory is gone, or has come since and has no place yet.
fn is_absence(errno: i32) -> bool {
    [rustix::io::Errno::NOENT, rustix::io::Errno::ROFS].iter().any(|absence| absence.raw_os_error() == errno)
}

/// A keeper that was told to end may take a moment to let go of its mounts.
fn alive_lock(directory: &Path) -> Result<AliveLock, EngineError> {
    let taken = patience::try_until(LAST_MOMENTS, || AliveLock::take(directory))?;
    taken.ok_or_else(|| LifecycleError::Unreachable { directory: directory.to_owned() }.into())
}

const LAST_MOMENTS: Duration = Duration::from_secs(4);

fn next_best(backend: Backend) -> Option<Backend> {
    match backend {
        Backend::Overlay => Some(Backend::Fuse),
        Backend::Fuse => Some(Backend::Copy),
        Backend::Copy => None,
    }
}

/// What heads that are there already are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heads {
    /// What the sandbox already changed.
    MayExist,
    /// Made beforehand, and empty.
    AreNew,
}

fn make_work(directory: &Path, name: &str, tree: usize) -> Result<(), EngineError> {
    let work = directory.join("work").join(name);
    // A volatile overlay leaves a mark that forbids mounting again; the work directory holds nothing worth keeping.
    if absence::is_dir(&work).map_err(|e| EngineError::io("examine", &work, e))? {
        return Ok(remove::contents(&work)?);
    }
    match fs::rename(directory.join(SPARE_WORK).join(tree.to_string()), &work) {
        Ok(()) => Ok(()),
        Err(_) => make_private(&work),
    }
}

/// In a copy there is no layer to put a rewritten file into; it replaces the copied one.
fn rewrite_in_copy(wish: &Wish<'_>, base: &Path, head: &Path, cache: &Path, copied: &mut copy::Copied) -> Result<(), EngineError> {
    for rewrite in &wish.secrets.get()?.rewrites {
        let failed = |e: std::io::Error| EngineError::io("rewrite", &rewrite.path, e);
        // A link to it may lead to a file of the copy.
        let Some(real) = fs::canonicalize(&rewrite.path).or_absent().map_err(failed)? else { continue };
        let Ok(inside) = real.strip_prefix(base) else { continue };
        let copy = head.join(inside);
        if !absence::look(&copy).map_err(failed)?.is_some_and(|found| found.is_file()) {
            continue;
        }
        let metadata = fs::metadata(&rewrite.path).map_err(failed)?;
        fs::write(&copy, (rewrite.content)(&rewrite.path, cache).map_err(failed)?).map_err(failed)?;
        copy::copy_attributes(&rewrite.path, &copy, &metadata)?;
        copied.finished(inside, &copy)?;
    }
    Ok(())
}

fn make_private(path: &Path) -> Result<(), EngineError> {
    DirBuilder::new().mode(0o700).create(path).map_err(|e| EngineError::io("create", path, e))
}
