//! The same tests in virtual machines that have their control groups otherwise than this one: all in cgroup2, and mixed. There they
//! run as root, as a user to whom a group is delegated, and as one to whom none is.
//!
//! Takes about a minute: `apt-get install qemu-system-x86 linux-image-cloud-amd64 busybox-static`, then
//! `cargo test --package whatif-cgroup -- --ignored`. `WHATIF_TEST_KERNEL` and `WHATIF_TEST_BUSYBOX` name others than those in `/boot`
//! and `/bin`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::UNUSABLE;

/// Everything is tested by the program that this is part of, so it is put into the machine with the libraries it needs.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /tmp
tests() { echo "BEGIN $2"; su -s /bin/sh "$1" -c '/tests --nocapture --skip machine::' 2>&1; echo "END $?"; }
delegate() { chown user "$1" "$1/cgroup.procs" "$1/cgroup.subtree_control"; }
case $(cat /proc/cmdline) in
*groups=unified*)
    mount -t cgroup2 none /sys/fs/cgroup
    tests root 'as root'
    tests user 'as a user'
    mkdir -p /sys/fs/cgroup/outer/session
    echo '+memory +pids +cpu' > /sys/fs/cgroup/cgroup.subtree_control
    echo '+memory +pids +cpu' > /sys/fs/cgroup/outer/cgroup.subtree_control
    delegate /sys/fs/cgroup/outer
    delegate /sys/fs/cgroup/outer/session
    (echo 0 > /sys/fs/cgroup/outer/session/cgroup.procs; tests user 'as a user with a delegated group')
    ;;
*)
    # Joined, in strange places, and with a mount that shows a part only.
    mkdir -p '/tmp/my groups' /tmp/memory /tmp/whole
    mount -t cgroup -o cpu,cpuacct none '/tmp/my groups'
    mount -t cgroup -o memory none /tmp/whole
    mkdir -p /tmp/whole/container/session
    echo 0 > /tmp/whole/container/session/tasks
    mount --bind /tmp/whole/container /tmp/memory
    umount /tmp/whole
    mount -t cgroup2 none /sys/fs/cgroup
    tests root 'as root'
    ;;
esac
sync
poweroff -f
"#;

#[test]
#[ignore = "needs qemu, a kernel and some time"]
fn with_everything_in_cgroup2() {
    let log = boot("unified", "cgroup_no_v1=all");
    let runs = runs(&log);
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(Run::passed));
    assert!(!runs[0].says_unusable && runs[1].says_unusable && !runs[2].says_unusable);
}

#[test]
#[ignore = "needs qemu, a kernel and some time"]
fn with_some_controllers_in_v1_and_some_in_cgroup2() {
    let log = boot("mixed", "");
    let runs = runs(&log);
    assert_eq!(runs.len(), 1);
    assert!(runs[0].passed() && !runs[0].says_unusable);
}

struct Run {
    status: String,
    says_unusable: bool,
}

impl Run {
    fn passed(&self) -> bool {
        self.status == "0"
    }
}

/// The parts of a machine's output between `BEGIN` and `END`.
fn runs(log: &str) -> Vec<Run> {
    let parts = log.split("BEGIN ").skip(1);
    parts
        .map(|part| {
            let (output, rest) = part.split_once("\nEND ").unwrap_or((part, ""));
            Run { status: rest.lines().next().unwrap_or_default().trim().to_owned(), says_unusable: output.contains(UNUSABLE) }
        })
        .collect()
}

fn boot(groups: &str, more: &str) -> String {
    let scratch = env::temp_dir().join(format!("whatif-machine-{}-{groups}", std::process::id()));
    fs::write(&scratch, image()).unwrap();
    // Emulated: a machine within a machine may not have the help of hardware, and does not always know.
    let log = Command::new("timeout")
        .args(["120", "qemu-system-x86_64", "-accel", "tcg", "-smp", "2", "-m", "1G"])
        .args(["-nodefaults", "-no-reboot", "-nographic", "-serial", "stdio"])
        .arg("-kernel")
        .arg(kernel())
        .arg("-initrd")
        .arg(&scratch)
        .arg("-append")
        .arg(format!("console=ttyS0 quiet panic=-1 random.trust_cpu=on groups={groups} {more}"))
        .stdin(Stdio::null())
        .output();
    fs::remove_file(&scratch).unwrap();
    let log = log.expect("qemu-system-x86_64 runs");
    let log = String::from_utf8_lossy(&log.stdout).replace('\r', "") + &String::from_utf8_lossy(&log.stderr);
    println!("{log}");
    log
}

fn kernel() -> PathBuf {
    let newest = || {
        let entries = fs::read_dir("/boot").ok()?.flatten().map(|entry| entry.path());
        entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))).max()
    };
    env::var_os("WHATIF_TEST_KERNEL").map(PathBuf::from).or_else(newest).expect("a kernel in /boot")
}

/// The machine's first file system.
fn image() -> Vec<u8> {
    let tests = env::current_exe().unwrap();
    let busybox = env::var_os("WHATIF_TEST_BUSYBOX").map_or_else(|| PathBuf::from("/bin/busybox"), PathBuf::from);
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "proc", "sys", "tmp", "etc", "lib", "lib64"] {
        archive.directory(directory);
    }
    archive.file("init", INIT.as_bytes());
    archive.file("etc/passwd", b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n");
    archive.file("etc/group", b"root:x:0:\nuser:x:1000:\n");
    archive.file("bin/busybox", &fs::read(busybox).expect("a static busybox"));
    archive.file("tests", &fs::read(&tests).unwrap());
    for library in libraries(&tests) {
        let name = library.file_name().unwrap().to_str().unwrap();
        let place = if name.starts_with("ld-") { "lib64" } else { "lib" };
        archive.file(&format!("{place}/{name}"), &fs::read(&library).unwrap());
    }
    archive.end()
}

fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// The kernel's format for it: a header of hexadecimal numbers, the name and the content, each filled up to four bytes.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: usize,
}

impl Archive {
    fn directory(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, 0o100_755, content);
    }

    fn end(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let fields = [self.entries, mode as usize, 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
        let header: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        self.bytes.extend_from_slice(format!("070701{header}{name}\0").as_bytes());
        self.fill_up();
        self.bytes.extend_from_slice(content);
        self.fill_up();
    }

    fn fill_up(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
