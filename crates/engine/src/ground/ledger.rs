//! A second copy of a sandbox's records, in its own directory, for the day the database is lost.
//!
//! ```text
//! sandboxes/<id>/ledger.jsonl   a line for each change: the sandbox, a snapshot, or the id of a snapshot that was removed
//! templates/<name>.json         a template
//! ```
//!
//! A later line replaces an earlier one. A record that is older than the latest one, as after the database was restored from a backup,
//! is not written, so the end of a ledger says how far it has come. A line cut short counts for nothing. It is read by `gc --adopt`, and
//! where the database may know less. Writing it may fail: the database is what counts.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_layers::StateDir;
use whatif_store::Witness;
use whatif_sys::absence::OrAbsent;
use whatif_types::{Sandbox, SandboxId, Snapshot, SnapshotId, Status, Template};

use crate::private_file;

const FILE: &str = "ledger.jsonl";
const TEMPLATES: &str = "templates";
/// From here on only what still holds is kept of it.
const LONGEST: u64 = 1 << 20;
/// The latest record of a sandbox is hardly ever further from the end.
const END: u64 = 8 << 10;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Sandbox(Box<Sandbox>),
    Snapshot(Box<Snapshot>),
    Removed(SnapshotId),
}

/// A line that is only asked which record it holds.
#[derive(Deserialize)]
struct Marked {
    sandbox: Option<Mark>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mark {
    pub id: SandboxId,
    pub version: u64,
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
    let mut file = File::options().read(true).append(true).create(true).mode(0o600).open(path)?;
    if let Line::Sandbox(sandbox) = line
        && matches!(latest_in(&file), Ok(Some(latest)) if latest.version > sandbox.version)
    {
        return Ok(());
    }
    file.write_all(&text(line)?)?;
    if file.metadata()?.len() > LONGEST
        && let Some(entries) = read_file(path)?
    {
        let mut all = Vec::new();
        for snapshot in entries.snapshots {
            all.extend(text(&Line::Snapshot(Box::new(snapshot)))?);
        }
        all.extend(text(&Line::Sandbox(Box::new(entries.sandbox)))?);
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

/// The latest record of a sandbox that its ledger holds.
pub(crate) fn latest(directory: &Path) -> io::Result<Option<Mark>> {
    match File::open(directory.join(FILE)).or_absent()? {
        Some(file) => latest_in(&file),
        None => Ok(None),
    }
}

fn latest_in(file: &File) -> io::Result<Option<Mark>> {
    let length = file.metadata()?.len();
    let end = length.saturating_sub(END);
    let found = latest_from(file, end, length)?;
    if found.is_none() && end > 0 { latest_from(file, 0, length) } else { Ok(found) }
}

/// Two commands may have written their lines in the wrong order.
fn latest_from(file: &File, start: u64, end: u64) -> io::Result<Option<Mark>> {
    let mut bytes = vec![0; usize::try_from(end - start).unwrap_or_default()];
    file.read_exact_at(&mut bytes, start)?;
    let marks = bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<Marked>(line).ok()?.sandbox);
    Ok(marks.max_by_key(|mark| mark.version))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger of these lines, in a directory of its own.
    fn ledger(test: &str, lines: &[String]) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("whatif-ledger-{}-{test}", std::process::id()));
        fs::create_dir_all(&directory).expect("it can be made");
        fs::write(directory.join(FILE), lines.concat()).expect("it can be written");
        directory
    }

    fn record(version: u64) -> String {
        format!("\n{{\"sandbox\":{{\"id\":\"0123456789ab\",\"version\":{version},\"name\":\"a\"}}}}\n")
    }

    fn latest_of(test: &str, lines: &[String]) -> Option<u64> {
        let directory = ledger(test, lines);
        let found = latest(&directory).expect("it can be read");
        fs::remove_dir_all(directory).expect("it can be removed");
        found.map(|mark| mark.version)
    }

    #[test]
    fn the_latest_record_is_found_at_the_end() {
        assert_eq!(latest_of("end", &[record(1), record(2), "\n{\"removed\":\"0123456789ab\"}\n".to_owned()]), Some(2));
        assert_eq!(latest_of("swapped", &[record(1), record(3), record(2)]), Some(3));
        assert_eq!(latest_of("cut-short", &[record(1), record(2), "\n{\"sandbox\":{\"id\"".to_owned()]), Some(2));
    }

    #[test]
    fn the_latest_record_is_found_before_a_long_end() {
        let long = format!("\n{{\"snapshot\":\"{}\"}}\n", "x".repeat(END as usize));
        assert_eq!(latest_of("long", &[record(4), long.clone(), long]), Some(4));
    }

    #[test]
    fn a_ledger_without_a_record_has_no_latest_one() {
        assert_eq!(latest_of("none", &[]), None);
        assert_eq!(latest(Path::new("/nonexistent")).expect("it is only absent").map(|mark| mark.version), None);
    }
}
