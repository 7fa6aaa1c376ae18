//! A way for an ordinary user in a login session to get control groups: the session itself is not delegated, but what runs
//! below the user's own service manager is. A scope of that manager is such a place, and a process can be started in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::found::Resource;
use crate::tables::Place;
use crate::unified::Unified;

const ARGUMENTS: [&str; 6] = ["--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    program: PathBuf,
}

impl Scope {
    /// Whether the user's manager runs and has all the controllers to hand on. A scope made beside us would not do: only a process
    /// that is itself below the manager may enter groups there, so whoever wants them has to be started in one.
    pub(crate) fn look(place: &Place) -> Option<Scope> {
        let uid = rustix::process::geteuid().as_raw();
        let manager = place.mount_point.join(format!("user.slice/user-{uid}.slice/user@{uid}.service"));
        let controllers = Unified::controllers(&manager);
        let complete = Resource::ALL.iter().all(|resource| controllers.iter().any(|c| c == resource.controller()));
        // What cannot be looked at is of no use; that there is no scope then is told with the limits.
        let is_there = |path: &Path| std::fs::exists(path).unwrap_or(false);
        let listens = is_there(&Path::new("/run/user").join(uid.to_string()).join("systemd/private"));
        let program = ["/usr/bin/systemd-run", "/bin/systemd-run"].into_iter().map(PathBuf::from).find(|path| is_there(path))?;
        (uid != 0 && complete && listens).then_some(Scope { program })
    }

    /// `program` in a new scope, to be given its arguments and executed. It keeps this process's identity, terminal and
    /// environment, which must name `XDG_RUNTIME_DIR`. The scope ends with the last process in it. Whoever executes itself this
    /// way must see to it that it happens once only.
    pub fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new(&self.program);
        command.args(ARGUMENTS).arg(program);
        command
    }

    /// The same as a line to type.
    #[must_use]
    pub fn command_line(&self) -> String {
        format!("systemd-run {} whatif …", ARGUMENTS.join(" "))
    }
}
