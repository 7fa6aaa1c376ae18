//! `whatif import`: a sandbox or a template made of an archive.
//!
//! An archive brings files, and the masks of the sandbox it was made of. Whatever grants something is the importer's: which
//! project, how copy-on-write is done, what is exposed, limits, network, variables.

mod claims;
mod ground;
mod shape;

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_archive::{Limits, Manifest, Options};
use whatif_layers::copy::Copied;
use whatif_layers::shift::LayerOrigin;
use whatif_layers::{parts, remove};
use whatif_store::StoreError;
use whatif_sys::absence;
use whatif_types::boot::Protection;
use whatif_types::sandbox::{Details, Position};
use whatif_types::{Backend, Identity, LayerId, Sandbox, Status, Template, name};

pub use self::claims::Claims;
use self::ground::{Ground, is_plain};
use crate::history::export::Kind;
use crate::history::template::lockfiles_in;
use crate::history::{History, HistoryError};
use crate::ids::{new_id, new_layer_id};
use crate::lifecycle::create::{check_masks, with_a_name};
use crate::network::usual;
use crate::{EngineError, now};

/// What to make of an archive, and on whose terms.
#[derive(Clone, Debug)]
pub struct Import<'a> {
    pub wanted: Imported<'a>,
    /// A directory of the project that it is for; the working directory if not given.
    pub project: Option<&'a Path>,
    /// What it must have been made with; what new sandboxes get if not given.
    pub backend: Option<Backend>,
    /// What to hide besides the defaults.
    pub mask: &'a [String],
}

#[derive(Clone, Debug)]
pub enum Imported<'a> {
    Sandbox(Option<&'a str>),
    Template(&'a str),
    /// Whatever it was, under the name it had.
    AsItWas,
}

impl Imported<'_> {
    /// What becomes of an archive, and under which name, if one is given.
    fn of(&self, claims: &Claims) -> (Kind, Option<String>) {
        match self {
            Imported::Sandbox(name) => (Kind::Sandbox, name.map(str::to_owned)),
            Imported::Template(name) => (Kind::Template, Some((*name).to_owned())),
            Imported::AsItWas => (claims.kind, Some(claims.name.clone())),
        }
    }
}

/// An import that was done.
#[derive(Clone, Debug, Serialize)]
pub struct Arrived {
    pub kind: Kind,
    pub name: String,
    #[serde(with = "whatif_types::text::path")]
    pub project: PathBuf,
    pub layers: usize,
    pub bytes: u64,
    /// What `export` printed, if it is the same archive.
    pub sha256: String,
    /// What was hidden where it comes from, and is not here.
    pub not_masked: Vec<String>,
}

/// What was looked at without unpacking it.
#[derive(Debug)]
pub struct Inspected {
    pub claims: Claims,
    pub manifest: Manifest,
    /// It stands for all of the archive.
    pub digest: String,
}

/// An archive that may be unpacked.
struct Admitted {
    claims: Claims,
    kind: Kind,
    name: Option<String>,
    /// What it becomes, on the importer's terms.
    sandbox: Sandbox,
    ground: Ground,
}

impl History {
    /// Reads an archive and records what it holds. Nothing is usable before all of it was verified.
    pub fn import(&self, input: impl Read, import: &Import<'_>, progress: &mut dyn FnMut(u64)) -> Result<Arrived, EngineError> {
        check_masks(import.mask)?;
        self.ground.check_room()?;
        let (place, _lock) = self.ground.state.begin_import(new_id()?.as_str())?;
        let arrived = self.import_into(&place, input, import, progress);
        // With nothing recorded, layers that were moved already are removed by the next collection.
        remove::tree(&place)?;
        arrived
    }

    fn import_into(
        &self,
        place: &Path,
        input: impl Read,
        import: &Import<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Arrived, EngineError> {
        let unpacked = place.join("layers");
        fs::create_dir(&unpacked).map_err(|e| EngineError::io("create", &unpacked, e))?;
        // An archive cannot hold more than there is room for.
        let limits = Limits { bytes: self.ground.free_bytes()?, ..Limits::default() };
        let options = Options { marks: self.marks(), keep_owners: self.ground.caller.works_as_root(), limits };
        let admit = |manifest: &Manifest| self.admit(import, manifest);
        let (extracted, admitted) = whatif_archive::read(BufReader::new(input), &unpacked, &options, admit, progress)?;
        let Admitted { claims, kind, name, mut sandbox, ground } = admitted;
        let old = &claims.details.position.stack;
        for layer in old {
            let layer = unpacked.join(layer.as_str());
            shape::check(&layer, claims.details.trees.len())?;
            let base = layer.join(parts::BASE);
            if absence::is_dir(&base).map_err(|e| EngineError::io("examine", &base, e))? {
                whatif_diff::base::distrust(&base).map_err(|e| EngineError::io("take over", &base, e))?;
            }
        }
        ground.check_redirects(&extracted.redirects, &claims.details.trees, sandbox.details.backend)?;

        for layer in old {
            for tree in &sandbox.details.copied_trees {
                Copied::from_archive(&unpacked.join(layer.as_str()).join(tree.to_string()))?;
            }
        }

        sandbox.details.position.stack = self.keep_layers(place, &unpacked, old)?;
        let not_masked = claims.masks().1.into_iter().filter(|m| !import.mask.contains(m)).collect();
        let (bytes, layers) = (extracted.manifest.layers.iter().map(|l| l.bytes).sum(), extracted.manifest.layers.len());
        let project = sandbox.project.clone();
        let name = self.record_import(sandbox, claims, kind, name)?;
        self.lifecycle.flush_settled()?;
        Ok(Arrived { kind, name, project, layers, bytes, sha256: extracted.digest, not_masked })
    }

    /// Whether an archive can be had here, on the importer's terms. Asked before anything is unpacked.
    fn admit(&self, import: &Import<'_>, manifest: &Manifest) -> Result<Admitted, EngineError> {
        let claims = Claims::of(manifest)?;
        let (kind, name) = import.wanted.of(&claims);
        self.check_free(kind, name.as_deref())?;
        check_layers(&claims, manifest)?;
        if claims.made_by_root != self.ground.caller.works_as_root() {
            let who = if claims.made_by_root { "root" } else { "an ordinary user" };
            let why = format!("it was made by {who}, whose sandboxes see other trees than yours");
            return Err(HistoryError::BadArchive { why }.into());
        }
        let project = self.project_for(import, &claims)?;
        let mut sandbox = self.on_our_terms(import, &claims, project)?;
        let ground = self.ground_of(&sandbox)?;
        ground.check_trees(&claims)?;
        sandbox.details.mounted_trees = ground.mounted(&claims);
        Ok(Admitted { claims, kind, name, sandbox, ground })
    }

    /// The importer's project, if the archive was made for it.
    fn project_for(&self, import: &Import<'_>, claims: &Claims) -> Result<PathBuf, EngineError> {
        let directory = import.project.unwrap_or(&self.ground.caller.cwd);
        let directory = self.lifecycle.existing_directory(directory)?;
        let project = self.ground.caller.project_of(&directory)?;
        // A directory that is no repository here may have been one where the archive was made, or lie within one here.
        if let Some(same) = [&project, &directory].into_iter().find(|path| **path == claims.project) {
            return Ok(same.clone());
        }
        let theirs = claims.project.clone();
        let is_here = is_plain(&theirs) && absence::is_dir(&theirs).map_err(|e| EngineError::io("examine", &theirs, e))?;
        Err(HistoryError::OtherProject { theirs, yours: project, is_here }.into())
    }

    /// A sandbox as one that is made here now, with what an archive says about its files.
    fn on_our_terms(&self, import: &Import<'_>, claims: &Claims, project: PathBuf) -> Result<Sandbox, EngineError> {
        let theirs = &claims.details;
        let config = self.ground.caller.config_for(&project)?;
        let backend = self.lifecycle.first_choice(import.backend.or(config.layers.backend)).backend;
        if backend != theirs.backend {
            return Err(HistoryError::OtherBackend { theirs: theirs.backend, yours: backend }.into());
        }
        let same_ids = self.ground.caller.works_as_root() && self.lifecycle.first_choice(Some(backend)).same_ids;
        let (net, network) = usual(&config)?;
        let arrived_at = Some(now());
        let is_inside = is_plain(&theirs.cwd) && theirs.cwd.starts_with(&project);
        let details = Details {
            cwd: if is_inside { theirs.cwd.clone() } else { project.clone() },
            labels: Default::default(),
            net,
            network,
            backend,
            backend_reason: None,
            identity: if same_ids { Identity::Same } else { self.ground.caller.identity() },
            reserved_ids: None,
            trees: theirs.trees.clone(),
            mounted_trees: Vec::new(),
            copied_trees: theirs.copied_trees.iter().copied().filter(|number| *number < theirs.trees.len()).collect(),
            masked: [import.mask.to_vec(), claims.masks().0].concat(),
            exposed: Vec::new(),
            // Their layers may hold what is masked only here.
            veiled: [theirs.exposed.clone(), theirs.veiled.clone(), import.mask.to_vec()].concat(),
            // Nothing that comes from elsewhere grants anything here.
            grants: config.grants.clone(),
            dropped_env: Vec::new(),
            carried_env: Vec::new(),
            set_env: Vec::new(),
            handle: None,
            keeper_version: 0,
            protection: Protection::default(),
            stop_reason: None,
            error: None,
            command: Vec::new(),
            exit_code: None,
            changed_files: 0,
            size_bytes: 0,
            // What a rebase marked in it is still marked.
            based_at: theirs.based_at.and(arrived_at),
            position: Position { began_at: arrived_at, arrived_at, ..Position::default() },
            auto_snapshot: config.snapshots.auto,
            limits: self.ground.limits(&config, &whatif_types::Limits::none(), whatif_provider::usual())?,
            enforced: Vec::new(),
            default_limits: None,
            expiry: None,
            usage: None,
            transient: false,
            disposable: false,
        };
        Ok(Sandbox {
            id: new_id()?,
            name: claims.name.clone(),
            status: Status::Stopped,
            version: 1,
            created_at: now(),
            updated_at: now(),
            project,
            provider: whatif_provider::usual().name().to_owned(),
            owner: Some(self.ground.caller.principal.key()),
            node: None,
            details,
        })
    }

    /// Puts layers where layers lie, under new names: the same archive may be imported twice.
    fn keep_layers(&self, place: &Path, unpacked: &Path, old: &[LayerId]) -> Result<Vec<LayerId>, EngineError> {
        let new: Vec<LayerId> = old.iter().map(|_| new_layer_id()).collect::<Result<_, _>>()?;
        self.ground.announce_layers(place, &new)?;
        let mut below = None;
        for (from, to) in old.iter().zip(&new) {
            LayerOrigin { sandbox: None, below: below.replace(to.clone()) }.mark(&unpacked.join(from.as_str()));
            fs::rename(unpacked.join(from.as_str()), place.join(to.as_str())).map_err(|e| EngineError::io("keep", unpacked, e))?;
            parts::seal(&place.join(to.as_str()))?;
            self.ground.state.keep_layer(place, to)?;
        }
        self.ground.state.flush_all()?;
        Ok(new)
    }

    /// Nobody reads a large archive for nothing.
    fn check_free(&self, kind: Kind, name: Option<&str>) -> Result<(), EngineError> {
        let Some(name) = name else { return Ok(()) };
        name::validate(name)?;
        let taken = name.to_owned();
        match kind {
            Kind::Template if self.ground.store.get_template(name)?.is_some() => {
                Err(StoreError::TemplateTaken { name: taken }.into())
            }
            Kind::Sandbox if self.ground.sandbox_called(name)?.is_some() => Err(StoreError::NameTaken { name: taken }.into()),
            _ => Ok(()),
        }
    }

    fn record_import(&self, like: Sandbox, claims: Claims, kind: Kind, given: Option<String>) -> Result<String, EngineError> {
        if kind == Kind::Template {
            let template = Template {
                name: given.unwrap_or(claims.name),
                created_at: now(),
                // A sandbox's archive does not know: from here on it is what the project has now.
                lockfiles: if claims.kind == Kind::Template { claims.lockfiles } else { lockfiles_in(&like.project) },
                project: like.project,
                provider: like.provider,
                message: claims.message,
                details: like.details,
            };
            self.ground.store.insert_template(&template, None, false)?;
            return Ok(template.name);
        }
        let position = Position { made_from: Some("an archive".to_owned()), ..like.details.position.clone() };
        let mut plot = self.lifecycle.new_plot()?;
        let made = with_a_name(given.as_deref(), |name| self.lifecycle.plant(&mut plot, &like, name, position.clone(), &[], None))?;
        plot.settle()?;
        Ok(made.name)
    }
}

fn check_layers(claims: &Claims, manifest: &Manifest) -> Result<(), EngineError> {
    let stack: Vec<&str> = claims.details.position.stack.iter().map(LayerId::as_str).collect();
    let layers: Vec<&str> = manifest.layers.iter().map(|l| l.id.as_str()).collect();
    if stack != layers || stack.iter().any(|id| LayerId::parse(id).is_none()) {
        return Err(HistoryError::BadArchive { why: "its layers are not the ones its manifest lists".to_owned() }.into());
    }
    Ok(())
}

/// What an archive holds, without unpacking it.
pub fn inspect(path: &Path) -> Result<Inspected, EngineError> {
    inspected(whatif_archive::read_manifest(path)?)
}

/// What an archive holds that is being read.
pub fn inspect_from(input: impl Read) -> Result<Inspected, EngineError> {
    inspected(whatif_archive::read_manifest_from(input)?)
}

fn inspected((manifest, digest): (Manifest, String)) -> Result<Inspected, EngineError> {
    let claims = Claims::of(&manifest)?;
    Ok(Inspected { claims, manifest, digest })
}

/// Opens an archive to read.
pub fn open(path: &Path) -> Result<File, EngineError> {
    File::open(path).map_err(|e| EngineError::io("open", path, e))
}
