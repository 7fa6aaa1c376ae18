//! Whether the kernel has what the native provider needs.

use std::fs;
use std::path::Path;

use crate::{Finding, Probe};

/// Overlayfs in user namespaces came with 5.11, `mount_setattr` with 5.12, idmapped overlay layers with 5.19.
const NEEDED: (u32, u32) = (5, 12);
const RECOMMENDED: (u32, u32) = (5, 19);

pub(super) fn probe(uid: u32) -> Probe {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let findings = vec![kernel(&release), user_namespaces(uid == 0), seccomp(), landlock()];
    Probe { version: format!("Linux {release}"), findings }
}

fn kernel(release: &str) -> Finding {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < NEEDED {
        return Finding::fail("kernel", format!("Linux {release}"), "Linux 5.12 or newer is needed");
    }
    if found < RECOMMENDED {
        return Finding::warn("kernel", format!("Linux {release}"), "with 5.19 or newer, root's sandboxes are nobody outside");
    }
    Finding::ok("kernel", format!("Linux {release}"))
}

/// The settings only; whether it really works is tried later by mounting.
fn user_namespaces(is_root: bool) -> Finding {
    const NAME: &str = "user namespaces";
    let setting = |path: &str| fs::read_to_string(Path::new("/proc/sys").join(path)).ok().map(|t| t.trim().to_owned());
    if setting("user/max_user_namespaces").as_deref() == Some("0") {
        return Finding::fail(NAME, "user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=15000");
    }
    if !is_root && setting("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return Finding::fail(NAME, "kernel.unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1");
    }
    if !is_root && setting("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return Finding::warn(
            NAME,
            "AppArmor takes their rights away from programs without a profile",
            "add a profile: printf 'abi <abi/4.0>,\\nprofile whatif %s flags=(unconfined) { userns, }\\n' \"$(command -v whatif)\" | sudo tee /etc/apparmor.d/whatif && sudo apparmor_parser -r /etc/apparmor.d/whatif",
        );
    }
    Finding::ok(NAME, "allowed")
}

fn seccomp() -> Finding {
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.contains("errno") => Finding::ok("seccomp", "system call filters are available"),
        _ => Finding::fail("seccomp", "the kernel has no system call filters", "use a kernel with CONFIG_SECCOMP_FILTER"),
    }
}

fn landlock() -> Finding {
    match whatif_sys::landlock::abi() {
        abi @ 0..2 => Finding::warn(
            "landlock",
            if abi == 0 { "not available" } else { "too old to be used" },
            "a second wall is missing; enable it with the kernel parameter lsm=landlock,… (Linux 5.19 or newer)",
        ),
        abi @ 2..6 => Finding::warn(
            "landlock",
            format!("ABI {abi}"),
            "with Linux 6.12 or newer, the host's abstract sockets are out of reach even with --net host",
        ),
        abi => Finding::ok("landlock", format!("ABI {abi}")),
    }
}
