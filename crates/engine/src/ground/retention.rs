//! When the rules of `gc` remove a sandbox, as far as its record tells.

use whatif_types::config::{Ending, GcRules};
use whatif_types::sandbox::StopReason;
use whatif_types::{Sandbox, Status};

use crate::ground::label::KEEP;

/// When the rules will remove a sandbox that nobody uses until then, in milliseconds since 1970; as far as its record tells.
/// One that is removed when its time is up goes then at the latest, used or not.
pub(crate) fn goes_at(rules: &GcRules, sandbox: &Sandbox, removed_at: Option<u64>) -> Option<u64> {
    if !may_go(sandbox) || !rules.auto {
        return removed_at;
    }
    let has_snapshots = sandbox.details.position.taken > 0;
    let settled = ending(sandbox).filter(|e| rules.remove.contains(e) && !has_snapshots).map(|_| rules.keep);
    let empty = rules.unused.0.filter(|_| may_be_empty(sandbox) && !has_snapshots);
    let first = [settled, empty, rules.max_age].into_iter().flatten().min();
    let by_rules = first.map(|first| sandbox.updated_at.saturating_add(first.as_millis()));
    [by_rules, removed_at].into_iter().flatten().min()
}

pub(crate) fn may_go(sandbox: &Sandbox) -> bool {
    let is_down = !matches!(sandbox.status, Status::Active | Status::Creating | Status::Deleted);
    is_down && !sandbox.details.transient && !sandbox.details.labels.contains_key(KEEP)
}

/// By its record. Layers below its head may hold something that is counted elsewhere.
pub(crate) fn may_be_empty(sandbox: &Sandbox) -> bool {
    sandbox.status == Status::Stopped && sandbox.details.changed_files == 0 && sandbox.details.position.stack.is_empty()
}

pub(crate) fn ending(sandbox: &Sandbox) -> Option<Ending> {
    match (sandbox.status, sandbox.details.stop_reason) {
        (Status::Approved, _) => Some(Ending::Approved),
        (Status::Rejected, _) => Some(Ending::Rejected),
        (Status::Stopped, Some(StopReason::Expired)) => Some(Ending::Expired),
        _ => None,
    }
}
