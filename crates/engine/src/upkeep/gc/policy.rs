//! Which sandboxes the rules remove, and why. Decides only.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use whatif_types::config::{GcRules, Size};
use whatif_types::{LayerId, Sandbox, Span};

use crate::ground::lineage::LayerUse;
use crate::ground::retention::{ending, may_be_empty, may_go};
use crate::owner::Owner;

/// A sandbox and what the rules ask about it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub sandbox: Sandbox,
    /// Somebody asked for snapshots of it.
    pub has_snapshots: bool,
    /// It was looked at, and nothing in it was changed.
    pub is_empty: bool,
    /// Its time is up, and it was to be removed then.
    pub is_over: bool,
    /// What its own directory takes.
    pub bytes: u64,
}

/// A sandbox that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedSandbox {
    pub name: String,
    /// What that frees, in the order in which they go.
    pub bytes: u64,
    pub reason: String,
}

/// Everything the rules are about.
pub(super) struct Stock<'a> {
    pub candidates: &'a [Candidate],
    pub layers: &'a [LayerUse],
    /// What everything takes.
    pub total: u64,
    pub now: u64,
}

/// The ones that go, each with the first rule that it falls under.
pub(super) fn choose<'a>(rules: &GcRules, stock: &Stock<'a>) -> Vec<(&'a Candidate, RemovedSandbox)> {
    let mut eligible: Vec<&Candidate> = stock.candidates.iter().filter(|c| may_go(&c.sandbox)).collect();
    eligible.sort_by_key(|c| (c.sandbox.updated_at, c.sandbox.created_at));
    let mut chosen = Chosen::none_of(stock);
    for candidate in &eligible {
        let of = [over, settled, unused, empty].into_iter();
        if let Some(reason) = of.filter_map(|rule| rule(rules, candidate, stock.now)).next() {
            chosen.add(candidate, reason);
        }
    }
    if let Some(most) = rules.max_total {
        for candidate in eligible {
            let left = stock.total.saturating_sub(chosen.freed);
            if left <= most.0 {
                break;
            }
            if !chosen.has(candidate) {
                let age = age(&candidate.sandbox, stock.now);
                chosen.add(candidate, format!("everything takes {}, more than {most}, and it was not used for {age}", Size(left)));
            }
        }
    }
    chosen.goes
}

fn settled(rules: &GcRules, candidate: &Candidate, now: u64) -> Option<String> {
    let ending = ending(&candidate.sandbox).filter(|e| rules.remove.contains(e) && !candidate.has_snapshots)?;
    is_older(&candidate.sandbox, rules.keep, now)
        .then(|| format!("it is {ending}, and was not used for {}", age(&candidate.sandbox, now)))
}

fn unused(rules: &GcRules, candidate: &Candidate, now: u64) -> Option<String> {
    let most = rules.max_age.filter(|most| is_older(&candidate.sandbox, *most, now))?;
    Some(format!("it was not used for {}; {most} is the most", age(&candidate.sandbox, now)))
}

/// Whoever gave it its time wanted that.
fn over(_: &GcRules, candidate: &Candidate, _: u64) -> Option<String> {
    candidate.is_over.then(|| "its time was up, and it was to be removed then".to_owned())
}

/// Nobody would miss anything of it.
fn empty(rules: &GcRules, candidate: &Candidate, now: u64) -> Option<String> {
    let most = rules.unused.0.filter(|most| is_older(&candidate.sandbox, *most, now))?;
    let is_empty = may_be_empty(&candidate.sandbox) && candidate.is_empty && !candidate.has_snapshots;
    is_empty.then(|| format!("it holds no changes, and was not used for {}; {most} is the most", age(&candidate.sandbox, now)))
}

/// A time in the future (the clock was set back) is no age at all.
fn is_older(sandbox: &Sandbox, than: Span, now: u64) -> bool {
    now.checked_sub(sandbox.updated_at).is_some_and(|age| age >= than.as_millis())
}

/// In its largest unit, rounded down.
fn age(sandbox: &Sandbox, now: u64) -> Span {
    let seconds = now.saturating_sub(sandbox.updated_at) / 1000;
    let unit = [86_400, 3600, 60].into_iter().find(|unit| seconds >= *unit).unwrap_or(1);
    Span::from_secs(seconds / unit * unit)
}

struct Chosen<'a> {
    goes: Vec<(&'a Candidate, RemovedSandbox)>,
    names: HashSet<&'a str>,
    /// The layers that each sandbox needs, itself or for its snapshots.
    layers: HashMap<&'a str, Vec<&'a LayerUse>>,
    gone: HashSet<&'a LayerId>,
    freed: u64,
}

impl<'a> Chosen<'a> {
    fn none_of(stock: &Stock<'a>) -> Self {
        let mut layers: HashMap<&str, Vec<&LayerUse>> = HashMap::new();
        for layer in stock.layers {
            for name in layer.needed_by.iter().filter_map(sandbox_of) {
                layers.entry(name).or_default().push(layer);
            }
        }
        Self { goes: Vec::new(), names: HashSet::new(), layers, gone: HashSet::new(), freed: 0 }
    }

    fn has(&self, candidate: &Candidate) -> bool {
        self.names.contains(candidate.sandbox.name.as_str())
    }

    /// Frees its directory, and the layers that nobody else needs who stays.
    fn add(&mut self, candidate: &'a Candidate, reason: String) {
        let name = candidate.sandbox.name.as_str();
        self.names.insert(name);
        let mut bytes = candidate.bytes;
        for layer in self.layers.get(name).into_iter().flatten() {
            let goes = layer.needed_by.iter().all(|owner| sandbox_of(owner).is_some_and(|s| self.names.contains(s)));
            if goes && self.gone.insert(&layer.layer) {
                bytes += layer.bytes;
            }
        }
        self.freed += bytes;
        self.goes.push((candidate, RemovedSandbox { name: name.to_owned(), bytes, reason }));
    }
}

/// With whose record this owner goes.
pub(super) fn sandbox_of(owner: &Owner) -> Option<&str> {
    match owner {
        Owner::Sandbox(name) => Some(name),
        Owner::Snapshot(name) => name.split_once('@').map(|(sandbox, _)| sandbox),
        Owner::Template(_) => None,
    }
}

#[cfg(test)]
mod tests;
