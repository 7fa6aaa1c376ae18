//! What can be done about an error.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use whatif_archive::ArchiveError;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::Reason;
use whatif_types::explain::{shortage, shortage_of, shortage_of_processes};
use whatif_types::remedy::{Argument, Call, Choice, Mention, Value};
use whatif_types::text::Text;
use whatif_types::{Backend, Explain, Remedy, remedy};

use super::EngineError;
use crate::git_directory::Fault;
use crate::merge::{Conflict, MARKERS, NOT_SEEN, damage};
use crate::owner::Owner;

/// So many paths get a remedy of their own.
const MOST_NAMED: usize = 5;

impl EngineError {
    pub(super) fn proposals(&self) -> Vec<Remedy> {
        let is_of_the_machine =
            matches!(self, Self::Keeper(_) | Self::Launch(_) | Self::Store(_) | Self::Helper { .. } | Self::Limits(_));
        if is_of_the_machine && let Some(remedy) = shortage(self) {
            return vec![remedy];
        }
        if let Some(remedy) = self.start().as_ref().and_then(shortage_of_processes) {
            return vec![remedy];
        }
        match self {
            Self::NoSuchSandbox { name } if name.contains('@') => {
                vec![remedy!["to work from a snapshot, make a sandbox of it: ", Call::fork(name)]]
            }
            Self::NoSuchSandbox { .. } | Self::Ambiguous { .. } | Self::Removed { .. } => {
                vec![remedy![Mention(Call::List), " lists the sandboxes"]]
            }
            Self::Incomplete { owner, intact, .. } => of_incomplete(owner, intact),
            Self::Unmounted { name, tree } => of_mount(name, tree, "mount it again"),
            Self::MountedOver { name, place } => of_mount(name, place, "unmount that"),
            Self::MountsChanged { owner, how } => vec![how.remedy(owner)],
            Self::StrayHead { name, .. } => {
                vec![remedy!["nothing was done; copy what you need from there, then remove the sandbox: ", Call::remove(name)]]
            }
            Self::Behind { .. } => vec![remedy!["nothing was done; take up what its directory says: ", Call::Adopt]],
            Self::NoSandboxHere { .. } => vec![remedy![
                "name one (",
                Mention(Call::List),
                " lists them), or make one: ",
                Call::Run { command: Value::Blank }
            ]],
            Self::NoSuchSnapshot { sandbox: Some(name), .. } => {
                vec![remedy![Mention(Call::snapshots(name)), " lists them; @-1 is the latest, NAME@LABEL one of another sandbox"]]
            }
            Self::NoSuchSnapshot { .. } | Self::AmbiguousSnapshot { .. } => vec![remedy![
                Mention(Call::snapshots(Value::Blank)),
                " lists them; NAME@LABEL names one of any sandbox, @-1 is the latest"
            ]],
            Self::NoSuchPosition { .. } => vec![remedy![
                Mention(Call::List),
                " lists the sandboxes, ",
                Mention(Call::snapshots(Value::Blank)),
                " their snapshots"
            ]],
            Self::InUse { .. } => vec![remedy!["let it end first, or have it ended: ", Choice::Live("stop".into())]],
            Self::NoRoom { .. } => vec![remedy![
                Mention(Call::CollectPreview),
                " shows what could go, and ",
                Mention(Call::DiskUsage),
                " where it is"
            ]],
            Self::BadArchive { .. } => vec![remedy!["nothing was imported; ", Mention(Call::ImportList), " shows what is in it"]],
            Self::OtherProject { theirs, is_here: true, .. } => vec![remedy![
                "nothing was imported; if that directory is the one you mean: ",
                Call::Import { choices: vec![Choice::Project(theirs.as_path().into())] }
            ]],
            Self::OtherProject { .. } => vec!["nothing was imported; its project must be at the same path here".into()],
            Self::OtherBackend { theirs, .. } => vec![remedy![
                "nothing was imported; to use that backend for it: ",
                Call::Import { choices: vec![Choice::Backend(theirs.to_string().into())] }
            ]],
            Self::Archive(ArchiveError::Io { source, .. }) => of_io(source),
            Self::Archive(error) => error.remedies(),
            Self::Race(error) => error.remedies(),
            Self::Misuse(error) => error.remedies(),
            Self::NetworkMisuse(error) => error.remedies(),
            Self::Helper { source } => of_io(source),
            Self::Restack { errno, .. } => {
                let shortage = errno.and_then(|errno| shortage_of(&io::Error::from_raw_os_error(errno)));
                let nothing_lost = remedy![
                    "nothing is lost; ",
                    Mention(Call::start(Value::Unsaid)),
                    " brings the sandbox up again if it was stopped"
                ];
                shortage.into_iter().chain([nothing_lost]).collect()
            }
            Self::NoSuchTemplate { .. } => vec![remedy![
                Mention(Call::Templates),
                " lists them; save one: ",
                Call::SaveTemplate { sandbox: Value::Blank, template: Value::Blank, replace: false }
            ]],
            Self::EndedMeanwhile { name, .. } => {
                vec![remedy!["its changes stay: ", Call::diff(name), "; start it again: ", Call::start(name)]]
            }
            Self::Stopped { name } => vec![remedy!["start it again: ", Call::start(name)]],
            Self::Expired { name } => vec![
                remedy!["its changes are kept: look at them (", Call::diff(name), "), keep them (", Call::apply(name), ")"],
                remedy!["or give it more time: ", Call::Start { name: name.into(), ttl: Some("1h".to_owned()) }],
            ],
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
            Self::Busy { .. } => vec!["try again in a moment".into()],
            Self::StillRunning { name } => vec![remedy!["stop it first: ", Call::stop(name)]],
            Self::OtherKeeper { name } => {
                vec![remedy!["start it again, its changes stay: ", Call::stop(name), "; ", Call::start(name)]]
            }
            Self::Unreachable { .. } => vec![remedy![
                Mention(Call::show(Value::Unsaid)),
                " has its process; ",
                Mention(Call::remove(Value::Unsaid)),
                " ends it and removes the sandbox"
            ]],
            Self::BadDirectory { .. } => vec![another_directory()],
            Self::PrivateProject { .. } => vec![remedy![
                "work in a directory within it, which is seen and copied on write; or name one: ",
                Choice::Cwd(Value::Blank)
            ]],
            Self::CoarseTimes { .. } => vec![remedy![
                "move it to one that keeps fractions of seconds: ext4 with inodes of 256 bytes (as it is made by default), xfs, btrfs"
            ]],
            Self::ProjectMissing { name, .. } => vec![remedy![
                "put it back and try again, or take out what it changed: ",
                Call::patch(name),
                ", or ",
                Call::export(name)
            ]],
            Self::NoCurrentDirectory { .. } => vec!["go to a directory that exists and try again".into()],
            Self::Config { .. } => vec!["see 'Configuration' in the README for the keys and what a project may set".into()],
            Self::Boot { errno, .. } => of_boot(*errno),
            Self::Backend { backend: Backend::Fuse, .. } => vec![
                "it needs fuse-overlayfs and a /dev/fuse that is open to you ('ls -l /dev/fuse')".into(),
                remedy![
                    "or leave out ",
                    Choice::Backend(Value::Unsaid),
                    ": whatif takes one that works; ",
                    Mention(Call::Doctor),
                    " tests each of them"
                ],
            ],
            Self::NoBackend { .. } | Self::Backend { .. } => vec![
                "overlayfs needs a state directory on ext4, xfs, btrfs or tmpfs: set WHATIF_HOME to one (inside a container, to a volume or /dev/shm)".into(),
                remedy!["or install fuse-overlayfs, or choose: ", Choice::Backend("copy".into())],
                remedy![Mention(Call::Doctor), " tests each of them"],
            ],
            Self::NoRules { .. } => vec![
                "the kernel needs nf_tables with NAT ('modprobe nf_tables nft_redir', or ask whoever runs the container)".into(),
                remedy![
                    "or do without a network: ",
                    Choice::Net("none".into()),
                    "; ",
                    Mention(Call::Doctor),
                    " tests it"
                ],
            ],
            Self::Supervisor { name, .. } => vec![remedy![
                "nothing gets out meanwhile; try again, ",
                Mention(Call::Network { name: name.into() }),
                " shows whether it works"
            ]],
            Self::Command(failed) if failed.reason == Reason::Directory => vec![another_directory()],
            Self::NoSuchProcess { name, .. } => vec![remedy!["list its processes: ", Call::Processes { name: name.into() }]],
            Self::EndUnknown { name, id } => {
                let log = Call::Logs { name: name.into(), command: id.to_string() };
                vec![remedy!["what is kept of its output stays: ", log]]
            }
            Self::NotApproved { undo: None } => vec![remedy![
                "look at it first (",
                Choice::DryRun,
                " shows the plan), then approve with ",
                Choice::Yes
            ]],
            Self::NotApproved { undo: Some(id) } => {
                let (plan, approved) = (Call::UndoPlan { id: id.into() }, Call::UndoApproved { id: id.into() });
                vec![remedy!["look: ", plan, "   approve: ", approved]]
            }
            Self::Pattern(_) => vec!["patterns are written as in .gitignore, and are not empty; quote them for the shell".into()],
            Self::Moved { name, .. } => vec![remedy!["look again: ", Call::diff(name)]],
            Self::Conflicts { name, conflicts, is_stopped } => of_conflicts(name, conflicts, *is_stopped),
            Self::WouldReplace { .. } => vec![remedy![
                "nothing was written. Choose another name, or replace what is there, which cannot be undone: ",
                Choice::Force
            ]],
            Self::NothingToUndo { beneath } if !beneath.is_empty() => vec![remedy![
                "run it in one of them, or name the apply: ",
                Mention(Call::History),
                " lists those of all projects here"
            ]],
            Self::NoSuchApply { .. } | Self::AmbiguousApply { .. } | Self::NothingToUndo { .. } => {
                vec![remedy![Mention(Call::History), " lists the applies; an undo is undone by its id"]]
            }
            Self::Undone { by, .. } => vec![remedy!["to apply it again, undo the undo: ", Call::undo(by)]],
            Self::ChangedSince { id, changed } => {
                let mut remedies = vec![remedy![
                    "nothing was written. Undo what was changed since first, or undo all but these: ",
                    Call::Undo { id: id.into(), skip: Value::Blank }
                ]];
                let earlier = changed.iter().filter_map(|c| c.earlier.as_ref().map(|earlier| (&c.path, earlier)));
                remedies.extend(earlier.take(MOST_NAMED).map(|(path, earlier)| {
                    format!("what was at {} before is {}", path.display(), earlier.display()).into()
                }));
                remedies
            }
            Self::Git { remedy, .. } if remedy.is_empty() => Vec::new(),
            Self::Git { remedy, .. } => vec![remedy.clone()],
            Self::GitAtWork { lock } => vec![
                "nothing was written. Try again when that git command has ended".into(),
                remedy!["if none is running there, one was killed and left it behind: rm ", Argument(lock)],
            ],
            Self::Unreadable(unreadable) if unreadable.is_closed() => vec![remedy![
                "what the sandbox did there is not known. If it is meant to be closed, leave it out of an apply: ",
                Choice::Exclude(unreadable.path.as_path().into())
            ]],
            Self::Unreadable(unreadable) => {
                let mut remedies = of_io(&unreadable.cause.into());
                remedies.push("what the sandbox did there is not known, so nothing was done; its work is still there".into());
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
            Self::RanBut { name, .. } => {
                vec![remedy!["the next command settles it; ", Mention(Call::show(name)), " tells what is there then"]]
            }
            Self::WorkGone { name, .. } => vec![
                "reality is untouched; if it was moved or deleted by mistake, put it back or restore it from a backup".into(),
                remedy!["to give up what is left: ", Call::remove(name)],
            ],
            Self::Cancelled { .. } => Vec::new(),
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
            Self::Uncopied(error) => vec![
                remedy!["leave it out: ", Choice::Mask(error.path.as_path().into())],
                "or start in a directory that you can read, or with another backend: only copies need to read all of it".into(),
            ],
            Self::Store(error) => error.remedies(),
            Self::Launch(error) => error.remedies(),
            Self::Provider(error) => error.remedies(),
            Self::Keeper(ClientError::NoAnswer) => vec![remedy![
                "end it with force: ",
                Call::stop(Value::Blank),
                " (its changes stay), or ",
                Call::remove(Value::Blank)
            ]],
            Self::Keeper(_) => vec![remedy![
                Mention(Call::List),
                " shows its state; ",
                Mention(Call::start(Value::Unsaid)),
                " starts it again"
            ]],
            Self::Command(failed) => match failed.reason {
                Reason::NotFound => vec![remedy!["is it installed? For a shell's own words and pipes: ", Call::RunScript]],
                // A program is executed whether or not the disk is full; a terminal is what can be missing.
                Reason::CannotExecute if failed.errno == Errno::NOSPC.raw_os_error() => vec![
                    "no terminal is left: end programs in the sandbox that have opened many, or run it without one: … < /dev/null | cat".into(),
                ],
                Reason::CannotExecute => vec!["is it executable, and for this machine? Try 'ls -l' and 'file' on it inside".into()],
                Reason::NoSuchProcess => vec![remedy![Mention(Call::Processes { name: Value::Unsaid }), " lists the processes"]],
                _ => vec![remedy![Mention(Call::show(Value::Unsaid)), " tells what the sandbox sees"]],
            },
            Self::Name(_) => vec!["choose another, or leave it out where one can be made up".into()],
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

fn another_directory() -> Remedy {
    remedy!["choose another with ", Choice::Cwd(Value::Unsaid)]
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
        Owner::Sandbox(name) => remedy!["to give up what is left: ", Call::remove(name)],
        Owner::Snapshot(name) => remedy!["to give it up: ", Call::RemoveSnapshot { label: name.into() }],
        Owner::Template(name) => remedy!["to give it up: ", Call::RemoveTemplate { name: name.into() }],
    });
    remedies
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

fn of_boot(errno: i32) -> Vec<Remedy> {
    if let Some(remedy) = shortage_of(&io::Error::from_raw_os_error(errno)) {
        return vec![remedy];
    }
    let mut remedies = Vec::new();
    if errno == Errno::PERM.raw_os_error() || errno == Errno::ACCESS.raw_os_error() {
        remedies.push("the kernel or a security module forbids it; in a container, more rights may be needed".into());
    }
    remedies.push(remedy![Mention(Call::Doctor), " tests each thing a sandbox needs and says how to fix what is missing"]);
    remedies
}

fn of_io(error: &io::Error) -> Vec<Remedy> {
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
