//! `whatif export`: a sandbox or a template as one file, to move it to another machine.

use std::io::{BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use whatif_archive::Layer;
use whatif_diff::base;
use whatif_layers::copy::Copied;
use whatif_layers::parts;
use whatif_overlay::Format;
use whatif_types::sandbox::{Details, Position};
use whatif_types::{Lockfile, MadeBy, Sandbox, Template, copied};

use crate::history::History;
use crate::history::snapshot::Disturbed;
use crate::lifecycle::shift::Live;
use crate::owner::Owner;
use crate::{EngineError, now};

/// What to put into an archive.
#[derive(Clone, Copy, Debug)]
pub enum Exported<'a> {
    /// A sandbox or a snapshot.
    Position(&'a str),
    Template(&'a str),
}

/// What an archive says about itself. An import reads less of it (`import/claims.rs`).
#[derive(Clone, Debug, Serialize)]
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

/// An archive that was written.
#[derive(Debug)]
pub struct Packed {
    pub about: About,
    /// Among others, the digest that tells it from a forged one.
    pub written: whatif_archive::Written,
    pub disturbed: Option<Disturbed>,
}

impl History {
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
            Exported::Template(name) => self.about_template(self.ground.template(name)?),
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
        self.ground.require_layers(&owner, &about.details.position.stack)?;
        let details = &about.details;
        let is_copied = |tree: &usize| details.backend == whatif_types::Backend::Copy || details.copied_trees.contains(tree);
        let copied: Vec<String> = (0..details.trees.len()).filter(is_copied).map(|tree| tree.to_string()).collect();
        self.ground.own_everything();
        let unshown = self.ground.secrets_of(&about.project, &about.details)?.unshown()?.all();
        let mut layers = Vec::new();
        for id in &about.details.position.stack {
            let directory = self.ground.state.layer_path(id);
            let mut instead = inventories(&directory, &about.details.copied_trees)?;
            let in_base = |name: &str| format!("{}/{name}", parts::BASE);
            // It names places of the state directory here.
            let mut without = vec![in_base(whatif_diff::watch::FILE)];
            let kept = directory.join(parts::BASE);
            let shareable = base::shareable(&kept, &unshown).map_err(|e| EngineError::io("read", &kept, e))?;
            if let Some(base::Shareable { index, withheld }) = shareable {
                instead.push((in_base(base::INDEX), index));
                without.extend(withheld.iter().map(|name| in_base(name)));
            }
            layers.push(Layer { id: id.to_string(), directory, marks: self.marks(), copied: copied.clone(), instead, without });
        }
        let value = serde_json::to_value(&about).map_err(|e| EngineError::io("describe", &about.project, e.into()))?;
        let mut out = BufWriter::new(out);
        let written = whatif_archive::write(&mut out, value, &layers, progress)
            .map_err(|error| EngineError::from(error).about_inside(self.ground.state.root(), &about.details.trees))?;
        out.flush().map_err(|e| EngineError::io("write", Path::new("the archive"), e))?;
        Ok(Packed { about, written, disturbed })
    }

    fn about_sandbox(&self, sandbox: Sandbox) -> About {
        About {
            kind: Kind::Sandbox,
            name: sandbox.name,
            project: sandbox.project,
            provider: sandbox.provider,
            made_by_root: self.ground.caller.works_as_root(),
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
            made_by_root: self.ground.caller.works_as_root(),
            exported_at: now(),
            message: template.message,
            lockfiles: template.lockfiles,
            details: bare(template.details),
        }
    }

    pub(crate) fn marks(&self) -> Format {
        if self.ground.caller.works_as_root() { Format::Trusted } else { Format::User }
    }
}

/// What the copied trees of a layer were made from, as an archive says it.
fn inventories(layer: &Path, copied_trees: &[usize]) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
    let mut found = Vec::new();
    for tree in copied_trees {
        let copy = layer.join(tree.to_string());
        let name = copied::beside(&copy).file_name().map(|name| name.to_string_lossy().into_owned());
        if let (Some(name), Some(inventory)) = (name, Copied::to_archive(&copy)?) {
            found.push((name, inventory));
        }
    }
    Ok(found)
}

/// What another machine can use of the details: no process, no time, no variable of this one.
fn bare(details: Details) -> Details {
    Details {
        handle: None,
        reserved_ids: None,
        set_env: Vec::new(),
        carried_env: Vec::new(),
        dropped_env: Vec::new(),
        labels: Default::default(),
        stop_reason: None,
        expiry: None,
        usage: None,
        default_limits: None,
        error: None,
        transient: false,
        disposable: false,
        position: Position { stack: details.position.stack.clone(), ..Position::default() },
        ..details
    }
}
