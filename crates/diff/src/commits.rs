//! Commits that were made inside, as git's own logs of the branches tell of them. Only for people: nothing depends on it.

use std::path::Path;

use serde::Serialize;

use crate::Change;
use crate::node::Kind;
use crate::scan::Found;

/// Longer logs are not read.
const LONGEST: u64 = 1 << 20;

/// What was committed to one branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Commits {
    pub branch: String,
    pub count: u64,
}

pub fn made(found: &Found, project: &Path) -> Vec<Commits> {
    let logs = project.join(".git/logs/refs/heads");
    let of_branch = |change: &Change| {
        let branch = change.path.strip_prefix(&logs).ok()?.to_string_lossy().into_owned();
        let count = added(&text(change.before.as_ref())?, &text(change.after.as_ref())?);
        (count > 0).then_some(Commits { branch, count })
    };
    found.changes.iter().filter_map(of_branch).collect()
}

fn text(state: Option<&crate::State>) -> Option<String> {
    let Some(state) = state else { return Some(String::new()) };
    let is_log = state.node.kind == Kind::File && state.node.size <= LONGEST;
    let bytes = state.bytes().ok().filter(|_| is_log)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Commits in the lines that were added.
fn added(before: &str, after: &str) -> u64 {
    let new = after.strip_prefix(before).unwrap_or(after);
    new.lines().filter_map(|line| line.split_once('\t')).filter(|(_, what)| is_commit(what)).count() as u64
}

/// An amended commit is none more.
fn is_commit(what: &str) -> bool {
    let verb = what.split(':').next().unwrap_or_default();
    matches!(verb, "commit" | "commit (initial)" | "commit (merge)" | "cherry-pick" | "revert" | "am")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_counted_in_what_was_added() {
        let line = |what: &str| format!("0 1 A <a@example.org> 1 +0000\t{what}\n");
        let before = line("commit (initial): first") + &line("commit: second");
        let after = before.clone() + &line("commit: third") + &line("commit (amend): third") + &line("reset: moving to HEAD~1");
        assert_eq!(added(&before, &after), 1);
        assert_eq!(added("", &before), 2);
        assert_eq!(added(&before, &before), 0);
    }
}
