//! Makes a sandbox: validates everything, reserves its row, prepares layers and keeper; any failure unwinds in reverse.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use whatif_keeper::Client;
use whatif_keeper::protocol::Exec;
use whatif_layers::remove;
use whatif_layers::state_dir::SandboxLock;
use whatif_provider::Instance;
use whatif_store::{Inserted, StoreError};
use whatif_sys::absence::{self, MeansAbsent};
use whatif_types::boot::{PROTOCOL_VERSION, Protection};
use whatif_types::config::UserConfig;
use whatif_types::network::{NetChoice, NetWish, Publish, Reach, SecretWish};
use whatif_types::sandbox::{Details, Position};
use whatif_types::{Backend, Limits, NetMode, Sandbox, Status, Template, name};

use crate::error::Misuse;
use crate::ground::intact::heads_of;
use crate::ground::limits::Lease;
use crate::ids::{fill_random, new_id};
use crate::lifecycle::Lifecycle;
use crate::lifecycle::boot::{Booting, Fill, Wish};
use crate::lifecycle::precise_times;
use crate::lifecycle::recut::Beneath;
use crate::network::{Published, Wanted};
use crate::owner::Owner;
use crate::trees::copied_trees;
use crate::{EngineError, now, roots, secrets};

/// How long a command waits for another one that makes the same sandbox.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// A sandbox that stands, still owned by the command that made it.
pub(crate) struct Created {
    pub sandbox: Sandbox,
    pub lock: SandboxLock,
    pub client: Client,
    pub instance: Box<dyn Instance>,
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
            Err(EngineError::NoRules { .. }) if self.network.by_default => make(&Self { net: NetMode::None, ..self.clone() }),
            other => other,
        }
    }
}

impl Lifecycle {
    /// `whatif new`: a sandbox that stays.
    pub fn create(&self, new: &NewSandbox) -> Result<Sandbox, EngineError> {
        let mut validated = self.validate(new)?;
        if let Some(existing) = self.existing(new)? {
            return Ok(existing);
        }
        let published = validated.bind_ports()?;
        let created = validated.with_network(|validated| {
            with_a_name(new.name.as_deref(), |name| self.create_with(name, new, validated, Vec::new(), None, None))
        });
        let mut created = match created {
            // Lost the race for the key, or for the name that goes with it.
            Err(error @ (EngineError::Busy { .. } | EngineError::Store(StoreError::NameTaken { .. }))) => {
                return self.existing(new)?.ok_or(error);
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
        Ok(created.sandbox)
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
                        return Err(EngineError::Busy { name: made.name });
                    }
                    std::thread::sleep(PATIENCE / 1000);
                }
                found => return Ok(found),
            }
        }
    }

    pub(crate) fn validate(&self, new: &NewSandbox) -> Result<Validated, EngineError> {
        if let Some(given) = &new.name {
            name::validate(given)?;
        }
        check_masks(&new.mask)?;
        self.ground.check_room()?;
        let template = new.template.as_deref().map(|name| self.ground.template(name)).transpose()?;
        if let Some(template) = &template {
            self.ground.require_layers(&Owner::Template(template.name.clone()), &template.details.position.stack)?;
        }
        let cwd = new.cwd.clone().unwrap_or_else(|| self.ground.caller.cwd.clone());
        let cwd = self.existing_directory(&cwd)?;
        let project = self.ground.caller.project_of(&cwd)?;
        precise_times::require(&project)?;
        precise_times::require(self.ground.state.root())?;
        if let Some(template) = template.as_ref().filter(|t| t.project != project) {
            let (template, project) = (template.name.clone(), template.project.clone());
            return Err(Misuse::TemplateElsewhere { template, project }.into());
        }
        let config = self.ground.caller.config_for(&project)?;
        let wanted = Wanted { net: &new.net, reach: &new.reach, publish: &new.publish, secrets: &new.secrets };
        let (net, network) = self.network.network_of(&wanted, &config)?;
        let limits = self.ground.limits(&config, &new.limits)?;
        Ok(Validated { cwd, project, config, net, network, template, limits })
    }

    /// The real path of a directory that somebody named.
    pub(crate) fn existing_directory(&self, path: &Path) -> Result<PathBuf, EngineError> {
        match std::fs::canonicalize(path) {
            Ok(real) if absence::is_dir(&real).map_err(|e| EngineError::io("examine", &real, e))? => Ok(real),
            Ok(_) => Err(EngineError::BadDirectory { path: path.to_owned() }),
            Err(error) if error.means_absent() || error.kind() == std::io::ErrorKind::PermissionDenied => {
                Err(EngineError::BadDirectory { path: path.to_owned() })
            }
            Err(error) => Err(EngineError::io("examine", path, error)),
        }
    }

    pub(crate) fn create_with(
        &self,
        name: &str,
        new: &NewSandbox,
        validated: &Validated,
        command: Vec<String>,
        first: Option<(&Exec, &[BorrowedFd<'_>])>,
        start: Option<&Start<'_>>,
    ) -> Result<Created, EngineError> {
        if start.is_none()
            && let Some(claimed) = self.claim(name, new, validated, &command, first)?
        {
            return Ok(claimed);
        }
        let from_template = validated.template.as_ref().map(Start::from_template);
        let start = start.or(from_template.as_ref());
        let provider = new.provider.as_deref().map_or(Ok(whatif_provider::usual()), whatif_provider::by_name)?;
        let inherited = validated.template.as_ref().map(|t| inherited_masks(&t.details.masked, &new.expose));
        let masked = [new.mask.clone(), inherited.unwrap_or_default()].concat();
        let secrets = secrets::lazily(&self.ground.caller, &validated.config, &masked, &new.expose);
        let beneath = start.and_then(|s| s.beneath.as_ref());
        let mounted_before = match (start, beneath) {
            (Some(start), Some(beneath)) => self.with_changes(beneath.mounted_trees, &start.position.stack, None)?,
            _ => Vec::new(),
        };
        let id = new_id()?;
        let (directory, lock) = self.ground.state.create(&id)?;
        // Layers are read by what wrote them.
        let backend = validated.template.as_ref().map(|t| t.details.backend).or(new.backend).or(validated.config.layers.backend);
        let set: Vec<(String, String)> =
            new.env.iter().filter_map(|e| e.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let in_place = crate::network::secrets::environment(&validated.network);
        let given = [set.clone(), in_place].concat();
        let expiry = self.ground.expiry(&validated.limits)?;
        let reach = reached(&validated.network);
        // The template's layers may hold what is masked only here.
        let veiled = |t: &Template| [t.details.exposed.clone(), t.details.veiled.clone(), new.mask.clone()].concat();
        let veiled = validated.template.as_ref().map(veiled);
        let veiled = veiled.unwrap_or_default();
        let wish = Wish {
            id: &id,
            directory: &directory,
            project: &validated.project,
            known_trees: start.map(|s| s.trees),
            mounted_before: None,
            beneath,
            stack: start.map_or(&[], |s| &s.position.stack),
            veiled: &veiled,
            fill: start.and_then(|s| s.fill),
            net: validated.net,
            reach: &reach,
            environment: &given,
            provider,
            backend,
            config: &validated.config,
            secrets: &secrets,
            lease: Lease { limits: &validated.limits, expiry: expiry.as_ref(), sandbox: None },
        };

        let unwind = |booting: Option<&Booting>, error: EngineError| {
            if let Some(booting) = booting {
                booting.instance.kill();
                booting.instance.wait(None);
            }
            if !validated.limits.is_unlimited() {
                self.ground.unbind_lost(&id);
            }
            // In this order, and only so far as it succeeds: the next command finishes it.
            self.ground.state.disown(&id);
            if self.ground.store.delete(&id).is_ok() {
                let _ = remove::tree(&directory);
            }
            error
        };
        let booting = self.begin_boot(&wish, self.first_choice(backend)).map_err(|e| unwind(None, e))?;

        // The keeper works on its part while the row is written.
        let environment = self.environment(&validated.config, &new.env);
        let details = Details {
            cwd: validated.cwd.clone(),
            labels: new.labels.clone(),
            net: validated.net,
            network: validated.network.clone(),
            backend: booting.plan.backend,
            backend_reason: booting.choice.reason.clone(),
            identity: booting.identity,
            reserved_ids: booting.reserved_ids,
            trees: booting.trees.clone(),
            copied_trees: copied_trees(&booting.plan),
            mounted_trees: Vec::new(),
            masked: masked.clone(),
            exposed: new.expose.clone(),
            veiled: Vec::new(),
            dropped_env: environment.dropped,
            carried_env: new.env.iter().filter(|e| !e.contains('=')).cloned().collect(),
            set_env: set.iter().map(|(name, _)| name.clone()).collect(),
            handle: Some(booting.handle),
            keeper_version: PROTOCOL_VERSION,
            protection: Protection::default(),
            stop_reason: None,
            error: None,
            command,
            exit_code: None,
            changed_files: 0,
            size_bytes: 0,
            based_at: start.filter(|s| s.is_rebased).map(|_| now()),
            position: Position { heads: Some(heads_of(&booting.plan)), ..start.map(|s| s.position.clone()).unwrap_or_default() },
            auto_snapshot: new.auto_snapshot || validated.config.snapshots.auto,
            limits: validated.limits.clone(),
            enforced: booting.enforced.clone(),
            expiry: expiry.clone(),
            usage: None,
            transient: true,
            disposable: new.disposable,
        };
        let mut sandbox = Sandbox {
            id: id.clone(),
            name: name.to_owned(),
            status: Status::Creating,
            version: 1,
            created_at: now(),
            updated_at: now(),
            project: validated.project.clone(),
            provider: provider.name().to_owned(),
            owner: None,
            node: None,
            details,
        };
        self.reserve(&sandbox, new).map_err(|e| unwind(Some(&booting), e))?;
        // Its layers are needed from here on; had it been removed just before, they might be gone.
        if let Some(template) = &validated.template {
            self.ground.template(&template.name).map_err(|e| unwind(Some(&booting), e))?;
        }

        let (booting, protection) = self.finish_boot(&wish, booting, first).map_err(|e| unwind(None, e))?;
        sandbox.details.protection = protection;
        sandbox.details.handle = Some(booting.handle);
        sandbox.details.backend = booting.plan.backend;
        sandbox.details.backend_reason = booting.choice.reason.clone();
        sandbox.details.identity = booting.identity;
        sandbox.details.reserved_ids = booting.reserved_ids;
        sandbox.details.trees = booting.trees.clone();
        sandbox.details.copied_trees = copied_trees(&booting.plan);
        sandbox.details.position.heads = Some(heads_of(&booting.plan));
        sandbox.details.mounted_trees = roots::mounts_and(&booting.viewed.roots, &mounted_before);
        sandbox.details.position.viewed = Some(booting.viewed.clone());
        sandbox.status = Status::Active;
        self.ground.record(&mut sandbox).map_err(|e| unwind(Some(&booting), e))?;
        Ok(Created { sandbox, lock, client: booting.client, instance: booting.instance })
    }

    /// Inserts the row.
    fn reserve(&self, sandbox: &Sandbox, new: &NewSandbox) -> Result<(), EngineError> {
        match self.ground.store.insert(sandbox, new.idempotency_key.as_deref())? {
            Inserted::New => Ok(()),
            // Made by another command with the same key since we looked.
            Inserted::Existing(other) => Err(EngineError::Busy { name: other.name }),
        }
    }
}

/// What `--mask` hid from a sandbox stays hidden from what is made of it, unless it is exposed by name.
pub(crate) fn inherited_masks(masked: &[String], expose: &[String]) -> Vec<String> {
    masked.iter().filter(|path| !expose.contains(path)).cloned().collect()
}

pub(crate) fn check_masks(masks: &[String]) -> Result<(), EngineError> {
    if masks.iter().any(|m| matches!(m.as_str(), "/" | "~" | "~/" | "" | ".")) {
        return Err(Misuse::MaskOfEverything.into());
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
            Err(EngineError::Store(StoreError::NameTaken { .. })) if attempt < MOST_NAMES_TRIED => attempt += 1,
            other => return other,
        }
    }
}

const MOST_NAMES_TRIED: usize = 20;

/// The ports of the host's loopback that can be reached inside.
pub(crate) fn reached(network: &NetWish) -> Vec<u16> {
    network.reach.iter().map(|reach| reach.0).collect()
}
