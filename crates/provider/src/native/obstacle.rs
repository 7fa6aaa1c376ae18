//! Why namespaces or mounts are refused: the cause, not the call that failed of it.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use whatif_sys::absence;
use whatif_sys::trial::{self, Refused};

/// What stands in the way of every sandbox, and what takes it away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub what: String,
    pub fix: String,
}

impl Obstacle {
    fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }
}

/// What there is to know about a refusal, besides itself.
#[derive(Debug, Default)]
struct Surroundings {
    is_container: bool,
    /// Whether a filter of system calls is in force.
    is_filtered: bool,
    /// The profile of a security module that this process is confined by.
    profile: Option<String>,
    /// Settings of the kernel, as they are.
    most_namespaces: Option<String>,
    unprivileged: Option<String>,
    apparmor_restricts: Option<String>,
}

/// Tries as an ordinary user does.
pub(super) fn find() -> Option<Obstacle> {
    let refused = trial::of_namespaces().err()?;
    Some(explain(&refused, &Surroundings::look()))
}

/// Root makes them in other ways, of which this setting is the only one that stands in the way.
pub(super) fn find_for_root() -> Option<Obstacle> {
    of_settings(&Surroundings::look())
}

const OF_DOCKER: &str = "start the container with --security-opt seccomp=unconfined (compose: security_opt: [seccomp=unconfined]); \
     with --security-opt systempaths=unconfined as well, sandboxes have a /proc of their own";
const OF_APPARMOR: &str = "add a profile, which shows itself first and asks: sudo \"$(command -v whatif)\" doctor --fix";

fn of_settings(around: &Surroundings) -> Option<Obstacle> {
    let is = |setting: &Option<String>, value: &str| setting.as_deref() == Some(value);
    if is(&around.most_namespaces, "0") {
        return Some(Obstacle::new("user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=15000"));
    }
    None
}

fn explain(refused: &Refused, around: &Surroundings) -> Obstacle {
    let is = |setting: &Option<String>, value: &str| setting.as_deref() == Some(value);
    if let Some(obstacle) = of_settings(around) {
        return obstacle;
    }
    let (Refused::Namespaces(error) | Refused::Mounts(error)) = refused;
    let is_forbidden = matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::ACCESS));
    let mounts = matches!(refused, Refused::Mounts(_));
    if is_forbidden && is(&around.unprivileged, "0") {
        return Obstacle::new("kernel.unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1");
    }
    if is_forbidden && !around.is_container && is(&around.apparmor_restricts, "1") {
        return Obstacle::new("AppArmor takes their rights away from programs without a profile", OF_APPARMOR);
    }
    if is_forbidden
        && mounts
        && let Some(profile) = &around.profile
    {
        return Obstacle::new(
            format!("mounting in them is forbidden by the security profile '{profile}'"),
            "start the container with --security-opt apparmor=unconfined, or with a profile that allows to mount",
        );
    }
    if is_forbidden && around.is_container && around.is_filtered {
        let what = if mounts { "mounting in user namespaces is" } else { "user namespaces are" };
        return Obstacle::new(format!("{what} forbidden by the container's seccomp profile"), OF_DOCKER);
    }
    if is_forbidden && around.is_filtered {
        return Obstacle::new(
            "user namespaces are forbidden by a filter of system calls that this process was started with",
            format!("run whatif outside of what sets that filter; if it is a container, {OF_DOCKER}"),
        );
    }
    if Errno::from_io_error(error) == Some(Errno::NOSPC) {
        return Obstacle::new("there are too many user namespaces already", "sysctl -w user.max_user_namespaces=15000");
    }
    let step = if mounts { "mounting in one fails" } else { "none can be made" };
    Obstacle::new(
        format!("{step}: {error}"),
        "a security module or the root directory of this process (chroot) forbids it: run whatif where 'unshare --user --mount true' works",
    )
}

impl Surroundings {
    /// What cannot be read says nothing.
    fn look() -> Self {
        let setting = |path: &str| fs::read_to_string(Path::new("/proc/sys").join(path)).ok().map(|t| t.trim().to_owned());
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let labels = ["/proc/thread-self/attr/apparmor/current", "/proc/thread-self/attr/current"];
        Self {
            is_container: is_container(Path::new("/")),
            is_filtered: is_filtered(&status),
            profile: labels.iter().find_map(|path| fs::read(path).ok()).and_then(|label| profile_in(&label)),
            most_namespaces: setting("user/max_user_namespaces"),
            unprivileged: setting("kernel/unprivileged_userns_clone"),
            apparmor_restricts: setting("kernel/apparmor_restrict_unprivileged_userns"),
        }
    }
}

/// Docker and podman leave a file; others are told by the root directory, which is an overlay hardly anywhere else.
#[must_use]
pub fn is_container(root: &Path) -> bool {
    let left = [".dockerenv", "run/.containerenv"];
    let is_overlay = || rustix::fs::statfs(root).is_ok_and(|found| found.f_type as u64 == 0x794c_7630);
    left.iter().any(|path| absence::leads_somewhere(&root.join(path)).unwrap_or(false)) || is_overlay()
}

fn is_filtered(status: &str) -> bool {
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

/// `docker-default (enforce)`: only what is enforced stands in the way.
fn profile_in(label: &[u8]) -> Option<String> {
    let label = String::from_utf8_lossy(label);
    let (profile, mode) = label.trim_matches(['\0', '\n', ' ']).rsplit_once(' ')?;
    (mode == "(enforce)" && profile != "unconfined").then(|| profile.to_owned())
}

/// For those who could not start.
pub(super) fn of(error: &io::Error) -> Option<Obstacle> {
    let is_forbidden = matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::ACCESS | Errno::NOSPC | Errno::NOSYS));
    if is_forbidden { find() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(errno: Errno) -> io::Error {
        errno.into()
    }

    fn container() -> Surroundings {
        Surroundings { is_container: true, is_filtered: true, ..Surroundings::default() }
    }

    #[test]
    fn the_cause_is_told_and_what_takes_it_away() {
        let namespaces = Refused::Namespaces(denied(Errno::PERM));
        let mounts = Refused::Mounts(denied(Errno::ACCESS));
        let profiled = Surroundings { profile: Some("docker-default".into()), is_filtered: false, ..container() };
        let ubuntu = Surroundings { apparmor_restricts: Some("1".into()), ..Surroundings::default() };
        let none = Surroundings { most_namespaces: Some("0".into()), ..container() };
        for (refused, around, what, fix) in [
            (&namespaces, &container(), "user namespaces are forbidden by the container's seccomp profile", "seccomp=unconfined"),
            (&mounts, &profiled, "the security profile 'docker-default'", "apparmor=unconfined"),
            (&mounts, &ubuntu, "AppArmor takes their rights away", "doctor --fix"),
            (&namespaces, &none, "user.max_user_namespaces is 0", "sysctl"),
            (&namespaces, &Surroundings::default(), "none can be made", "unshare"),
        ] {
            let told = explain(refused, around);
            assert!(told.what.contains(what), "{told:?}");
            assert!(told.fix.contains(fix), "{told:?}");
        }
    }

    #[test]
    fn only_an_enforced_profile_is_one() {
        assert_eq!(profile_in(b"docker-default (enforce)\n"), Some("docker-default".into()));
        assert_eq!(profile_in(b"unconfined\0"), None);
        assert_eq!(profile_in(b"my (complain)\n"), None);
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Seccomp:\t0\nSeccomp_filters:\t2\n"));
    }
}
