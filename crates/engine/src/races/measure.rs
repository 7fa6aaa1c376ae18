//! What an attempt changed, and what that and its commands come to in numbers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use whatif_diff::noise::is_noise;
use whatif_diff::{Change, ChangeKind, Depth, Found, Kind, between, digest, shown_path};
use whatif_race::spread;
use whatif_types::experiment::{ChangedFile, Changes, Ended, Measured, Outcome};
use whatif_types::text::Text;
use whatif_types::{LayerId, Sandbox};

use crate::EngineError;
use crate::ground::still::Binding;
use crate::races::Races;

/// So many are listed; all are counted.
const MOST_LISTED: usize = 200;
/// Larger files are told apart by their size.
const LARGEST_READ: u64 = 16 << 20;

/// What a sandbox holds.
pub(super) struct Measurement {
    pub changes: Changes,
    /// Of everything that changed.
    pub paths: Vec<PathBuf>,
    /// What could not be looked at, so that anything may have changed there.
    pub unreadable: Vec<PathBuf>,
    /// What tools of the host would execute, and the like.
    pub risky: Vec<PathBuf>,
}

impl Races {
    /// The changes in numbers, and the paths of all of them, ignored ones too.
    /// What was set up before is nobody's merit.
    pub(super) fn measure_changes(&self, sandbox: &Sandbox, under: &[LayerId]) -> Result<Measurement, EngineError> {
        let mut found = self.ground.find_changes(sandbox)?;
        if !under.is_empty() {
            let before = self.ground.changes_in(sandbox, under)?;
            let own = between(&before, &found, true);
            found = Found { changes: own.changes, unreadable: own.unreadable, ..found };
        }
        let paths = found.changes.iter().map(|change| change.path.clone()).collect();
        let unreadable = found.unreadable.iter().map(|u| u.path.clone()).collect();
        let set = self.ground.sort_out(sandbox, found, Depth::Review, Binding::LOOSE)?;
        let mut changes = Changes { bytes: set.bytes, ..Changes::default() };
        let (mut directories, mut risky) = (0, Vec::new());
        for change in &set.changes {
            // A new directory is told by what is in it.
            if change.is_directory() && matches!(change.kind, ChangeKind::Add | ChangeKind::Delete) {
                directories += u64::from(!change.outside && !change.ignored);
                continue;
            }
            let needs_approval = change.needs_approval();
            risky.extend(needs_approval.then(|| change.path.clone()));
            if change.outside {
                // Caches and logs are no more than what every tool leaves.
                changes.outside += u64::from(!is_noise(&change.path, &sandbox.project));
            } else if change.ignored && !needs_approval {
                changes.ignored += 1;
            } else {
                count(&mut changes, change, sandbox)?;
            }
        }
        if changes.files == 0 {
            // Empty ones, then.
            changes.files = directories;
        }
        Ok(Measurement { changes, paths, unreadable, risky })
    }
}

fn count(changes: &mut Changes, change: &Change, sandbox: &Sandbox) -> Result<(), EngineError> {
    let (added, deleted) = change.counts().unwrap_or((0, 0));
    changes.files += 1;
    changes.added_lines += added as u64;
    changes.deleted_lines += deleted as u64;
    if changes.list.len() < MOST_LISTED {
        changes.list.push(ChangedFile {
            path: Text::from(shown_path(&change.path, &sandbox.project)),
            mark: mark(change.kind),
            added_lines: added as u64,
            deleted_lines: deleted as u64,
            digest: fingerprint(change)?,
        });
    }
    Ok(())
}

fn mark(kind: ChangeKind) -> char {
    match kind {
        ChangeKind::Add | ChangeKind::Special => '+',
        ChangeKind::Delete => '-',
        ChangeKind::Rename => '>',
        _ => '~',
    }
}

/// The same for two sandboxes that made the same of a path.
fn fingerprint(change: &Change) -> Result<String, EngineError> {
    let Some(after) = &change.after else { return Ok(String::new()) };
    let node = &after.node;
    let failed = |e| EngineError::io("read", &change.path, e);
    let content = match node.kind {
        Kind::File if node.size <= LARGEST_READ => match after.bytes() {
            // Closed by its own mode, and so the same as another that is.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Vec::new(),
            other => other.map_err(failed)?.into_owned(),
        },
        Kind::Link => after.target()?.as_os_str().as_encoded_bytes().to_vec(),
        _ => Vec::new(),
    };
    let facts = [&[node.kind as u8][..], &node.mode.to_le_bytes(), &node.size.to_le_bytes(), &content].concat();
    Ok(digest::of_bytes(&facts)[..16].to_owned())
}

/// What is known before any check.
pub(super) fn note_own(outcome: &mut Outcome) {
    let changes = &outcome.changes;
    let own = [
        ("lines", changes.added_lines + changes.deleted_lines),
        ("files", changes.files + changes.outside),
        ("bytes", changes.bytes),
    ];
    outcome.metrics.extend(own.map(|(name, number)| (name.to_owned(), once(number as f64))));
    if let Some(ended) = &outcome.ended {
        outcome.metrics.insert("attempt_duration".to_owned(), once(ended.usage.wall_ms as f64 / 1000.0));
    }
}

/// What the checks came to, from all times they were run.
pub(super) fn note_trials(outcome: &mut Outcome, custom: &BTreeMap<String, Vec<f64>>) {
    let trials = outcome.checks.iter().map(|check| check.runs.len()).max().unwrap_or(0);
    let of_trial = |trial: usize| outcome.checks.iter().filter_map(move |check| check.runs.get(trial));
    let sums = |number: &dyn Fn(&Ended) -> f64| (0..trials).map(|t| of_trial(t).map(number).sum()).collect::<Vec<f64>>();
    let peaks = |t: usize| of_trial(t).map(|ended| ended.usage.peak_memory_bytes).max().unwrap_or(0) as f64;
    let mut all: Vec<(String, Vec<f64>)> = vec![
        ("duration".to_owned(), sums(&|ended| ended.usage.wall_ms as f64 / 1000.0)),
        ("cpu".to_owned(), sums(&|ended| ended.usage.cpu_ms as f64 / 1000.0)),
        ("memory".to_owned(), (0..trials).map(peaks).collect()),
    ];
    let tests: Vec<u64> = outcome.checks.iter().filter_map(|check| Some(check.tests.as_ref()?.passed)).collect();
    if !tests.is_empty() {
        all.push(("tests".to_owned(), vec![tests.iter().sum::<u64>() as f64]));
    }
    all.extend(custom.iter().map(|(name, values)| (name.clone(), values.clone())));
    outcome.metrics.extend(all.into_iter().filter_map(|(name, values)| Some((name, spread::measured(&values)?))));
}

fn once(value: f64) -> Measured {
    Measured { value, low: value, high: value, runs: 1 }
}
