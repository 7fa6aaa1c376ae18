//! Whether the kernel has what the native provider needs.

use std::fs;

use super::obstacle::{self, Obstacle};
use crate::{Finding, Probe};

/// Overlayfs in user namespaces came with 5.11, `mount_setattr` with 5.12, idmapped overlay layers with 5.19.
const NEEDED: (u32, u32) = (5, 12);
const RECOMMENDED: (u32, u32) = (5, 19);

const USER_NAMESPACES: &str = "user namespaces";

pub(super) fn probe(works_as_root: bool) -> Probe {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let findings = vec![kernel(&release), user_namespaces(works_as_root), seccomp(), landlock()];
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

/// By making one; root makes them in another way.
fn user_namespaces(works_as_root: bool) -> Finding {
    let found = if works_as_root { obstacle::find_for_root() } else { obstacle::find() };
    match found {
        None => Finding::ok(USER_NAMESPACES, "allowed"),
        Some(Obstacle { what, fix }) => Finding::fail(USER_NAMESPACES, what, fix),
    }
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
