//! Puts parts of several attempts together into one more attempt, which is judged like the others.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use whatif_apply::{Change as Act, Operation, Plan, Source};
use whatif_diff::content;
use whatif_patch::{Merge, Region, merge};
use whatif_types::experiment::{Attempt, AttemptPlan, Event, Experiment, Kind, Outcome, Verdict};
use whatif_types::name;
use whatif_types::text::Text;

use super::records::wish;
use super::run::{Racing, Tell};
use super::{Clash, RaceError};
use crate::apply::{ApplyRequest, Prepared};
use crate::{Engine, EngineError, NewSandbox};

/// What is taken of one attempt.
#[derive(Clone, Debug)]
pub struct Part {
    pub attempt: String,
    /// Patterns; none means everything.
    pub files: Vec<String>,
}

/// What was put together.
#[derive(Debug)]
pub struct Merged {
    pub experiment: Experiment,
    /// Its number among the attempts.
    pub number: usize,
}

impl Engine {
    /// Where several changed the same, texts are merged; what cannot be is refused, and nothing is made.
    pub fn merge_attempts(
        &self,
        mut experiment: Experiment,
        parts: &[Part],
        name: Option<&str>,
        env: &[String],
        tell: &mut Tell<'_>,
    ) -> Result<Merged, EngineError> {
        let _lock = self.claim_race(&experiment)?;
        let attempt = self.describe(&experiment, parts, name)?;
        let mut prepared = Vec::new();
        for part in parts {
            prepared.push((part.attempt.as_str(), self.prepare_part(&experiment, part)?));
        }
        let plan = compose(&prepared)?;
        let number = experiment.records.len();
        let new = NewSandbox {
            name: self.free_name(format!("{}.{}", experiment.name, attempt.name))?,
            backend: prepared.first().map(|(_, first)| first.sandbox.details.backend),
            ..wish(&experiment, env)?
        };
        let Some((_, first)) = prepared.first() else { return Err(RaceError::NoRaceHere.into()) };
        let sandbox = self.keep_filled(self.filled(&new, &first.sandbox, &plan)?)?;
        // Their sandboxes are free again while the checks run.
        drop(prepared);

        experiment.details.plan.attempts.push(attempt.clone());
        let racing = Racing { begin: self.recorded_start(&experiment)?, ..Racing::of(&experiment, env)? };
        tell(Some(&Event::AttemptBegan { attempt: attempt.name.clone(), sandbox: sandbox.name.clone() }));
        let outcome = Outcome::without_result(Verdict::Failed);
        let judged = self.beside(&racing, tell, |engine, say| engine.judge_changes(&racing, &attempt, &sandbox, outcome, say));
        let outcome = match judged {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Outcome::without_result(Verdict::Cancelled("it was interrupted".to_owned())),
            Err(error) => super::attempt::broken(&error),
        };
        tell(Some(&Event::AttemptEnded { attempt: attempt.name, outcome: Box::new(outcome.clone()) }));
        // Its result first: without a place in the plan it does not count, and without a result it would wait for ever.
        experiment.records.push(Attempt::waiting());
        self.end_attempt(&mut experiment, number, outcome, Some(sandbox.id))?;
        self.store.update_experiment(&mut experiment)?;
        Ok(Merged { experiment, number })
    }

    /// None, for one that is made up, if it cannot be had.
    fn free_name(&self, wanted: String) -> Result<Option<String>, EngineError> {
        let is_free = name::validate(&wanted).is_ok() && !self.is_sandbox(&wanted)?;
        Ok(is_free.then_some(wanted))
    }

    fn describe(&self, experiment: &Experiment, parts: &[Part], name: Option<&str>) -> Result<AttemptPlan, EngineError> {
        if parts.len() < 2 {
            return Err(RaceError::usage("one attempt alone is no merge", "name two: whatif race merge A B").into());
        }
        let given = name.map_or_else(|| parts.iter().map(|p| p.attempt.as_str()).collect::<Vec<_>>().join("-"), str::to_owned);
        name::validate(&given)?;
        if experiment.details.plan.attempts.iter().any(|a| a.name == given) {
            let message = format!("race '{}' already has an attempt '{given}'", experiment.name);
            return Err(RaceError::usage(message, "choose another name: --as NAME").into());
        }
        let taken = |part: &Part| match part.files.as_slice() {
            [] => format!("'{}'", part.attempt),
            files => format!("{} of '{}'", files.join(" "), part.attempt),
        };
        let about = format!("put together from {}", parts.iter().map(taken).collect::<Vec<_>>().join(" and "));
        Ok(AttemptPlan {
            name: given,
            kind: Kind::Merge,
            about,
            arguments: Vec::new(),
            input: None,
            parameters: Default::default(),
        })
    }

    fn prepare_part(&self, experiment: &Experiment, part: &Part) -> Result<Prepared, EngineError> {
        let number = self.find_attempt(experiment, &part.attempt)?;
        let sandbox = self.sandbox_of(experiment, number)?;
        let takes_all = part.files.is_empty();
        let request = ApplyRequest {
            name: Some(sandbox.name.clone()),
            files: part.files.clone(),
            all: takes_all,
            outside: takes_all,
            ..ApplyRequest::default()
        };
        let prepared = self.prepare_apply(&request)?;
        if !prepared.conflicts.is_empty() {
            return Err(RaceError::Behind { attempt: part.attempt.clone(), sandbox: sandbox.name }.into());
        }
        if prepared.plan.operations.is_empty() {
            return Err(RaceError::NothingFits { attempt: part.attempt.clone(), patterns: part.files.clone() }.into());
        }
        Ok(prepared)
    }
}

/// One plan of several.
fn compose(prepared: &[(&str, Prepared)]) -> Result<Plan, RaceError> {
    let mut all = Plan { roots: Vec::new(), operations: Vec::new(), about: serde_json::Value::Null };
    let mut owners: HashMap<PathBuf, (usize, &str)> = HashMap::new();
    for (attempt, part) in prepared {
        // Where each operation of this part is in the whole.
        let mut places = Vec::with_capacity(part.plan.operations.len());
        let mut clashes: HashMap<&str, Vec<Clash>> = HashMap::new();
        for operation in &part.plan.operations {
            let path = operation.absolute(&part.plan.roots);
            if let Some((known, owner)) = owners.get(&path) {
                places.push(*known);
                match both(&path, &all.operations[*known], operation) {
                    Ok(merged) => all.operations[*known].change = merged,
                    Err(Disagreement { why, regions }) => {
                        clashes.entry(owner).or_default().push(Clash { path: shown(&path, part), why, regions });
                    }
                }
                continue;
            }
            let root = root_of(&mut all, &part.plan.roots[operation.root]);
            owners.insert(path, (all.operations.len(), attempt));
            places.push(all.operations.len());
            all.operations.push(Operation { root, ..operation.clone() });
        }
        if let Some((owner, clashes)) = clashes.into_iter().min_by_key(|(owner, _)| owner.to_owned()) {
            return Err(RaceError::Clash { one: owner.to_owned(), other: (*attempt).to_owned(), clashes });
        }
        // Links of this part lead to operations of this part.
        for (number, operation) in part.plan.operations.iter().enumerate() {
            if let Act::Put { source: Source::HardLink(other), .. } = &operation.change
                && let (Some(place), Some(target)) = (places.get(number), places.get(*other))
                && let Act::Put { source, .. } = &mut all.operations[*place].change
            {
                *source = Source::HardLink(*target);
            }
        }
    }
    Ok(all)
}

fn root_of(plan: &mut Plan, root: &Path) -> usize {
    plan.roots.iter().position(|known| known == root).unwrap_or_else(|| {
        plan.roots.push(root.to_owned());
        plan.roots.len() - 1
    })
}

fn shown(path: &Path, part: &Prepared) -> Text {
    Text::from(path.strip_prefix(&part.sandbox.project).unwrap_or(path))
}

/// Why somebody has to decide.
struct Disagreement {
    why: &'static str,
    regions: Vec<Region>,
}

/// What becomes of a path that two changed.
fn both(path: &Path, one: &Operation, other: &Operation) -> Result<Act, Disagreement> {
    let disagree = |why| Disagreement { why, regions: Vec::new() };
    match (&one.change, &other.change) {
        (a, b) if a == b => Ok(a.clone()),
        (Act::Put { source: Source::Directory, .. }, Act::Put { source: Source::Directory, .. }) => Ok(one.change.clone()),
        (Act::Put { source: a, attributes }, Act::Put { source: b, attributes: others }) => {
            let (ours, theirs) = bytes(a).zip(bytes(b)).ok_or_else(|| disagree("it is not a file in both"))?;
            let same_mode = attributes.mode == others.mode;
            let attributes = if same_mode { Some(attributes.clone()) } else { mode_of(path, attributes, others) };
            let attributes = attributes.ok_or_else(|| disagree("each gave it another mode"))?;
            if ours == theirs {
                return Ok(Act::Put { source: a.clone(), attributes });
            }
            let base = if path.exists() { content::read(path).ok() } else { Some(Vec::new()) };
            let base = base.ok_or_else(|| disagree("what they started from cannot be read"))?;
            if [&base, &ours, &theirs].iter().any(|text| text.contains(&0)) {
                return Err(disagree("it is not text"));
            }
            match merge(&base, &ours, &theirs) {
                Merge::Clean(merged) => Ok(Act::Put { source: Source::Bytes(merged), attributes }),
                Merge::Conflicted(found) => Err(Disagreement { why: "both changed the same lines", regions: found.regions }),
            }
        }
        (Act::Remove, _) | (_, Act::Remove) => Err(disagree("one removed it, the other changed it")),
        _ => Err(disagree("each changed it in another way")),
    }
}

fn bytes(source: &Source) -> Option<Vec<u8>> {
    match source {
        Source::File(path) | Source::Original(path) => content::read(path).ok(),
        Source::Bytes(bytes) => Some(bytes.clone()),
        Source::Link(_) | Source::Directory | Source::HardLink(_) => None,
    }
}

/// The attributes of whoever changed the mode; `None` if both did.
fn mode_of(path: &Path, one: &whatif_apply::Attributes, other: &whatif_apply::Attributes) -> Option<whatif_apply::Attributes> {
    let real = whatif_apply::Identity::of(path).ok()?.mode;
    match (one.mode == real, other.mode == real) {
        (true, _) => Some(other.clone()),
        (_, true) => Some(one.clone()),
        _ => None,
    }
}
