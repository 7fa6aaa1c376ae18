//! Templates: prepared starts for new sandboxes, with dependencies installed and caches warm.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_store::StoreError;
use whatif_types::timestamp::rfc3339;
use whatif_types::{EventKind, Lockfile, MadeBy, Sandbox, Selector, Template, name};

use crate::history::History;
use crate::history::snapshot::{Disturbed, Named, origin};
use crate::lifecycle::shift::Live;
use crate::owner::Owner;
use crate::{EngineError, now};

/// What package managers pin their versions in.
const LOCKFILES: [&str; 20] = [
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.lock",
    "poetry.lock",
    "Pipfile.lock",
    "uv.lock",
    "pdm.lock",
    "requirements.txt",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
    "mix.lock",
    "pubspec.lock",
    "packages.lock.json",
    "flake.lock",
];
/// Lockfiles lie at the top of a project, or of its parts.
const DEEPEST: usize = 3;
const NOT_ENTERED: [&str; 5] = [".git", "node_modules", "target", "vendor", ".venv"];
const MOST_LOCKFILES: usize = 200;

/// A template as programs read it, and how it compares with reality.
#[derive(Clone, Debug, Serialize)]
pub struct ListedTemplate {
    pub name: String,
    pub created_at: String,
    #[serde(with = "whatif_types::text::path")]
    pub project: PathBuf,
    pub message: Option<String>,
    pub bytes: u64,
    pub lockfiles: Vec<Lockfile>,
    /// Lockfiles that are not in reality what they were when it was saved.
    #[serde(with = "whatif_types::text::paths")]
    pub moved: Vec<PathBuf>,
    #[serde(skip)]
    pub created_ms: u64,
}

/// What becomes a template, and how.
#[derive(Clone, Debug)]
pub struct SaveTemplate {
    pub name: String,
    /// A snapshot of the sandbox; what it is now otherwise.
    pub snapshot: Option<String>,
    pub message: Option<String>,
    /// Instead of a template that has the name.
    pub replace: bool,
    pub live: Live,
}

impl History {
    /// `whatif template save`.
    pub fn save_template(&self, which: &Selector, asked: SaveTemplate) -> Result<(Template, Option<Disturbed>), EngineError> {
        let SaveTemplate { name, snapshot: label, message, replace, live } = asked;
        name::validate(&name)?;
        self.ground.check_room()?;
        let replaced = self.ground.store.get_template(&name)?;
        if !replace && replaced.is_some() {
            return Err(StoreError::TemplateTaken { name }.into());
        }
        let sandbox = self.ground.resolve(which)?;
        let Named { sandbox, snapshot, disturbed } = match label {
            Some(label) => self.at_snapshot(sandbox, &label)?,
            None => self.named_position(&sandbox, MadeBy::Template, live, None, None)?,
        };
        let mut details = sandbox.details.clone();
        details.position.at = Some(snapshot.id.clone());
        details.position.stack = snapshot.details.stack.clone();
        details.position.mounted.clear();
        details.position.heads = None;
        details.position.began_at = Some(details.position.began_at.unwrap_or(sandbox.created_at));
        details.handle = None;
        details.set_env.clear();
        let template = Template {
            name,
            created_at: now(),
            lockfiles: lockfiles_in(&sandbox.project),
            project: sandbox.project.clone(),
            provider: sandbox.provider.clone(),
            // What it is about stays unless another description was given.
            message: message.or_else(|| replaced.and_then(|template| template.message)),
            details,
        };
        self.ground.store.insert_template(&template, Some(&origin(&snapshot)), replace)?;
        self.ground.store.flush()?;
        if replace {
            self.ground.layers_are_left();
        }
        self.ground.tell(EventKind::TemplateSaved, &sandbox, vec![("template", template.name.as_str().into())]);
        Ok((template, disturbed))
    }

    fn at_snapshot(&self, sandbox: Sandbox, label: &str) -> Result<Named, EngineError> {
        let snapshot = self.ground.snapshot_for(&sandbox, label)?;
        let owner = Owner::Snapshot(format!("{}@{}", sandbox.name, snapshot.label));
        self.ground.require_layers(&owner, &snapshot.details.stack)?;
        Ok(Named { sandbox, snapshot, disturbed: None })
    }

    /// `whatif template ls`, newest first.
    pub fn templates(&self) -> Result<Vec<ListedTemplate>, EngineError> {
        self.ground.store.list_templates()?.into_iter().map(|template| self.list_template(template)).collect()
    }

    /// The line for one template.
    pub fn list_template(&self, template: Template) -> Result<ListedTemplate, EngineError> {
        let mut bytes = 0;
        for layer in &template.details.position.stack {
            // One that is missing is named by `gc` and `doctor`.
            bytes += self.ground.layer_size(layer).map_or(0, |(_, bytes)| bytes);
        }
        Ok(ListedTemplate {
            moved: moved_past(&template),
            name: template.name,
            created_at: rfc3339(template.created_at),
            project: template.project,
            message: template.message,
            bytes,
            lockfiles: template.lockfiles,
            created_ms: template.created_at,
        })
    }

    /// `whatif template rm`. Sandboxes made from it stay.
    pub fn remove_template(&self, name: &str) -> Result<Template, EngineError> {
        let template = self.ground.template(name)?;
        self.ground.store.delete_template(name)?;
        self.ground.layers_are_left();
        self.ground.tell_of(EventKind::TemplateRemoved, name, None, []);
        Ok(template)
    }

    /// What a sandbox of this template should be told about it.
    pub fn template_moved(&self, sandbox: &Sandbox) -> Vec<PathBuf> {
        let name = sandbox.details.position.made_from.as_deref().filter(|n| !n.contains('@'));
        name.and_then(|n| self.ground.store.get_template(n).ok().flatten()).map(|t| moved_past(&t)).unwrap_or_default()
    }
}

/// The lockfiles that reality has changed, got or lost since.
fn moved_past(template: &Template) -> Vec<PathBuf> {
    let now = lockfiles_in(&template.project);
    let is_in = |list: &[Lockfile], file: &Lockfile| list.contains(file);
    let changed = now.iter().filter(|f| !is_in(&template.lockfiles, f));
    let gone = template.lockfiles.iter().filter(|f| !now.iter().any(|n| n.path == f.path));
    let mut moved: Vec<PathBuf> = changed.chain(gone).map(|f| f.path.clone()).collect();
    moved.sort();
    moved
}

pub(crate) fn lockfiles_in(project: &Path) -> Vec<Lockfile> {
    let mut found = Vec::new();
    let mut pending = vec![(project.to_owned(), 1)];
    while let Some((directory, depth)) = pending.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok) {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_dir() && depth < DEEPEST && !NOT_ENTERED.contains(&&*name) {
                pending.push((entry.path(), depth + 1));
            } else if kind.is_file() && LOCKFILES.contains(&&*name) && found.len() < MOST_LOCKFILES {
                found.extend(lockfile(project, &entry.path()));
            }
        }
    }
    found.sort_by(|a: &Lockfile, b| a.path.cmp(&b.path));
    found
}

fn lockfile(project: &Path, path: &Path) -> Option<Lockfile> {
    let bytes = fs::read(path).ok()?;
    Some(Lockfile { path: path.strip_prefix(project).ok()?.to_owned(), digest: whatif_diff::digest::of_bytes(&bytes) })
}
