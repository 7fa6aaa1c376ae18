//! What can be done about an error in the life of a sandbox.

use std::io;

use rustix::io::Errno;
use whatif_keeper::protocol::{Failed, Reason};
use whatif_types::explain::{shortage, shortage_of, shortage_of_processes};
use whatif_types::remedy::{Call, Choice, Mention, Value};
use whatif_types::{Backend, Explain, Remedy, remedy};

use super::LifecycleError;
use crate::ground::error::of_io;

impl LifecycleError {
    pub(super) fn proposals(&self) -> Vec<Remedy> {
        let is_of_the_machine = matches!(self, Self::Launch(_) | Self::Helper { .. });
        if is_of_the_machine && let Some(remedy) = shortage(self) {
            return vec![remedy];
        }
        if let Some(remedy) = self.start().as_ref().and_then(shortage_of_processes) {
            return vec![remedy];
        }
        match self {
            Self::TemplateElsewhere { project, .. } => vec![remedy!["use it there: ", Choice::Cwd(project.as_path().into())]],
            Self::MaskOfEverything => vec![remedy!["name what is to be hidden: ", Choice::Mask("~/letters".into())]],
            Self::BadDirectory { .. } => vec![another_directory()],
            Self::PrivateProject { .. } => vec![remedy![
                "work in a directory within it, which is seen and copied on write; or name one: ",
                Choice::Cwd(Value::Blank)
            ]],
            Self::CoarseTimes { .. } => vec![remedy![
                "move it to one that keeps fractions of seconds: ext4 with inodes of 256 bytes (as it is made by default), xfs, btrfs"
            ]],
            Self::Uncopied(error) => vec![
                remedy!["leave it out: ", Choice::Mask(error.path.as_path().into())],
                "or start in a directory that you can read, or with another backend: only copies need to read all of it".into(),
            ],
            Self::Device(error) => error.remedies(),
            Self::Launch(error) => error.remedies(),
            Self::Boot { errno, .. } => of_boot(*errno),
            Self::Backend { backend: Backend::Fuse, .. } => vec![
                "it needs fuse-overlayfs and a /dev/fuse that you can open ('ls -l /dev/fuse')".into(),
                remedy![
                    "or leave out ",
                    Choice::Backend(Value::Unsaid),
                    ": whatif then chooses one that works; ",
                    Mention(Call::Doctor),
                    " tests each of them"
                ],
            ],
            Self::NoBackend { .. } | Self::Backend { .. } => vec![
                "overlayfs needs a state directory on ext4, xfs, btrfs or tmpfs: set WHATIF_HOME to one (inside a container, to a volume or /dev/shm)".into(),
                remedy!["or install fuse-overlayfs, or choose: ", Choice::Backend("copy".into())],
                remedy![Mention(Call::Doctor), " tests each of them"],
            ],
            Self::MountsChanged { owner, how } => vec![how.remedy(owner)],
            Self::Restack { errno, .. } => {
                let shortage = errno.and_then(|errno| shortage_of(&io::Error::from_raw_os_error(errno)));
                let nothing_lost = remedy![
                    "nothing is lost; ",
                    Mention(Call::start(Value::Unsaid)),
                    " brings the sandbox up again if it was stopped"
                ];
                shortage.into_iter().chain([nothing_lost]).collect()
            }
            Self::Helper { source } => of_io(source),
            Self::InUse { .. } => vec![remedy!["wait until it ends, or stop it: ", Choice::Live("stop".into())]],
            Self::VersionChanged { name, .. } => {
                vec![remedy![Mention(Call::show(name)), " has what changed; look at it and ask again with that version"]]
            }
            Self::StillRunning { name } => vec![remedy!["stop it first: ", Call::stop(name)]],
            Self::Expired { name } => vec![
                remedy!["its changes are kept: look at them (", Call::diff(name), "), keep them (", Call::apply(name), ")"],
                remedy!["or give it more time: ", Call::Start { name: name.into(), ttl: Some("1h".to_owned()) }],
            ],
            Self::Unreachable { .. } => vec![remedy![
                Mention(Call::show(Value::Unsaid)),
                " has its process; ",
                Mention(Call::remove(Value::Unsaid)),
                " ends it and removes the sandbox"
            ]],
            Self::Command(failed) => vec![of_command(failed, Call::RunScript)],
            Self::NotFoundIn { name, failed } => vec![of_command(failed, Call::ExecScript { name: name.into() })],
            Self::File(error) => error.remedies(),
            Self::NoSuchProcess { name, .. } => vec![remedy!["list its processes: ", Call::Processes { name: name.into() }]],
            Self::EndUnknown { name, id } => {
                let log = Call::Logs { name: name.into(), command: id.to_string() };
                vec![remedy!["what is kept of its output stays: ", log]]
            }
            Self::NoLog { .. } => vec![remedy!["commands started with ", Mention(Call::ExecDetached), " have logs"]],
            Self::NothingToAttachTo { .. } => {
                vec![remedy!["commands started with ", Mention(Call::ExecDetached), " can be attached to"]]
            }
            Self::BeyondOutput { end, .. } => vec![remedy!["choose an offset up to that: ", Choice::From(end.to_string().into())]],
            Self::RanBut { name, .. } => {
                vec![remedy!["the next command repairs the record; ", Mention(Call::show(name)), " tells what is there then"]]
            }
            Self::WorkGone { name, .. } => vec![
                "reality is untouched; if it was moved or deleted by mistake, put it back or restore it from a backup".into(),
                remedy!["to discard what is left: ", Call::remove(name)],
            ],
            Self::WouldReplace { .. } => vec![remedy![
                "nothing was written. Choose another name, or replace what is there, which cannot be undone: ",
                Choice::Force
            ]],
        }
    }

    /// Why a process could not be started, if it is about that.
    fn start(&self) -> Option<io::Error> {
        let errno = match self {
            Self::Launch(error) => error.source.raw_os_error(),
            Self::Helper { source } => source.raw_os_error(),
            Self::Command(failed) if failed.reason == Reason::CannotExecute => Some(failed.errno),
            _ => None,
        };
        errno.map(io::Error::from_raw_os_error)
    }
}

fn another_directory() -> Remedy {
    remedy!["choose another with ", Choice::Cwd(Value::Unsaid)]
}

fn of_command(failed: &Failed, script: Call) -> Remedy {
    match failed.reason {
        Reason::Directory => another_directory(),
        Reason::NotFound => remedy!["is it installed? For a shell's own words and pipes: ", script],
        // A program is executed whether or not the disk is full; a terminal is what can be missing.
        Reason::CannotExecute if failed.errno == Errno::NOSPC.raw_os_error() => {
            "no pseudo-terminal is left: end programs in the sandbox that opened many, or run it without one: … < /dev/null | cat"
                .into()
        }
        Reason::CannotExecute => "is it executable, and for this machine? Try 'ls -l' and 'file' on it inside".into(),
        Reason::NoSuchProcess => remedy![Mention(Call::Processes { name: Value::Unsaid }), " lists the processes"],
        _ => remedy![Mention(Call::show(Value::Unsaid)), " tells what the sandbox sees"],
    }
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
