//! Makes a sandbox: validates everything, reserves its row, prepares layers and keeper; any failure unwinds in reverse.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use whatif_keeper::Client;
use whatif_keeper::protocol::Exec;
use whatif_layers::remove;
use whatif_layers::state_dir::SandboxLock;
use whatif_provider::{Instance, Launching, Provider};
use whatif_store::{Inserted, StoreError};
use whatif_sys::absence::{self, MeansAbsent};
use whatif_types::boot::{PROTOCOL_VERSION, Protection};
use whatif_types::config::UserConfig;
use whatif_types::grants::Grants;
use whatif_types::limits::Expiry;
use whatif_types::network::{NetChoice, NetWish, Publish, Reach, SecretWish};
use whatif_types::sandbox::{Details, Position};
use whatif_types::{Backend, EventKind, Limits, NetMode, Sandbox, SandboxId, Status, Template, name};

use crate::ground::GroundError;
use crate::ground::limits::Lease;
use crate::ids::{fill_random, new_id};
use crate::lifecycle::ahead::Ahead;
use crate::lifecycle::boot::{Booting, Fill, Wish};
use crate::lifecycle::recut::Beneath;
use crate::lifecycle::unrecorded::Recorded;
use crate::lifecycle::{Lifecycle, LifecycleError, precise_times};
use crate::network::{self, NetworkError, Published};
use crate::owner::Owner;
use crate::{EngineError, devices, now, roots, secrets};

/// How long a command waits for another one that makes the same sandbox.
const PATIENCE: Duration = Duration::from_secs(10);

/// A sandbox that was asked for.
#[derive(Debug)]
pub enum Made {
    Now(Sandbox),
    /// By an earlier command with the same key.
    Before(Sandbox),
}

/// What a new sandbox shall be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NewSandbox {
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Empty: what is usual.
    pub net: Vec<NetChoice>,
    pub reach: Vec<Reach>,
    pub publish: Vec<Publish>,
    pub secrets: Vec<SecretWish>,
    pub provider: Option<String>,
    pub backend: Option<Backend>,
    pub mask: Vec<String>,
    pub expose: Vec<String>,
    /// What it may use that no sandbox may by itself.
    pub grants: Grants,
    /// Variables to carry although they look like secrets.
    pub env: Vec<String>,
    #[serde(skip)]
    pub cwd: Option<PathBuf>,
    pub idempotency_key: Option<String>,
    /// Take a snapshot before each command.
    pub auto_snapshot: bool,
    /// Start from this template instead of from reality alone.
    pub template: Option<String>,
    pub limits: Limits,
    /// Nobody wants it if whoever makes it does not come to its end.
    pub disposable: bool,
}

impl NewSandbox {
    /// The one that was asked for, or the usual one.
    pub(super) fn provider(&self) -> Result<&'static dyn Provider, EngineError> {
        let named = self.provider.as_deref().map_or(Ok(whatif_provider::usual()), whatif_provider::by_name);
        Ok(named?)
    }
}

/// A sandbox that stands, still owned by the command that made it.
pub(crate) struct Created {
    pub sandbox: Sandbox,
    pub recorded: Recorded,
    pub lock: SandboxLock,
    pub client: Client,
    pub instance: Box<dyn Instance>,
}

/// What is asked for besides the sandbox itself.
#[derive(Clone, Copy, Default)]
pub(crate) struct Making<'a> {
    /// The first command, as it will be recorded.
    pub command: &'a [String],
    /// It goes to the keeper with the boot, and begins when the sandbox stands.
    pub first: Option<(&'a Exec, &'a [BorrowedFd<'a>])>,
    /// With a head that begins over more than reality.
    pub start: Option<&'a Start<'a>>,
    pub recorded: Recorded,
    /// Its keeper, if that is on its way.
    pub ahead: Option<&'a Ahead>,
}

/// Heads that do not begin empty.
pub(crate) struct Start<'a> {
    /// The trees by number.
    pub trees: &'a [PathBuf],
    /// Layers under its head.
    pub position: Position,
    /// Whose they are, if there are any.
    pub beneath: Option<Beneath<'a>>,
    /// What these layers hold was rebased, so a rebase's markers may be in it.
    pub is_rebased: bool,
    /// Called when its heads exist and nothing is mounted over them.
    pub fill: Option<&'a Fill<'a>>,
}

impl<'a> Start<'a> {
    fn from_template(template: &'a Template) -> Self {
        let position = Position {
            stack: template.details.position.stack.clone(),
            mounted: template.details.position.stack.clone(),
            began_at: template.details.position.began_at,
            arrived_at: template.details.position.arrived_at,
            made_from: Some(template.name.clone()),
            ..Position::default()
        };
        let Details { trees, copied_trees, mounted_trees, based_at, .. } = &template.details;
        let beneath = Some(Beneath { owner: Owner::Template(template.name.clone()), copied_trees, mounted_trees });
        Self { trees, position, beneath, is_rebased: based_at.is_some(), fill: None }
    }
}

/// What decides about the rest.
pub(super) struct Whereabouts {
    cwd: PathBuf,
    project: PathBuf,
    pub config: UserConfig,
    pub net: NetMode,
    network: NetWish,
}

/// Everything about a new sandbox that can be known before anything is made.
#[derive(Clone)]
pub(crate) struct Validated {
    pub cwd: PathBuf,
    pub project: PathBuf,
    pub config: UserConfig,
    pub net: NetMode,
    pub network: NetWish,
    pub template: Option<Template>,
    pub limits: Limits,
    /// By whoever asked for it, and by the configuration.
    pub grants: Grants,
}

impl Validated {
    /// Before anything is made: a port may be taken.
    pub fn bind_ports(&mut self) -> Result<Published, EngineError> {
        let published = Published::bind(&self.network.publish)?;
        self.network.publish = published.numbers();
        Ok(published)
    }

    /// Makes something with the network that was asked for. Where rules cannot be had and nobody asked for any, it has none.
    pub fn with_network<T>(&self, mut make: impl FnMut(&Self) -> Result<T, EngineError>) -> Result<T, EngineError> {
        match make(self) {
            Err(EngineError::Network(NetworkError::NoRules { .. })) if self.network.by_default => {
                make(&Self { net: NetMode::None, ..self.clone() })
            }
            other => other,
        }
    }
}

impl Lifecycle {
    /// `whatif new`: a sandbox that stays.
    pub fn create(&self, new: &NewSandbox) -> Result<Sandbox, EngineError> {
        Ok(match self.create_once(new)? {
            Made::Now(sandbox) | Made::Before(sandbox) => sandbox,
        })
    }

    /// The same, and whether that was an earlier command with the same key.
    pub fn create_once(&self, new: &NewSandbox) -> Result<Made, EngineError> {
        let mut validated = self.validate(new)?;
        if let Some(existing) = self.existing(new)? {
            return Ok(Made::Before(existing));
        }
        let published = validated.bind_ports()?;
        let created = validated.with_network(|validated| {
            with_a_name(new.name.as_deref(), |name| self.create_with(name, new, validated, &Making::default()))
        });
        let mut created = match created {
            // Lost the race for the key, or for the name that goes with it.
            Err(error @ EngineError::Ground(GroundError::Busy { .. } | GroundError::Store(StoreError::NameTaken { .. }))) => {
                return self.existing(new)?.map(Made::Before).ok_or(error);
            }
            other => other?,
        };
        if let Err(error) = self.network.serve_from_the_start(&created.sandbox, published) {
            self.discard(created.sandbox, created.lock, &*created.instance)?;
            return Err(error);
        }
        created.sandbox.details.transient = false;
        self.flush_copies(&created.sandbox)?;
        self.ground.record(&mut created.sandbox)?;
        self.ground.state.settle(&created.sandbox.id)?;
        self.flush_settled()?;
        self.ground.publish(&created.sandbox);
        self.fill_pool_if_due(&created.sandbox);
        self.ground.tell(EventKind::SandboxCreated, &created.sandbox, Vec::new());
        Ok(Made::Now(created.sandbox))
    }

    /// Copied trees are on the disk before a record speaks of them: with half of its files empty a copy would be of no use, and
    /// without its inventory nobody could tell what was changed in it.
    pub(crate) fn flush_copies(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        if sandbox.details.copied_trees.is_empty() { Ok(()) } else { Ok(self.ground.state.flush_all()?) }
    }

    /// Sandboxes that were settled so far survive a power cut, with their records. In this order: a record whose directory is not
    /// there would be taken for that of a lost sandbox.
    pub(crate) fn flush_settled(&self) -> Result<(), EngineError> {
        self.ground.state.flush_settled()?;
        Ok(self.ground.store.flush()?)
    }

    /// The sandbox already made with this key. If another command is still at it, this one waits.
    fn existing(&self, new: &NewSandbox) -> Result<Option<Sandbox>, EngineError> {
        let Some(key) = &new.idempotency_key else { return Ok(None) };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.ground.store.find_by_key(key)? {
                Some(made) if made.status == Status::Creating || made.details.transient => {
                    if Instant::now() >= deadline {
                        return Err(GroundError::Busy { name: made.name }.into());
                    }
                    std::thread::sleep(PATIENCE / 1000);
                }
                found => return Ok(found),
            }
        }
    }

    pub(crate) fn validate(&self, new: &NewSandbox) -> Result<Validated, EngineError> {
        self.validate_at(self.whereabouts(new)?, new)
    }

    /// Where it will be, and whom it may talk to there.
    pub(super) fn whereabouts(&self, new: &NewSandbox) -> Result<Whereabouts, EngineError> {
        let cwd = new.cwd.as_ref().unwrap_or(&self.ground.caller.cwd);
        let cwd = self.existing_directory(cwd)?;
        let project = self.ground.caller.project_of(&cwd)?;
        let config = self.ground.caller.config_for(&project)?;
        let wanted = network::Wanted { net: &new.net, reach: &new.reach, publish: &new.publish, secrets: &new.secrets };
        let (net, network) = self.network.network_of(&wanted, &config)?;
        Ok(Whereabouts { cwd, project, config, net, network })
    }

    pub(super) fn validate_at(&self, at: Whereabouts, new: &NewSandbox) -> Result<Validated, EngineError> {
        let Whereabouts { cwd, project, config, net, network } = at;
        if let Some(given) = &new.name {
            name::validate(given)?;
        }
        check_masks(&new.mask)?;
        self.ground.check_room()?;
        let template = new.template.as_deref().map(|name| self.ground.template(name)).transpose()?;
        if let Some(template) = &template {
            self.ground.require_layers(&Owner::Template(template.name.clone()), &template.details.position.stack)?;
        }
        precise_times::require(&project)?;
        precise_times::require(self.ground.state.root())?;
        if let Some(template) = template.as_ref().filter(|t| t.project != project) {
            let (template, project) = (template.name.clone(), template.project.clone());
            return Err(LifecycleError::TemplateElsewhere { template, project }.into());
        }
        let limits = self.ground.limits(&config, &new.limits, new.provider()?)?;
        let grants = new.grants.and(&config.grants);
        // Before anything is made, it is known that they are there.
        devices::granted(&grants).map_err(LifecycleError::from)?;
        Ok(Validated { cwd, project, config, net, network, template, limits, grants })
    }

    /// The real path of a directory that somebody named.
    pub(crate) fn existing_directory(&self, path: &Path) -> Result<PathBuf, EngineError> {
        self.ground.caller.require_directory(path)?;
        match std::fs::canonicalize(path) {
            Ok(real) if absence::is_dir(&real).map_err(|e| EngineError::io("examine", &real, e))? => Ok(real),
            Ok(_) => Err(LifecycleError::BadDirectory { path: path.to_owned() }.into()),
            Err(error)
                if error.means_absent()
                    || error.kind() == std::io::ErrorKind::PermissionDenied
                    || matches!(Errno::from_io_error(&error), Some(Errno::NAMETOOLONG | Errno::LOOP)) =>
            {
                Err(LifecycleError::BadDirectory { path: path.to_owned() }.into())
            }
            Err(error) => Err(EngineError::io("examine", path, error)),
        }
    }

    /// Makes it, step by step. If a step fails, those before it are taken back.
    pub(crate) fn create_with(
        &self,
        name: &str,
        new: &NewSandbox,
        validated: &Validated,
        making: &Making<'_>,
    ) -> Result<Created, EngineError> {
        if making.start.is_none()
            && let Some(claimed) = self.claim(name, new, validated, making)?
        {
            return Ok(claimed);
        }
        let from_template = validated.template.as_ref().map(Start::from_template);
        let start = making.start.or(from_template.as_ref());
        let wanted = Wanted { name, new, validated, making, start };
        let ahead = making.ahead.and_then(Ahead::take);
        let id = ahead.as_ref().map_or_else(new_id, |launching| Ok(launching.id().clone()))?;
        let (directory, lock) = self.ground.state.create(&id)?;
        match self.make(&wanted, &id, &directory, ahead) {
            Ok((sandbox, booting)) => {
                let Booting { client, instance, .. } = booting;
                Ok(Created { sandbox, recorded: making.recorded, lock, client, instance })
            }
            Err(error) => {
                self.unmake(&id, &directory, validated);
                Err(error)
            }
        }
    }

    /// In its directory, which is all there is of it so far.
    fn make(
        &self,
        wanted: &Wanted<'_>,
        id: &SandboxId,
        directory: &Path,
        ahead: Option<Box<dyn Launching>>,
    ) -> Result<(Sandbox, Booting), EngineError> {
        let Wanted { new, validated, making, start, .. } = *wanted;
        let provider = new.provider()?;
        let masked = wanted.masked();
        let secrets = secrets::lazily(&self.ground.caller, &validated.config, &masked, &new.expose);
        let beneath = start.and_then(|s| s.beneath.as_ref());
        let mounted_before = match (start, beneath) {
            (Some(start), Some(beneath)) => self.with_changes(beneath.mounted_trees, &start.position.stack, None)?,
            _ => Vec::new(),
        };
        let expiry = self.ground.expiry(&validated.limits)?;
        // Layers are read by what wrote them.
        let backend = validated.template.as_ref().map(|t| t.details.backend).or(new.backend).or(validated.config.layers.backend);
        let wish = Wish {
            id,
            directory,
            project: &validated.project,
            known_trees: start.map(|s| s.trees),
            mounted_before: None,
            beneath,
            stack: start.map_or(&[], |s| &s.position.stack),
            veiled: &wanted.veiled(),
            fill: start.and_then(|s| s.fill),
            net: validated.net,
            grants: &validated.grants,
            reach: &reached(&validated.network),
            environment: &wanted.variables(),
            provider,
            backend,
            config: &validated.config,
            secrets: &secrets,
            lease: Lease { limits: &validated.limits, expiry: expiry.as_ref(), sandbox: None },
        };
        let booting = self.begin_boot_with(ahead, &wish, self.first_choice(backend))?;
        // The keeper works on its part while the record is written.
        let mut sandbox = self.describe(wanted, id, masked.clone(), expiry.clone());
        booting.note_in(&mut sandbox);
        self.reserve(&sandbox, directory, wanted).inspect_err(|_| booting.end())?;
        let booted = self.finish_boot(&wish, booting, making.first)?;
        booted.note_in(&mut sandbox);
        sandbox.details.mounted_trees = roots::mounts_and(&booted.viewed.roots, &mounted_before);
        sandbox.details.position.viewed = Some(booted.viewed.clone());
        sandbox.status = Status::Active;
        if making.recorded == Recorded::AtOnce {
            self.ground.record(&mut sandbox).inspect_err(|_| booted.end())?;
        }
        self.ground.note_removal(&sandbox);
        Ok((sandbox, booted))
    }

    /// In this order, and only so far as it succeeds: the next command finishes it.
    fn unmake(&self, id: &SandboxId, directory: &Path, validated: &Validated) {
        if !validated.limits.is_unlimited() {
            self.ground.unbind_lost(id);
            self.ground.release_room(&validated.limits, directory);
        }
        self.ground.state.disown(id);
        if self.ground.store.delete(id).is_ok() {
            let _ = remove::tree(directory);
        }
    }

    /// Its record, before anything was started for it.
    fn describe(&self, wanted: &Wanted<'_>, id: &SandboxId, masked: Vec<String>, expiry: Option<Expiry>) -> Sandbox {
        let Wanted { name, new, validated, making, start } = *wanted;
        let environment = self.environment(&validated.config, &new.env);
        let details = Details {
            cwd: validated.cwd.clone(),
            labels: new.labels.clone(),
            net: validated.net,
            network: validated.network.clone(),
            backend: Backend::Overlay,
            backend_reason: None,
            identity: self.ground.caller.identity(),
            reserved_ids: None,
            trees: Vec::new(),
            copied_trees: Vec::new(),
            mounted_trees: Vec::new(),
            masked,
            exposed: new.expose.clone(),
            veiled: Vec::new(),
            grants: validated.grants.clone(),
            dropped_env: environment.dropped,
            carried_env: new.env.iter().filter(|e| !e.contains('=')).cloned().collect(),
            set_env: wanted.set_variables().map(|(name, _)| name.to_owned()).collect(),
            handle: None,
            keeper_version: PROTOCOL_VERSION,
            protection: Protection::default(),
            stop_reason: None,
            error: None,
            command: making.command.to_vec(),
            exit_code: None,
            changed_files: 0,
            size_bytes: 0,
            based_at: start.filter(|s| s.is_rebased).map(|_| now()),
            position: start.map(|s| s.position.clone()).unwrap_or_default(),
            auto_snapshot: new.auto_snapshot || validated.config.snapshots.auto,
            limits: validated.limits.clone(),
            enforced: Vec::new(),
            default_limits: None,
            expiry,
            usage: None,
            transient: true,
            disposable: new.disposable,
        };
        Sandbox {
            id: id.clone(),
            name: name.to_owned(),
            status: Status::Creating,
            version: 1,
            created_at: now(),
            updated_at: now(),
            project: validated.project.clone(),
            provider: new.provider().map_or("", Provider::name).to_owned(),
            owner: Some(self.ground.caller.principal.key()),
            node: None,
            details,
        }
    }

    /// From here on a command may run in it, whatever becomes of us.
    fn reserve(&self, sandbox: &Sandbox, directory: &Path, wanted: &Wanted<'_>) -> Result<(), EngineError> {
        if wanted.making.recorded == Recorded::WhenItLasts {
            return self.jot_down(sandbox, directory);
        }
        if let Inserted::Existing(other) = self.ground.store.insert(sandbox, wanted.new.idempotency_key.as_deref())? {
            // Made by another command with the same key since we looked.
            return Err(GroundError::Busy { name: other.name }.into());
        }
        // Its layers are needed from here on; had it been removed just before, they might be gone.
        let template = wanted.validated.template.as_ref();
        template.map_or(Ok(()), |template| self.ground.template(&template.name).map(drop))
    }
}

/// Everything that is wanted of a sandbox that is being made.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    name: &'a str,
    new: &'a NewSandbox,
    validated: &'a Validated,
    making: &'a Making<'a>,
    /// What its head begins over, if that is more than reality.
    start: Option<&'a Start<'a>>,
}

impl Wanted<'_> {
    /// What is asked to be hidden, here and where it begins.
    fn masked(&self) -> Vec<String> {
        let inherited = self.validated.template.as_ref().map(|t| inherited_masks(&t.details.masked, &self.new.expose));
        [self.new.mask.clone(), inherited.unwrap_or_default()].concat()
    }

    /// The template's layers may hold what is masked only here.
    fn veiled(&self) -> Vec<String> {
        let of_template = |t: &Template| [t.details.exposed.clone(), t.details.veiled.clone(), self.new.mask.clone()].concat();
        self.validated.template.as_ref().map(of_template).unwrap_or_default()
    }

    fn set_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.new.env.iter().filter_map(|e| e.split_once('='))
    }

    /// What every command in it finds in its environment.
    fn variables(&self) -> Vec<(String, String)> {
        let set = self.set_variables().map(|(name, value)| (name.to_owned(), value.to_owned()));
        set.chain(crate::network::secrets::environment(&self.validated.network)).collect()
    }
}

/// What `--mask` hid from a sandbox stays hidden from what is made of it, unless it is exposed by name.
pub(crate) fn inherited_masks(masked: &[String], expose: &[String]) -> Vec<String> {
    masked.iter().filter(|path| !expose.contains(path)).cloned().collect()
}

pub(crate) fn check_masks(masks: &[String]) -> Result<(), EngineError> {
    if masks.iter().any(|m| matches!(m.as_str(), "/" | "~" | "~/" | "" | ".")) {
        return Err(LifecycleError::MaskOfEverything.into());
    }
    Ok(())
}

/// Calls `make` with the given name or with generated ones until one is free.
pub(crate) fn with_a_name<T>(given: Option<&str>, mut make: impl FnMut(&str) -> Result<T, EngineError>) -> Result<T, EngineError> {
    if let Some(name) = given {
        return make(name);
    }
    let mut attempt = 0;
    loop {
        let mut random = [0; 4];
        fill_random(&mut random)?;
        match make(&name::generate(random, attempt > 0)) {
            Err(EngineError::Ground(GroundError::Store(StoreError::NameTaken { .. }))) if attempt < MOST_NAMES_TRIED => {
                attempt += 1
            }
            other => return other,
        }
    }
}

const MOST_NAMES_TRIED: usize = 20;

/// The ports of the host's loopback that can be reached inside.
pub(crate) fn reached(network: &NetWish) -> Vec<u16> {
    network.reach.iter().map(|reach| reach.0).collect()
}
