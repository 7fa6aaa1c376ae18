//! What can be done about an error.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use whatif_archive::ArchiveError;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::Reason;
use whatif_types::explain::{shortage, shortage_of, shortage_of_processes};
use whatif_types::{Backend, Explain};

use super::EngineError;
use crate::apply::{Conflict, MARKERS, NOT_SEEN};
use crate::git_directory::Fault;
use crate::lineage::Owner;

/// So many paths get a hint of their own.
const MOST_NAMED: usize = 5;

impl EngineError {
    /// Each is a sentence, or a command that can be pasted.
    pub(super) fn proposals(&self) -> Vec<String> {
        let is_of_the_machine =
            matches!(self, Self::Keeper(_) | Self::Launch(_) | Self::Store(_) | Self::Helper { .. } | Self::Limits(_));
        if is_of_the_machine && let Some(hint) = shortage(self) {
            return vec![hint];
        }
        if let Some(hint) = self.start().as_ref().and_then(shortage_of_processes) {
            return vec![hint];
        }
        match self {
            Self::NoSuchSandbox { name } if name.contains('@') => {
                vec![format!("to work from a snapshot, make a sandbox of it: whatif fork {name}")]
            }
            Self::NoSuchSandbox { .. } | Self::Ambiguous { .. } | Self::Removed { .. } => vec!["'whatif ls' lists the sandboxes".to_owned()],
            Self::Incomplete { owner, intact, .. } => incomplete_hints(owner, intact),
            Self::Unmounted { name, tree } => mount_hints(name, tree, "mount it again"),
            Self::MountedOver { name, place } => mount_hints(name, place, "unmount that"),
            Self::MountsChanged { owner, how } => vec![how.hint(owner)],
            Self::StrayHead { name, .. } => vec![
                format!("nothing was done; copy what you need from there, then remove the sandbox: whatif rm {name}"),
            ],
            Self::Behind { .. } => vec!["nothing was done; take up what its directory says: whatif gc --adopt".to_owned()],
            Self::NoSandboxHere { .. } => {
                vec!["name one ('whatif ls' lists them), or make one: whatif run -- COMMAND".to_owned()]
            }
            Self::NoSuchSnapshot { sandbox: Some(name), .. } => {
                vec![format!("'whatif snapshots {name}' lists them; @-1 is the latest, NAME@LABEL one of another sandbox")]
            }
            Self::NoSuchSnapshot { .. } | Self::AmbiguousSnapshot { .. } => {
                vec!["'whatif snapshots NAME' lists them; NAME@LABEL names one of any sandbox, @-1 is the latest".to_owned()]
            }
            Self::NoSuchPosition { .. } => vec!["'whatif ls' lists the sandboxes, 'whatif snapshots NAME' their snapshots".to_owned()],
            Self::InUse { .. } => vec!["let it end first, or have it ended: --live stop".to_owned()],
            Self::NoRoom { .. } => vec!["'whatif gc --dry-run' shows what could go, and 'whatif du' where it is".to_owned()],
            Self::BadArchive { .. } => vec!["nothing was imported; 'whatif import --list FILE' shows what is in it".to_owned()],
            Self::OtherProject { theirs, is_here: true, .. } => vec![format!(
                "nothing was imported; if that directory is the one you mean: whatif import --project {} FILE",
                quoted(theirs)
            )],
            Self::OtherProject { .. } => vec!["nothing was imported; its project must be at the same path here".to_owned()],
            Self::OtherBackend { theirs, .. } => {
                vec![format!("nothing was imported; to use that backend for it: whatif import --backend {theirs} FILE")]
            }
            Self::Archive(ArchiveError::Io { source, .. }) => io_hints(source),
            Self::Archive(error) => error.hints(),
            Self::Race(error) => error.hints(),
            Self::Helper { source } => io_hints(source),
            Self::Restack { errno, .. } => {
                let shortage = errno.and_then(|errno| shortage_of(&io::Error::from_raw_os_error(errno)));
                let nothing_lost = "nothing is lost; 'whatif start' brings the sandbox up again if it was stopped".to_owned();
                shortage.into_iter().chain([nothing_lost]).collect()
            }
            Self::NoSuchTemplate { .. } => vec!["'whatif template ls' lists them; save one: whatif template save NAME TEMPLATE".to_owned()],
            Self::EndedMeanwhile { name, .. } => {
                vec![format!("its changes stay: whatif diff {name}; start it again: whatif start {name}")]
            }
            Self::Stopped { name } => vec![format!("start it again: whatif start {name}")],
            Self::Expired { name } => vec![
                format!("its changes are kept: look at them (whatif diff {name}), keep them (whatif apply {name})"),
                format!("or give it more time: whatif start {name} --ttl 1h"),
            ],
            Self::LimitsUnavailable { fix, .. } => {
                let mut hints: Vec<String> = fix.iter().cloned().collect();
                hints.push("or do without: leave out --require-limits (require = true in the configuration)".to_owned());
                hints
            }
            Self::ScopeNeeded { scope } => vec![format!("start it there: {}", scope.command_line())],
            Self::Limits(_) => vec!["'whatif doctor' says which limits this machine can enforce, and by what".to_owned()],
            Self::Busy { .. } => vec!["try again in a moment".to_owned()],
            Self::StillRunning { name } => vec![format!("stop it first: whatif stop {name}")],
            Self::OtherKeeper { name } => vec![format!("start it again, its changes stay: whatif stop {name}; whatif start {name}")],
            Self::Unreachable { .. } => vec!["'whatif show' has its process; 'whatif rm' ends it and removes the sandbox".to_owned()],
            Self::BadDirectory { .. } => vec!["choose another with --cwd".to_owned()],
            Self::PrivateProject { .. } => {
                vec!["work in a directory within it, which is seen and copied on write; or name one: --cwd DIRECTORY".to_owned()]
            }
            Self::ProjectMissing { name, .. } => {
                vec![format!("put it back and try again, or take out what it changed: whatif diff {name} --patch, or whatif export {name}")]
            }
            Self::NoCurrentDirectory { .. } => vec!["go to a directory that exists and try again".to_owned()],
            Self::Config { .. } => vec!["see 'Configuration' in the README for the keys and what a project may set".to_owned()],
            Self::Boot { errno, .. } => boot_hints(*errno),
            Self::Backend { backend: Backend::Fuse, .. } => vec![
                "it needs fuse-overlayfs and a /dev/fuse that is open to you ('ls -l /dev/fuse')".to_owned(),
                "or leave out --backend: whatif takes one that works; 'whatif doctor' tests each of them".to_owned(),
            ],
            Self::NoBackend { .. } | Self::Backend { .. } => vec![
                "overlayfs needs a state directory on ext4, xfs, btrfs or tmpfs: set WHATIF_HOME to one (inside a container, to a volume or /dev/shm)".to_owned(),
                "or install fuse-overlayfs, or choose: --backend copy".to_owned(),
                "'whatif doctor' tests each of them".to_owned(),
            ],
            Self::NoRules { .. } => vec![
                "the kernel needs nf_tables with NAT ('modprobe nf_tables nft_redir', or ask whoever runs the container)".to_owned(),
                "or do without a network: --net none; 'whatif doctor' tests it".to_owned(),
            ],
            Self::Supervisor { name, .. } => {
                vec![format!("nothing gets out meanwhile; try again, 'whatif net {name}' shows whether it works")]
            }
            Self::Command(failed) if failed.reason == Reason::Directory => vec!["choose another with --cwd".to_owned()],
            Self::NoSuchProcess { name, .. } => vec![format!("list its processes: whatif ps {name}")],
            Self::EndUnknown { name, id } => vec![format!("what is kept of its output stays: whatif logs {name} {id}")],
            Self::Usage { hint, .. } => vec![hint.clone()],
            Self::NotApproved { undo: None } => vec!["look at it first (--dry-run shows the plan), then approve with --yes".to_owned()],
            Self::NotApproved { undo: Some(id) } => {
                vec![format!("look: whatif undo {id} --dry-run   approve: whatif undo {id} --yes")]
            }
            Self::Pattern(_) => vec!["patterns are written as in .gitignore, and are not empty; quote them for the shell".to_owned()],
            Self::Moved { name, .. } => vec![format!("look again: whatif diff {name}")],
            Self::Conflicts { name, conflicts, shell } => conflict_hints(name, conflicts, shell),
            Self::WouldReplace { .. } => vec![
                "nothing was written. Choose another name, or replace what is there, which cannot be undone: --force".to_owned(),
            ],
            Self::NothingToUndo { beneath } if !beneath.is_empty() => {
                vec!["run it in one of them, or name the apply: 'whatif history' lists those of all projects here".to_owned()]
            }
            Self::NoSuchApply { .. } | Self::AmbiguousApply { .. } | Self::NothingToUndo { .. } => {
                vec!["'whatif history' lists the applies; an undo is undone by its id".to_owned()]
            }
            Self::Undone { by, .. } => vec![format!("to apply it again, undo the undo: whatif undo {by}")],
            Self::ChangedSince { id, changed } => {
                let mut hints = vec![format!(
                    "nothing was written. Undo what was changed since first, or undo all but these: whatif undo {id} --skip PATH"
                )];
                let earlier = changed.iter().filter_map(|c| c.earlier.as_ref().map(|earlier| (&c.path, earlier)));
                hints.extend(earlier.take(MOST_NAMED).map(|(path, earlier)| {
                    format!("what was at {} before is {}", path.display(), earlier.display())
                }));
                hints
            }
            Self::Git { hint, .. } => vec![hint.clone()],
            Self::GitAtWork { lock } => vec![
                "nothing was written. Try again when that git command has ended".to_owned(),
                format!("if none is running there, one was killed and left it behind: rm {}", quoted(lock)),
            ],
            Self::Unreadable(unreadable) if unreadable.is_closed() => vec![format!(
                "what the sandbox did there is not known. If it is meant to be closed, leave it out of an apply: --exclude '{}'",
                unreadable.path.display()
            )],
            Self::Unreadable(unreadable) => {
                let mut hints = io_hints(&unreadable.cause.into());
                hints.push("what the sandbox did there is not known, so nothing was done; its work is still there".to_owned());
                hints
            }
            Self::DamagedReview { name, path } => vec![format!(
                "nothing was applied. Forget all decisions and decide again: rm '{}'; whatif review {name}",
                path.display()
            )],
            Self::Unfinished { .. } => vec!["nothing is applied until that is dealt with".to_owned()],
            Self::Renamed { name, .. } => vec![format!(
                "nothing was written: it would be lost there. Stop the sandbox and try again (whatif stop {name}), or remove it"
            )],
            Self::CheckFailed { .. } => vec!["mend it in the sandbox (whatif exec), or apply without checks: --no-checks".to_owned()],
            Self::Apply(error) => error.hints(),
            Self::AppliedBut { id, .. } => vec![
                "the next command writes down the rest; 'whatif history' lists it then".to_owned(),
                format!("to take it back: whatif undo {id}"),
            ],
            Self::RanBut { name, .. } => vec![format!("the next command settles it; 'whatif show {name}' tells what is there then")],
            Self::WorkGone { name, .. } => vec![
                "reality is untouched; if it was moved or deleted by mistake, put it back or restore it from a backup".to_owned(),
                format!("to give up what is left: whatif rm {name}"),
            ],
            Self::Cancelled { .. } => Vec::new(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                vec!["the permissions of that path do not allow it".to_owned()]
            }
            Self::Io { source, .. } => io_hints(source),
            // Whose directory it is.
            Self::Path(error) if error.action == "use" => vec![format!(
                "make it yours alone (chown, chmod go-w {}), or set WHATIF_HOME to a directory that is",
                quoted(&error.path)
            )],
            Self::Path(error) => io_hints(&error.source),
            Self::Uncopied(error) => vec![
                format!("leave it out: --mask {}", quoted(&error.path)),
                "or start in a directory that you can read, or with another backend: only copies need to read all of it".to_owned(),
            ],
            Self::Store(error) => error.hints(),
            Self::Launch(error) => error.hints(),
            Self::Provider(error) => error.hints(),
            Self::Keeper(ClientError::NoAnswer) => vec!["end it with force: whatif stop NAME (its changes stay), or whatif rm NAME".to_owned()],
            Self::Keeper(_) => vec!["'whatif ls' shows its state; 'whatif start' starts it again".to_owned()],
            Self::Command(failed) => match failed.reason {
                Reason::NotFound => vec!["is it installed? For a shell's own words and pipes: whatif run -- sh -c '…'".to_owned()],
                // A program is executed whether or not the disk is full; a terminal is what can be missing.
                Reason::CannotExecute if failed.errno == rustix::io::Errno::NOSPC.raw_os_error() => vec![
                    "no terminal is left: end programs in the sandbox that have opened many, or run it without one: … < /dev/null | cat".to_owned(),
                ],
                Reason::CannotExecute => vec!["is it executable, and for this machine? Try 'ls -l' and 'file' on it inside".to_owned()],
                Reason::NoSuchProcess => vec!["'whatif ps' lists the processes".to_owned()],
                _ => vec!["'whatif show' tells what the sandbox sees".to_owned()],
            },
            Self::Name(_) => vec!["choose another, or leave it out where one can be made up".to_owned()],
        }
    }
}

impl EngineError {
    /// Why a process or a thread could not be started, if it is about that.
    fn start(&self) -> Option<io::Error> {
        let errno = match self {
            Self::Launch(error) => error.source.raw_os_error(),
            Self::Helper { source } | Self::Io { action: "run" | "start", source, .. } => source.raw_os_error(),
            Self::Command(failed) if failed.reason == Reason::CannotExecute => Some(failed.errno),
            _ => None,
        };
        errno.map(io::Error::from_raw_os_error)
    }
}

/// As a shell takes it for one word.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@".contains(c));
    if is_plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn mount_hints(name: &str, place: &Path, what: &str) -> Vec<String> {
    vec![
        format!("nothing was written; {what} and try again"),
        format!("to apply the rest: whatif apply {name} --exclude {}", quoted(place)),
        format!("to take out what it changed: whatif diff {name} --patch, or whatif export {name}"),
    ]
}

fn incomplete_hints(owner: &Owner, intact: &[String]) -> Vec<String> {
    let mut hints =
        vec!["nothing was done; if it was moved or deleted by mistake, put it back or restore it from a backup".to_owned()];
    hints.extend(intact.first().map(|snapshot| format!("{snapshot} is intact; go on from there: whatif fork {snapshot}")));
    hints.push(match owner {
        Owner::Sandbox(name) => format!("to give up what is left: whatif rm {name}"),
        Owner::Snapshot(name) => format!("to give it up: whatif snapshot rm {name}"),
        Owner::Template(name) => format!("to give it up: whatif template rm {name}"),
    });
    hints
}

/// What can be done about conflicts depends on their kind: markers are removed in the sandbox, and a rebase helps only where text
/// collides.
fn conflict_hints(name: &str, conflicts: &[Conflict], shell: &str) -> Vec<String> {
    let (marked, others): (Vec<&Conflict>, Vec<&Conflict>) = conflicts.iter().partition(|c| c.why == MARKERS);
    let (in_git, others): (Vec<&Conflict>, Vec<&Conflict>) = others.into_iter().partition(|c| Fault::says(c.why));
    let (not_seen, others): (Vec<&Conflict>, Vec<&Conflict>) = others.into_iter().partition(|c| c.why == NOT_SEEN);
    let mut hints = Vec::new();
    if !not_seen.is_empty() {
        hints.push("nothing was written, and nothing is deleted that the sandbox never saw. Move away what is in the directory, or choose for it: --ours PATH (reality's), --skip PATH (later)".to_owned());
    }
    if !others.is_empty() {
        hints.push("nothing was written. For each path choose: --theirs PATH (the sandbox's), --ours PATH (reality's), --skip PATH (later)".to_owned());
    }
    if !in_git.is_empty() {
        let which = if others.is_empty() { "nothing was written. Choose" } else { "for branches and the like of git's, choose" };
        hints.push(format!("{which}: --ours PATH (reality's), --skip PATH (later); or settle it with git first"));
    }
    if others.iter().any(|c| c.can_be_marked()) {
        hints.push(format!("or bring the sandbox up to date first: whatif rebase {name}"));
    }
    if !marked.is_empty() {
        let which =
            if others.is_empty() { "nothing was written. Edit".to_owned() } else { "in those with markers, edit".to_owned() };
        hints.push(format!("{which} the lines between '<<<<<<<' and '>>>>>>>' in the sandbox and remove the markers: {shell}"));
        hints.push("or choose for these: --ours PATH (reality's), --skip PATH (later)".to_owned());
    }
    hints
}

fn boot_hints(errno: i32) -> Vec<String> {
    if let Some(hint) = shortage_of(&io::Error::from_raw_os_error(errno)) {
        return vec![hint];
    }
    let mut hints = Vec::new();
    if errno == Errno::PERM.raw_os_error() || errno == Errno::ACCESS.raw_os_error() {
        hints.push("the kernel or a security module forbids it; in a container, more rights may be needed".to_owned());
    }
    hints.push("'whatif doctor' tests each thing a sandbox needs and says how to fix what is missing".to_owned());
    hints
}

fn io_hints(error: &io::Error) -> Vec<String> {
    if let Some(hint) = shortage_of(error) {
        return vec![hint];
    }
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            vec!["the state directory must be writable: set WHATIF_HOME to one that is".to_owned()]
        }
        io::ErrorKind::IsADirectory => vec!["that is a directory; name a file".to_owned()],
        io::ErrorKind::NotFound => vec!["there is no such file or directory; 'ls' its directory to see what there is".to_owned()],
        io::ErrorKind::StaleNetworkFileHandle => vec!["it changed while it was looked at; try again".to_owned()],
        _ => match Errno::from_io_error(error) {
            Some(Errno::IO) => vec!["the disk or its file system reports an error; 'dmesg' may say more".to_owned()],
            _ => Vec::new(),
        },
    }
}
