//! What the kernel offers.

use std::fs;
use std::path::Path;

use whatif_sys::absence;

use super::Probe;

/// Overlayfs in user namespaces came with 5.11, `mount_setattr` with 5.12, idmapped overlay layers with 5.19.
const NEEDED: (u32, u32) = (5, 12);
const RECOMMENDED: (u32, u32) = (5, 19);

pub(super) fn version() -> Probe {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < NEEDED {
        return Probe::fail("kernel", format!("Linux {release}"), "Linux 5.12 or newer is needed");
    }
    if found < RECOMMENDED {
        return Probe::warn("kernel", format!("Linux {release}"), "with 5.19 or newer, root's sandboxes are nobody outside");
    }
    Probe::ok("kernel", format!("Linux {release}"))
}

/// The settings only; whether it really works is tried later by mounting.
pub(super) fn user_namespaces(is_root: bool) -> Probe {
    const NAME: &str = "user namespaces";
    let setting = |path: &str| fs::read_to_string(Path::new("/proc/sys").join(path)).ok().map(|t| t.trim().to_owned());
    if setting("user/max_user_namespaces").as_deref() == Some("0") {
        return Probe::fail(NAME, "user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=15000");
    }
    if !is_root && setting("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return Probe::fail(NAME, "kernel.unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1");
    }
    if !is_root && setting("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return Probe::warn(
            NAME,
            "AppArmor takes their rights away from programs without a profile",
            "add a profile: printf 'abi <abi/4.0>,\\nprofile whatif %s flags=(unconfined) { userns, }\\n' \"$(command -v whatif)\" | sudo tee /etc/apparmor.d/whatif && sudo apparmor_parser -r /etc/apparmor.d/whatif",
        );
    }
    Probe::ok(NAME, "allowed")
}

pub(super) fn seccomp() -> Probe {
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.contains("errno") => Probe::ok("seccomp", "system call filters are available"),
        _ => Probe::fail("seccomp", "the kernel has no system call filters", "use a kernel with CONFIG_SECCOMP_FILTER"),
    }
}

pub(super) fn landlock() -> Probe {
    match whatif_sys::landlock::abi() {
        abi @ 0..2 => Probe::warn(
            "landlock",
            if abi == 0 { "not available" } else { "too old to be used" },
            "a second wall is missing; enable it with the kernel parameter lsm=landlock,… (Linux 5.19 or newer)",
        ),
        abi @ 2..6 => Probe::warn(
            "landlock",
            format!("ABI {abi}"),
            "with Linux 6.12 or newer, the host's abstract sockets are out of reach even with --net host",
        ),
        abi => Probe::ok("landlock", format!("ABI {abi}")),
    }
}

/// Only for a remark, so what cannot be looked at is left out.
fn has_program(directory: &str, program: &str) -> bool {
    absence::leads_somewhere(&Path::new(directory).join(program)).unwrap_or(false)
}

pub(super) fn providers() -> Vec<Probe> {
    let found: Vec<&str> = [("docker", "docker"), ("gvisor", "runsc"), ("microvm", "qemu-system-x86_64")]
        .into_iter()
        .filter(|(_, program)| ["/usr/bin", "/usr/local/bin", "/usr/sbin"].iter().any(|d| has_program(d, program)))
        .map(|(name, _)| name)
        .collect();
    let others = if found.is_empty() { String::new() } else { format!("; found on this machine for later: {}", found.join(", ")) };
    vec![Probe::ok("providers", format!("{}{others}", whatif_provider::ALL.map(|provider| provider.name()).join(", ")))]
}
