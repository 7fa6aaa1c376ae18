//! `whatif export` and `whatif import`: a sandbox or a template as one file, to move it to another machine.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use whatif_archive::{Layer, Limits, Manifest, Marks, Options};
use whatif_layers::shift::LayerOrigin;
use whatif_layers::{parts, remove};
use whatif_store::StoreError;
use whatif_sys::absence;
use whatif_types::sandbox::{Details, Position};
use whatif_types::{Identity, LayerId, Lockfile, MadeBy, Sandbox, Status, Template, name};

use crate::create::{new_id, with_a_name};
use crate::lineage::Owner;
use crate::network::usual;
use crate::shift::{Live, new_layer_id};
use crate::snapshot::Disturbed;
use crate::template::lockfiles_in;
use crate::{Engine, EngineError, now};

/// What to put into an archive.
#[derive(Clone, Copy, Debug)]
pub enum Exported<'a> {
    /// A sandbox or a snapshot.
    Position(&'a str),
    Template(&'a str),
}

/// What to make of an archive.
#[derive(Clone, Debug)]
pub enum Imported<'a> {
    Sandbox(Option<&'a str>),
    Template(&'a str),
    /// Whatever it was, under the name it had.
    AsItWas,
}

impl Imported<'_> {
    /// What becomes of an archive, and under which name, if one is given.
    fn of(&self, about: &About) -> (Kind, Option<String>) {
        match self {
            Imported::Sandbox(name) => (Kind::Sandbox, name.map(str::to_owned)),
            Imported::Template(name) => (Kind::Template, Some((*name).to_owned())),
            Imported::AsItWas => (about.kind, Some(about.name.clone())),
        }
    }
}

/// What an archive says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    /// `sandbox` or `template`.
    pub kind: Kind,
    pub name: String,
    #[serde(with = "whatif_types::text::path")]
    pub project: std::path::PathBuf,
    pub provider: String,
    pub made_by_root: bool,
    pub exported_at: u64,
    pub message: Option<String>,
    pub lockfiles: Vec<Lockfile>,
    pub details: Details,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Sandbox,
    Template,
}

/// An import that was done.
#[derive(Clone, Debug, Serialize)]
pub struct Arrived {
    pub kind: Kind,
    pub name: String,
    #[serde(with = "whatif_types::text::path")]
    pub project: std::path::PathBuf,
    pub layers: usize,
    pub bytes: u64,
    /// What `export` printed, if it is the same archive.
    pub sha256: String,
}

/// An archive that was written.
#[derive(Debug)]
pub struct Packed {
    pub about: About,
    /// Among others, the digest that tells it from a forged one.
    pub written: whatif_archive::Written,
    pub disturbed: Option<Disturbed>,
}

/// What was looked at without unpacking it.
#[derive(Debug)]
pub struct Inspected {
    pub about: About,
    pub manifest: Manifest,
    /// It stands for all of the archive.
    pub digest: String,
}

impl Engine {
    /// Writes an archive.
    pub fn export(
        &self,
        what: Exported<'_>,
        live: Live,
        out: impl Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Packed, EngineError> {
        let mut disturbed = None;
        let about = match what {
            Exported::Template(name) => self.about_template(self.template(name)?),
            Exported::Position(source) => {
                let named = self.position_called(source, MadeBy::Export, live, None, None)?;
                disturbed = named.disturbed;
                let mut about = self.about_sandbox(named.sandbox);
                about.details.position.stack = named.snapshot.details.stack;
                about
            }
        };
        let owner = match what {
            Exported::Template(name) => Owner::Template(name.to_owned()),
            Exported::Position(name) if name.contains('@') => Owner::Snapshot(name.to_owned()),
            Exported::Position(name) => Owner::Sandbox(name.to_owned()),
        };
        self.require_layers(&owner, &about.details.position.stack)?;
        let is_overlay = about.details.backend == whatif_types::Backend::Overlay && about.details.copied_trees.is_empty();
        let layers: Vec<Layer> = about
            .details
            .position
            .stack
            .iter()
            .map(|id| Layer { id: id.to_string(), directory: self.state.layer_path(id), marks: self.marks(), is_overlay })
            .collect();
        let value = serde_json::to_value(&about).map_err(|e| EngineError::io("describe", &about.project, e.into()))?;
        self.own_everything();
        let mut out = BufWriter::new(out);
        let written = whatif_archive::write(&mut out, value, &layers, progress)?;
        out.flush().map_err(|e| EngineError::io("write", Path::new("the archive"), e))?;
        Ok(Packed { about, written, disturbed })
    }

    fn about_sandbox(&self, sandbox: Sandbox) -> About {
        About {
            kind: Kind::Sandbox,
            name: sandbox.name,
            project: sandbox.project,
            provider: sandbox.provider,
            made_by_root: self.context.is_root(),
            exported_at: now(),
            message: None,
            lockfiles: Vec::new(),
            details: bare(sandbox.details),
        }
    }

    fn about_template(&self, template: Template) -> About {
        About {
            kind: Kind::Template,
            name: template.name,
            project: template.project,
            provider: template.provider,
            made_by_root: self.context.is_root(),
            exported_at: now(),
            message: template.message,
            lockfiles: template.lockfiles,
            details: bare(template.details),
        }
    }

    fn marks(&self) -> Marks {
        if self.context.is_root() { Marks::Trusted } else { Marks::User }
    }

    /// Reads an archive and records what it holds. Nothing is usable before all of it was verified.
    pub fn import(&self, input: impl Read, wanted: &Imported<'_>, progress: &mut dyn FnMut(u64)) -> Result<Arrived, EngineError> {
        self.check_room()?;
        match wanted {
            Imported::Sandbox(name) => self.check_free(Kind::Sandbox, *name)?,
            Imported::Template(name) => self.check_free(Kind::Template, Some(name))?,
            // What its name was is in the archive.
            Imported::AsItWas => {}
        }
        let (place, _lock) = self.state.begin_import(new_id()?.as_str())?;
        let arrived = self.import_into(&place, input, wanted, progress);
        // With nothing recorded, layers that were moved already are removed by the next collection.
        remove::tree(&place)?;
        arrived
    }

    fn import_into(
        &self,
        place: &Path,
        input: impl Read,
        wanted: &Imported<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Arrived, EngineError> {
        let unpacked = place.join("layers");
        fs::create_dir(&unpacked).map_err(|e| EngineError::io("create", &unpacked, e))?;
        // An archive cannot hold more than there is room for.
        let limits = Limits { bytes: self.free_bytes()?, ..Limits::default() };
        let options = Options { marks: self.marks(), keep_owners: self.context.is_root(), limits };
        let extracted = whatif_archive::read(BufReader::new(input), &unpacked, &options, progress)?;
        let (manifest, sha256) = (extracted.manifest, extracted.digest);
        let mut about: About = serde_json::from_value(manifest.about.clone())
            .map_err(|e| EngineError::BadArchive { why: format!("what it says about itself is not understood ({e})") })?;
        self.check(&about, &manifest)?;
        let (kind, given) = wanted.of(&about);
        self.check_free(kind, given.as_deref())?;
        if !about.details.cwd.starts_with(&about.project) {
            about.details.cwd.clone_from(&about.project);
        }

        // Under new names: the same archive may be imported twice.
        let old: Vec<LayerId> = about.details.position.stack.clone();
        let new: Vec<LayerId> = old.iter().map(|_| new_layer_id()).collect::<Result<_, _>>()?;
        self.announce_layers(place, &new)?;
        let mut below = None;
        for (from, to) in old.iter().zip(&new) {
            LayerOrigin { sandbox: None, below: below.replace(to.clone()) }.mark(&unpacked.join(from.as_str()));
            fs::rename(unpacked.join(from.as_str()), place.join(to.as_str())).map_err(|e| EngineError::io("keep", &unpacked, e))?;
            parts::seal(&place.join(to.as_str()))?;
            self.state.keep_layer(place, to)?;
        }
        self.state.flush_all()?;
        let arrived_at = Some(now());
        about.details.position = Position { stack: new, began_at: arrived_at, arrived_at, ..Position::default() };
        // As for a new one of this backend.
        let same_ids = self.context.is_root() && self.first_choice(Some(about.details.backend)).same_ids;
        about.details.identity = if same_ids { Identity::Same } else { self.context.identity() };
        // Whoever made the archive does not decide what is shown to it here.
        about.provider = whatif_provider::native::NAME.to_owned();
        about.details.exposed.clear();
        (about.details.net, about.details.network) = usual(&self.context.config_for(&about.project)?)?;
        let bytes = manifest.layers.iter().map(|l| l.bytes).sum();
        let layers = manifest.layers.len();
        let project = about.project.clone();
        let name = self.record_import(about, kind, given)?;
        self.flush_settled()?;
        Ok(Arrived { kind, name, project, layers, bytes, sha256 })
    }

    /// Nobody reads a large archive for nothing.
    fn check_free(&self, kind: Kind, name: Option<&str>) -> Result<(), EngineError> {
        let Some(name) = name else { return Ok(()) };
        name::validate(name)?;
        let taken = name.to_owned();
        match kind {
            Kind::Template if self.store.get_template(name)?.is_some() => Err(StoreError::TemplateTaken { name: taken }.into()),
            Kind::Sandbox if self.sandbox_called(name)?.is_some() => Err(StoreError::NameTaken { name: taken }.into()),
            _ => Ok(()),
        }
    }

    /// Whether what an archive asks for can be had here.
    fn check(&self, about: &About, manifest: &Manifest) -> Result<(), EngineError> {
        let refuse = |why: String| Err(EngineError::BadArchive { why });
        let stack: Vec<&str> = about.details.position.stack.iter().map(LayerId::as_str).collect();
        let layers: Vec<&str> = manifest.layers.iter().map(|l| l.id.as_str()).collect();
        if stack != layers || stack.iter().any(|id| LayerId::parse(id).is_none()) {
            return refuse("its layers are not those that it says it stands on".to_owned());
        }
        if about.made_by_root != self.context.is_root() {
            let who = if about.made_by_root { "root" } else { "an ordinary user" };
            return refuse(format!("it was made by {who}, whose sandboxes see other trees than yours"));
        }
        let is_plain = |path: &Path| path.is_absolute() && path.components().all(|c| !matches!(c, std::path::Component::ParentDir));
        if !about.details.trees.iter().all(|t| is_plain(t)) || !is_plain(&about.project) {
            return refuse("it names places that are no absolute paths".to_owned());
        }
        if !absence::is_dir(&about.project).map_err(|e| EngineError::io("examine", &about.project, e))? {
            return refuse(format!("its project is {}, which is not here", about.project.display()));
        }
        Ok(())
    }

    fn record_import(&self, about: About, kind: Kind, given: Option<String>) -> Result<String, EngineError> {
        if kind == Kind::Template {
            let lockfiles = lockfiles_in(&about.project);
            let template = Template {
                name: given.unwrap_or(about.name),
                created_at: now(),
                project: about.project,
                provider: about.provider,
                message: about.message,
                // A sandbox's archive does not know: from here on it is what the project has now.
                lockfiles: if about.kind == Kind::Template { about.lockfiles } else { lockfiles },
                details: about.details,
            };
            self.store.insert_template(&template, None, false)?;
            return Ok(template.name);
        }
        let config = self.context.config_for(&about.project)?;
        // Whoever exported it may have allowed more.
        let limits = about.details.limits.clone().at_most(&self.limits(&config, &whatif_types::Limits::none())?);
        let like = Sandbox {
            id: new_id()?,
            name: about.name,
            status: Status::Stopped,
            version: 1,
            created_at: now(),
            updated_at: now(),
            project: about.project,
            provider: about.provider,
            details: Details { limits, ..about.details },
        };
        let position = Position { made_from: Some("an archive".to_owned()), ..like.details.position.clone() };
        let mut plot = self.new_plot()?;
        let made = with_a_name(given.as_deref(), |name| self.plant(&mut plot, &like, name, position.clone(), None))?;
        plot.settle()?;
        Ok(made.name)
    }
}

/// What another machine can use of the details: no process, no time, no variable of this one.
fn bare(details: Details) -> Details {
    Details {
        keeper_pid: None,
        set_env: Vec::new(),
        carried_env: Vec::new(),
        dropped_env: Vec::new(),
        labels: Default::default(),
        stop_reason: None,
        expiry: None,
        usage: None,
        error: None,
        based_at: None,
        transient: false,
        disposable: false,
        position: Position { stack: details.position.stack.clone(), ..Position::default() },
        ..details
    }
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
    let about = serde_json::from_value(manifest.about.clone())
        .map_err(|e| EngineError::BadArchive { why: format!("what it says about itself is not understood ({e})") })?;
    Ok(Inspected { about, manifest, digest })
}

/// Opens an archive to read.
pub fn open(path: &Path) -> Result<File, EngineError> {
    File::open(path).map_err(|e| EngineError::io("open", path, e))
}
