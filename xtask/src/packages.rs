//! What the tests need from the machine, and how it gets there.
//!
//! Looked for by what it provides, not by package name: Node, for one, often comes from elsewhere than Debian.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::programs;

struct Component {
    package: &'static str,
    sign: Sign,
}

/// How one sees that a component is there.
enum Sign {
    Program(&'static str),
    File(&'static str),
    PythonModule(&'static str),
}

const COMPONENTS: [Component; 36] = [
    program("bubblewrap", "bwrap"),
    program("fuse-overlayfs", "fuse-overlayfs"),
    program("strace", "strace"),
    program("tmux", "tmux"),
    program("git", "git"),
    program("python3", "python3"),
    Component { package: "python3-venv", sign: Sign::PythonModule("ensurepip") },
    program("sqlite3", "sqlite3"),
    // Its server is not in the search path.
    Component { package: "postgresql", sign: Sign::File("/usr/lib/postgresql") },
    program("rsync", "rsync"),
    program("npm", "npm"),
    program("python3-pip", "pip3"),
    program("golang-go", "go"),
    program("default-jdk-headless", "javac"),
    program("curl", "curl"),
    program("attr", "setfattr"),
    program("acl", "setfacl"),
    program("libcap2-bin", "setcap"),
    program("e2fsprogs", "mkfs.ext4"),
    program("xfsprogs", "mkfs.xfs"),
    program("btrfs-progs", "mkfs.btrfs"),
    program("util-linux", "nsenter"),
    program("util-linux", "setpriv"),
    program("procps", "ps"),
    program("iproute2", "ip"),
    program("dnsmasq-base", "dnsmasq"),
    program("openssl", "openssl"),
    program("vim-tiny", "vi"),
    program("zsh", "zsh"),
    program("fish", "fish"),
    program("gcc", "gcc"),
    Component { package: "libc6-dev", sign: Sign::File("/usr/include/stdio.h") },
    program("hyperfine", "hyperfine"),
    program("busybox-static", "busybox"),
    program("docker.io", "dockerd"),
    program("podman", "podman"),
];

/// For the virtual machine.
const OF_MACHINE: [Component; 5] = [
    program("apt", "apt-cache"),
    program("qemu-system-x86", "qemu-system-x86_64"),
    program("kmod", "modprobe"),
    program("cpio", "cpio"),
    program("busybox-static", "busybox"),
];

const fn program(package: &'static str, name: &'static str) -> Component {
    Component { package, sign: Sign::Program(name) }
}

/// Installs what is missing if we may. What stays missing is named; in CI it is a failure, because there a skipped
/// test is one that nobody ever runs.
pub fn provide() -> Result<(), Failure> {
    provide_all(&COMPONENTS)
}

/// The same for a virtual machine, without which there is none.
pub fn provide_machine() -> Result<(), Failure> {
    provide_all(&OF_MACHINE)
}

/// Whether there is all that it takes.
pub fn has_machine() -> bool {
    missing(&OF_MACHINE).is_empty()
}

fn provide_all(components: &[Component]) -> Result<(), Failure> {
    let mut missing = missing(components);
    if !missing.is_empty() && rustix::process::geteuid().is_root() {
        install(&missing);
        missing = self::missing(components);
    }
    if missing.is_empty() {
        println!("everything the tests need is installed");
        return Ok(());
    }
    let remedy = format!("to install: sudo apt-get install -y --no-install-recommends {}", missing.join(" "));
    if is_ci() {
        return Err(Failure::new(format!("not installed: {}; {remedy}", missing.join(", "))));
    }
    for package in &missing {
        println!("skip: {package} is not installed, and so the tests that need it are skipped");
    }
    println!("{remedy}");
    Ok(())
}

fn missing(components: &[Component]) -> Vec<&'static str> {
    let mut packages: Vec<_> = components.iter().filter(|component| !component.is_present()).map(|c| c.package).collect();
    packages.dedup();
    packages
}

/// Whether it worked is seen by looking again, so a failure only needs to be told.
fn install(packages: &[&str]) {
    println!("installing {}", packages.join(", "));
    apt_get(&["update", "--quiet=2"]);
    apt_get(&[&["install", "--quiet=2", "-oDpkg::Use-Pty=0", "--yes", "--no-install-recommends"], packages].concat());
}

fn apt_get(arguments: &[&str]) {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("xtask: apt-get {} failed: {status}", arguments[0]),
        Err(error) => eprintln!("xtask: failed to run apt-get: {error}"),
    }
}

impl Component {
    fn is_present(&self) -> bool {
        match self.sign {
            Sign::Program(name) => programs::find(name).is_some(),
            Sign::File(path) => Path::new(path).exists(),
            Sign::PythonModule(name) => imports(name),
        }
    }
}

fn imports(module: &str) -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", &format!("import {module}")]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_seen_by_its_sign() {
        assert!(program("coreutils", "true").is_present());
        assert!(!program("nothing", "no-such-program-anywhere").is_present());
        assert!(!Component { package: "nothing", sign: Sign::File("/no/such/file") }.is_present());
    }
}
