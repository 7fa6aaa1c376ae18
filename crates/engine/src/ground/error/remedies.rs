//! What can be done about an error of the ground.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use whatif_keeper::client::ClientError;
use whatif_types::explain::{shortage, shortage_of, shortage_of_processes};
use whatif_types::remedy::{Argument, Call, Choice, Mention, Value};
use whatif_types::text::Text;
use whatif_types::{Explain, Remedy, remedy};

use super::GroundError;
use crate::owner::Owner;

impl GroundError {
    pub(super) fn proposals(&self) -> Vec<Remedy> {
        let is_of_the_machine = matches!(self, Self::Keeper(_) | Self::Store(_) | Self::Limits(_));
        if is_of_the_machine && let Some(remedy) = shortage(self) {
            return vec![remedy];
        }
        if let Self::Io { action: "run" | "start", source, .. } = self
            && let Some(remedy) = shortage_of_processes(source)
        {
            return vec![remedy];
        }
        match self {
            Self::NoSuchSandbox { name } if name.contains('@') => {
                vec![remedy!["to work from a snapshot, make a sandbox of it: ", Call::fork(name)]]
            }
            Self::NoSuchSandbox { .. } | Self::Ambiguous { .. } | Self::Removed { .. } => {
                vec![remedy![Mention(Call::List), " lists the sandboxes"]]
            }
            Self::NoSandboxHere { .. } => {
                vec![remedy!["name one (", Mention(Call::List), " lists them), or make one: ", Call::Run { command: Value::Blank }]]
            }
            Self::NoSuchSnapshot { sandbox: Some(name), .. } => {
                vec![remedy![Mention(Call::snapshots(name)), " lists them; @-1 is the latest, NAME@LABEL one of another sandbox"]]
            }
            Self::NoSuchSnapshot { .. } | Self::AmbiguousSnapshot { .. } => vec![remedy![
                Mention(Call::snapshots(Value::Blank)),
                " lists them; NAME@LABEL names one of any sandbox, @-1 is the latest"
            ]],
            Self::NotItsOwn { label, .. } => vec![remedy!["start another sandbox from it: ", Call::fork(label)]],
            Self::NoSuchPosition { .. } => {
                vec![remedy![
                    Mention(Call::List),
                    " lists the sandboxes, ",
                    Mention(Call::snapshots(Value::Blank)),
                    " their snapshots"
                ]]
            }
            Self::NoSuchTemplate { .. } => vec![remedy![
                Mention(Call::Templates),
                " lists them; save one: ",
                Call::SaveTemplate { sandbox: Value::Blank, template: Value::Blank, replace: false }
            ]],
            Self::Incomplete { owner, intact, .. } => of_incomplete(owner, intact),
            Self::StrayHead { name, .. } => {
                vec![remedy!["nothing was done; copy what you need from there, then remove the sandbox: ", Call::remove(name)]]
            }
            Self::Unmounted { name, tree } => of_mount(name, tree, "mount it again"),
            Self::MountedOver { name, place } => of_mount(name, place, "unmount that"),
            Self::Behind { .. } => vec![remedy!["nothing was done; take up what its directory says: ", Call::Adopt]],
            Self::ProjectMissing { name, .. } => vec![remedy![
                "put it back and try again, or take out what it changed: ",
                Call::patch(name),
                ", or ",
                Call::export(name)
            ]],
            Self::Unreadable(unreadable) if unreadable.is_closed() => vec![remedy![
                "what the sandbox did there is not known. If it is meant to be closed, leave it out of an apply: ",
                Choice::Exclude(unreadable.path.as_path().into())
            ]],
            Self::Unreadable(unreadable) => {
                let mut remedies = of_io(&unreadable.cause.into());
                remedies.push("what the sandbox did there is not known, so nothing was done; its work is still there".into());
                remedies
            }
            Self::SquashOverFuse => vec!["nothing needs to be done; its stacks may be as deep as they like".into()],
            Self::Stopped { name } => vec![remedy!["start it again: ", Call::start(name)]],
            Self::EndedMeanwhile { name, .. } => {
                vec![remedy!["its changes stay: ", Call::diff(name), "; start it again: ", Call::start(name)]]
            }
            Self::Busy { .. } => vec!["try again in a moment".into()],
            Self::OtherKeeper { name } => {
                vec![remedy!["start it again, its changes stay: ", Call::stop(name), "; ", Call::start(name)]]
            }
            Self::Keeper(ClientError::NoAnswer) => vec![remedy![
                "end it with force: ",
                Call::stop(Value::Blank),
                " (its changes stay), or ",
                Call::remove(Value::Blank)
            ]],
            Self::Keeper(_) => {
                vec![remedy![Mention(Call::List), " shows its state; ", Mention(Call::start(Value::Unsaid)), " starts it again"]]
            }
            Self::Limit { examples, .. } => vec![format!("say how much it may be ({examples}), or leave it out").into()],
            Self::NoSuchLimits { known, .. } => {
                vec![format!("known: {}, none; further ones are [profiles.NAME] in the configuration", known.join(", ")).into()]
            }
            Self::LimitsUnavailable { fix, .. } => {
                let mut remedies: Vec<Remedy> = fix.iter().map(|fix| fix.as_str().into()).collect();
                remedies.push(remedy![
                    "or do without: leave out ",
                    Choice::RequireLimits,
                    " (require = true in the configuration)"
                ]);
                remedies
            }
            Self::ScopeNeeded { scope } => vec![format!("start it there: {}", scope.command_line()).into()],
            Self::Limits(_) => {
                vec![remedy![Mention(Call::Doctor), " says which limits this machine can enforce, and by what"]]
            }
            Self::OtherRights { .. } => {
                vec!["use it in a container with the options that it was made with, or apply its changes there".into()]
            }
            Self::Nested { .. } => vec!["leave it first; whatever you run here is sandboxed already".into()],
            Self::KeyInUse { .. } => vec!["wait for it and try again, or use another key".into()],
            Self::NoCurrentDirectory { .. } => vec!["go to a directory that exists and try again".into()],
            Self::NoRoom { .. } => {
                vec![remedy![Mention(Call::CollectPreview), " shows what could go, and ", Mention(Call::DiskUsage), " where it is"]]
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                vec!["the permissions of that path do not allow it".into()]
            }
            Self::Io { source, .. } => of_io(source),
            // Whose directory it is.
            Self::Path(error) if error.action == "use" => vec![remedy![
                "make it yours alone (chown, chmod go-w ",
                Argument(&error.path),
                "), or set WHATIF_HOME to a directory that is"
            ]],
            Self::Path(error) => of_io(&error.source),
            Self::Store(error) => error.remedies(),
            Self::Provider(error) => error.remedies(),
            Self::Name(_) => vec!["choose another, or leave it out where one can be made up".into()],
        }
    }
}

fn of_mount(name: &str, place: &Path, what: &str) -> Vec<Remedy> {
    vec![
        format!("nothing was written; {what} and try again").into(),
        remedy!["to apply the rest: ", Call::Apply { name: name.into(), exclude: Some(Text::from(place)) }],
        remedy!["to take out what it changed: ", Call::patch(name), ", or ", Call::export(name)],
    ]
}

fn of_incomplete(owner: &Owner, intact: &[String]) -> Vec<Remedy> {
    let mut remedies =
        vec!["nothing was done; if it was moved or deleted by mistake, put it back or restore it from a backup".into()];
    remedies
        .extend(intact.first().map(|snapshot| remedy![format!("{snapshot} is intact; go on from there: "), Call::fork(snapshot)]));
    remedies.push(match owner {
        Owner::Sandbox(name) => remedy!["to discard what is left: ", Call::remove(name)],
        Owner::Snapshot(name) => remedy!["to give it up: ", Call::RemoveSnapshot { label: name.into() }],
        Owner::Template(name) => remedy!["to give it up: ", Call::RemoveTemplate { name: name.into() }],
    });
    remedies
}

/// What can be done about what the kernel said of a file.
pub(crate) fn of_io(error: &io::Error) -> Vec<Remedy> {
    if let Some(remedy) = shortage_of(error) {
        return vec![remedy];
    }
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            vec!["the state directory must be writable: set WHATIF_HOME to one that is".into()]
        }
        io::ErrorKind::IsADirectory => vec!["that is a directory; name a file".into()],
        io::ErrorKind::NotFound => vec!["there is no such file or directory; 'ls' its directory to see what there is".into()],
        io::ErrorKind::StaleNetworkFileHandle => vec!["it changed while it was looked at; try again".into()],
        _ => match Errno::from_io_error(error) {
            Some(Errno::IO) => vec!["the disk or its file system reports an error; 'dmesg' may say more".into()],
            _ => Vec::new(),
        },
    }
}
