//! What can be done about an error between a sandbox and reality.

use whatif_types::remedy::{Call, Choice, Mention, Value};
use whatif_types::text::Text;
use whatif_types::{Explain, Remedy, remedy};

use super::ChangesError;
use crate::git_directory::Fault;
use crate::merge::{Conflict, MARKERS, NOT_SEEN, damage};

/// So many paths get a remedy of their own.
const MOST_NAMED: usize = 5;

impl ChangesError {
    pub(super) fn proposals(&self) -> Vec<Remedy> {
        match self {
            Self::ComparesReality => vec![remedy!["name a sandbox on at least one side: ", Call::Compare]],
            Self::NothingFits { sandbox, .. } => {
                let name = Value::or_unsaid(sandbox.as_deref());
                vec![remedy!["list what it changed: ", Call::ChangedPaths { name }]]
            }
            Self::NoSuchPackage { .. } => {
                vec!["name a package, or a package manager for all of its packages: apt, pip, npm, cargo".into()]
            }
            Self::NoHunks { .. } => vec![remedy!["take it as a whole with ", Choice::Files(Value::Unsaid)]],
            Self::NoSuchHunk { path, sandbox, .. } => {
                let (name, path) = (Value::or_unsaid(sandbox.as_deref()), Text::from(path));
                vec![remedy![
                    Mention(Call::Hunks { name: name.clone(), path: path.clone() }),
                    " numbers them on a terminal, ",
                    Mention(Call::HunksAsData { name, path }),
                    " everywhere"
                ]]
            }
            Self::NothingToSkip { .. } | Self::SkipsEverything { .. } => {
                vec![remedy![Mention(Call::HistoryAsData), " has the paths of each apply"]]
            }
            Self::NotApproved { undo: None } => {
                vec![remedy!["look at it first (", Choice::DryRun, " shows the plan), then approve with ", Choice::Yes]]
            }
            Self::NotApproved { undo: Some(id) } => {
                let (plan, approved) = (Call::UndoPlan { id: id.into() }, Call::UndoApproved { id: id.into() });
                vec![remedy!["look: ", plan, "   approve: ", approved]]
            }
            Self::Pattern(_) => vec!["patterns are written as in .gitignore, and are not empty; quote them for the shell".into()],
            Self::Moved { name, .. } => vec![remedy!["look again: ", Call::diff(name)]],
            Self::Conflicts { name, conflicts, is_stopped } => of_conflicts(name, conflicts, *is_stopped),
            Self::NothingToUndo { beneath } if !beneath.is_empty() => vec![remedy![
                "run it in one of them, or name the apply: ",
                Mention(Call::History),
                " lists those of all projects here"
            ]],
            Self::NoSuchApply { .. } | Self::AmbiguousApply { .. } | Self::NothingToUndo { .. } => {
                vec![remedy![Mention(Call::History), " lists the applies; an undo is undone by its id"]]
            }
            Self::SettledTwice { .. } => vec![remedy![
                "nothing was written. For each path give one of them: ",
                Choice::Theirs(Value::Blank),
                " (the sandbox's) or ",
                Choice::Ours(Value::Blank),
                " (reality's)"
            ]],
            Self::Undone { by, .. } => vec![remedy!["to apply it again, undo the undo: ", Call::undo(by)]],
            Self::ChangedSince { id, changed } => {
                let mut remedies = vec![remedy![
                    "nothing was written. Undo what was changed since first, or undo all but these: ",
                    Call::Undo { id: id.into(), skip: Value::Blank }
                ]];
                let earlier = changed.iter().filter_map(|c| c.earlier.as_ref().map(|earlier| (&c.path, earlier)));
                remedies.extend(
                    earlier
                        .take(MOST_NAMED)
                        .map(|(path, earlier)| format!("what was at {} before is {}", path.display(), earlier.display()).into()),
                );
                remedies
            }
            Self::DamagedReview { name, path } => vec![remedy![
                "nothing was applied. Forget all decisions and decide again: ",
                Call::ReviewAgain { name: name.into(), decisions: Text::from(path) }
            ]],
            Self::Unfinished { .. } => vec!["nothing is applied until that is dealt with".into()],
            Self::Renamed { name, .. } => vec![remedy![
                "nothing was written: it would be lost there. Stop the sandbox and try again (",
                Call::stop(name),
                "), or remove it"
            ]],
            Self::CheckFailed { .. } => vec![remedy![
                "mend it in the sandbox (",
                Call::Exec { name: Value::Unsaid },
                "), or apply without checks: ",
                Choice::NoChecks
            ]],
            Self::Apply(error) => error.remedies(),
            Self::AppliedBut { id, .. } => vec![
                remedy!["the next command writes down the rest; ", Mention(Call::History), " lists it then"],
                remedy!["to take it back: ", Call::undo(id)],
            ],
            Self::Cancelled { .. } => Vec::new(),
        }
    }
}

/// What can be done about conflicts depends on their kind: markers are removed in the sandbox, and a rebase helps only where text
/// collides.
fn of_conflicts(name: &str, conflicts: &[Conflict], is_stopped: bool) -> Vec<Remedy> {
    let (marked, others): (Vec<&Conflict>, Vec<&Conflict>) = conflicts.iter().partition(|c| c.why == MARKERS);
    let (in_git, others): (Vec<&Conflict>, Vec<&Conflict>) = others.into_iter().partition(|c| Fault::says(c.why));
    let (not_seen, others): (Vec<&Conflict>, Vec<&Conflict>) = others.into_iter().partition(|c| c.why == NOT_SEEN);
    let (of_databases, others): (Vec<&Conflict>, Vec<&Conflict>) = others.into_iter().partition(|c| damage::says(c.why));
    let mut remedies = Vec::new();
    if !of_databases.is_empty() {
        let before = "nothing was written. Do what is said of each database, or choose for it: ";
        remedies.push(Remedy::from(before).and(ours_or_later()));
    }
    if !not_seen.is_empty() {
        let before = "nothing was written, and nothing is deleted that the sandbox never saw. Move away what is in the directory, or choose for it: ";
        remedies.push(Remedy::from(before).and(ours_or_later()));
    }
    if !others.is_empty() {
        let before = "nothing was written. For each path choose: ";
        remedies.push(remedy![before, Choice::Theirs(Value::Blank), " (the sandbox's), "].and(ours_or_later()));
    }
    if !in_git.is_empty() {
        let which = if others.is_empty() { "nothing was written. Choose" } else { "for branches and the like of git's, choose" };
        remedies.push(Remedy::from(format!("{which}: ")).and(ours_or_later()).and("; or settle it with git first".into()));
    }
    if others.iter().any(|c| c.can_be_marked()) {
        remedies.push(remedy!["or bring the sandbox up to date first: ", Call::Rebase { name: name.into() }]);
    }
    if !marked.is_empty() {
        let which = if others.is_empty() { "nothing was written. Edit" } else { "in those with markers, edit" };
        remedies.push(remedy![
            format!("{which} the lines between '<<<<<<<' and '>>>>>>>' in the sandbox and remove the markers: "),
            Call::Shell { name: name.into(), is_stopped }
        ]);
        remedies.push(Remedy::from("or choose for these: ").and(ours_or_later()));
    }
    remedies
}

fn ours_or_later() -> Remedy {
    remedy![Choice::Ours(Value::Blank), " (reality's), ", Choice::Skip(Value::Blank), " (later)"]
}
