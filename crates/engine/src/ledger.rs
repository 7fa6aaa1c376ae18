//! A second copy of a sandbox's records, in its own directory, for the day the database is lost.
//!
//! ```text
//! sandboxes/<id>/ledger.jsonl   a line for each change: the sandbox, a snapshot, or the id of a snapshot that was removed
//! templates/<name>.json         a template
//! ```
//!
//! A later line replaces an earlier one, unless its record is older, as after the database was restored from a backup. One cut short
//! counts for nothing. It is read by `gc --adopt`, and where the database lacks layers. Writing it may fail: the database is what counts.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_layers::StateDir;
use whatif_store::Witness;
use whatif_types::{Sandbox, SandboxId, Snapshot, SnapshotId, Status, Template};

use crate::private_file;

const FILE: &str = "ledger.jsonl";
const TEMPLATES: &str = "templates";
/// From here on only what still holds is kept of it.
const LONGEST: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Sandbox(Box<Sandbox>),
    Snapshot(Box<Snapshot>),
    Removed(SnapshotId),
}

/// What a ledger says.
#[derive(Debug)]
pub(crate) struct Entries {
    pub sandbox: Sandbox,
    /// Oldest first.
    pub snapshots: Vec<Snapshot>,
}

/// Writes down what was recorded.
#[derive(Debug)]
pub(crate) struct Ledger {
    state: StateDir,
}

impl Ledger {
    pub(crate) fn of(state: &StateDir) -> Self {
        Self { state: state.clone() }
    }

    fn add(&self, sandbox: &SandboxId, line: &Line) {
        if let Ok(Some(directory)) = self.state.find(sandbox) {
            let _ = add(&directory.join(FILE), line);
        }
    }
}

impl Witness for Ledger {
    fn sandbox(&self, sandbox: &Sandbox) {
        // Nobody has said yet that it shall stay.
        if sandbox.status != Status::Creating && !sandbox.details.transient {
            self.add(&sandbox.id, &Line::Sandbox(Box::new(sandbox.clone())));
        }
    }

    fn snapshot(&self, snapshot: &Snapshot) {
        self.add(&snapshot.sandbox, &Line::Snapshot(Box::new(snapshot.clone())));
    }

    fn snapshot_removed(&self, snapshot: &Snapshot) {
        self.add(&snapshot.sandbox, &Line::Removed(snapshot.id.clone()));
    }

    fn template(&self, template: &Template) {
        let directory = self.state.root().join(TEMPLATES);
        let _ = fs::DirBuilder::new().mode(0o700).create(&directory);
        if let Ok(text) = serde_json::to_vec(template) {
            let _ = private_file::replace(&template_path(&self.state, &template.name), &text);
        }
    }

    fn template_removed(&self, name: &str) {
        let _ = fs::remove_file(template_path(&self.state, name));
    }
}

fn template_path(state: &StateDir, name: &str) -> PathBuf {
    state.root().join(TEMPLATES).join(format!("{name}.json"))
}

fn add(path: &Path, line: &Line) -> io::Result<()> {
    let mut file = File::options().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(&text(line)?)?;
    if file.metadata()?.len() > LONGEST
        && let Some(entries) = read_file(path)?
    {
        let mut all = text(&Line::Sandbox(Box::new(entries.sandbox)))?;
        for snapshot in entries.snapshots {
            all.extend(text(&Line::Snapshot(Box::new(snapshot)))?);
        }
        private_file::replace(path, &all)?;
    }
    Ok(())
}

/// The newline comes first: whatever an interrupted write left is a line of its own then.
fn text(line: &Line) -> io::Result<Vec<u8>> {
    Ok([b"\n", serde_json::to_vec(line)?.as_slice(), b"\n"].concat())
}

/// What the ledger in a sandbox's directory says; `None` if there is none that says anything.
pub(crate) fn read(directory: &Path) -> io::Result<Option<Entries>> {
    read_file(&directory.join(FILE))
}

fn read_file(path: &Path) -> io::Result<Option<Entries>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let (mut sandbox, mut snapshots) = (None::<Sandbox>, Vec::<Snapshot>::new());
    for line in bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()) {
        match line {
            Line::Sandbox(earlier) if sandbox.as_ref().is_some_and(|s| s.version > earlier.version) => {}
            Line::Sandbox(latest) => sandbox = Some(*latest),
            Line::Snapshot(snapshot) => {
                snapshots.retain(|s| s.id != snapshot.id);
                snapshots.push(*snapshot);
            }
            Line::Removed(id) => snapshots.retain(|s| s.id != id),
        }
    }
    Ok(sandbox.map(|sandbox| Entries { sandbox, snapshots }))
}

/// The templates that are written down, and the files that cannot be understood.
pub(crate) fn templates(state: &StateDir) -> io::Result<(Vec<Template>, Vec<PathBuf>)> {
    let (mut templates, mut strange) = (Vec::new(), Vec::new());
    let entries = match fs::read_dir(state.root().join(TEMPLATES)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((templates, strange)),
        other => other?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            match serde_json::from_slice(&fs::read(&path)?) {
                Ok(template) => templates.push(template),
                Err(_) => strange.push(path),
            }
        }
    }
    Ok((templates, strange))
}
