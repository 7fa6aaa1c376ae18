//! Attack group NS: mounts, devices, setuid.

use whatif_e2e::{World, as_root, as_root_and_user, needs};

as_root_and_user!(
    the_root_cannot_be_left,
    dev_holds_only_what_is_harmless,
    mounts_of_the_host_are_the_same_afterwards,
    the_namespaces_of_another_sandbox_are_out_of_reach,
    cgroups_are_out_of_reach,
    setuid_programs_gain_nothing,
);
as_root!(a_mount_made_outside_later_does_not_appear_inside);

/// NS-04.
fn the_root_cannot_be_left(w: &World) {
    needs!(w, "python3");
    let canary = w.write(w.dir.join("state/only-outside"), "outside");
    let program = format!(
        r#"
import os, errno, json
out = {{}}
inside = os.stat("/").st_ino, os.stat("/").st_dev
os.chdir("/")
for _ in range(50): os.chdir("..")
out["above"] = (os.stat(".").st_ino, os.stat(".").st_dev) == inside
try:
    os.makedirs("/tmp/jail", exist_ok=True)
    fd = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/jail"); os.fchdir(fd)
    for _ in range(50): os.chdir("..")
    os.chroot(".")
    out["double chroot"] = "tried"
except OSError as e: out["double chroot"] = errno.errorcode[e.errno]
out["canary"] = os.path.exists("{canary}")
out["old roots"] = [p for p in ("/old_root_marker", "/oldroot", "/.old") if os.path.exists(p)]
print(json.dumps(out))
"#,
        canary = canary.display()
    );
    let results = w.python_inside(&program);
    assert_eq!(results["above"], true);
    assert_eq!(results["canary"], false, "{results}");
}

/// NS-05.
fn dev_holds_only_what_is_harmless(w: &World) {
    let allowed = ["fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"];
    let outcome = w.inside("ls -A /dev; ls -A /dev/pts /dev/shm | grep -vE '^(/dev.*|ptmx|)$'; true").ok();
    for name in outcome.stdout.lines() {
        assert!(allowed.contains(&name), "/dev/{name} is there");
    }
    for device in ["null", "zero", "full", "random", "urandom"] {
        assert!(outcome.stdout.lines().any(|l| l == device), "/dev/{device} is missing");
    }
    assert_eq!(w.inside("echo x > /dev/null; head -c 2 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c").ok().stdout, "2\n3\n");
}

/// NS-02.
fn mounts_of_the_host_are_the_same_afterwards(w: &World) {
    let own_mounts = || -> Vec<String> { w.mounts() };
    let name = w.new_sandbox("mounts");
    w.exec(&name, "mount -t tmpfs none /mnt; mount --bind /etc /mnt; true").ok();
    assert_eq!(own_mounts(), Vec::<String>::new(), "a living sandbox shows nothing in the mount table of the host");
    w.whatif(["rm", &name]).go().ok();
    assert_eq!(own_mounts(), Vec::<String>::new());
}

/// NS-02, the other direction; the "host" is a mount namespace of the test's own.
fn a_mount_made_outside_later_does_not_appear_inside(w: &World) {
    let place = w.dir.join("later");
    w.mkdir(&place);
    let script = format!(
        "{bin} new later >/dev/null 2>&1 && mount -t tmpfs none {p} && touch {p}/from-outside && ls {p} && \
         {bin} exec later -- ls {p} && {bin} rm later >/dev/null",
        bin = w.bin.display(),
        p = place.display()
    );
    let outcome = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]).go().ok();
    assert_eq!(outcome.text(), "from-outside", "seen once outside, never inside");
}

/// NS-08.
fn the_namespaces_of_another_sandbox_are_out_of_reach(w: &World) {
    needs!(w, "python3");
    let other = w.new_sandbox("neighbour");
    let keeper = w.json(["show", &other])["keeper_pid"].as_u64().expect("it runs");
    let program = format!(
        r#"
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
out = []
for pid in ({keeper}, 1):
    for kind in ("mnt", "user", "pid", "net"):
        try:
            fd = os.open(f"/proc/{{pid}}/ns/{{kind}}", os.O_RDONLY)
            r = libc.syscall({setns}, fd, 0)
            out.append("joined" if r >= 0 else errno.errorcode[ctypes.get_errno()])
        except OSError as e: out.append(errno.errorcode[e.errno])
print(json.dumps(out))
"#,
        setns = libc::SYS_setns
    );
    let results = w.python_inside(&program);
    assert!(results.as_array().expect("an array").iter().all(|r| r != "joined"), "{results}");
}

/// CG-08, as far as it is about mounts: no hierarchy is visible, so nothing in it can be written.
fn cgroups_are_out_of_reach(w: &World) {
    let script = "find /sys/fs/cgroup -type f 2>/dev/null | wc -l; mkdir /sys/fs/cgroup/x 2>/dev/null && echo made; \
                  mount -t cgroup -o memory cgroup /mnt 2>/dev/null && echo mounted; true";
    assert_eq!(w.inside(script).ok().text(), "0");
}

/// FS-10, FS-11: `no_new_privs` and an empty bounding set.
fn setuid_programs_gain_nothing(w: &World) {
    let script = "for p in /usr/bin/su /usr/bin/passwd /usr/bin/mount /usr/bin/newgrp; do test -u $p && echo found; done | head -1; \
                  cp /usr/bin/id ./suid-id 2>/dev/null; chmod u+s ./suid-id; ./suid-id -u";
    let outcome = w.inside(script).ok();
    let last = outcome.stdout.lines().last().expect("some output").to_owned();
    assert_eq!(last, if w.is_root() { "0".to_owned() } else { w.uid().to_string() });
    if !w.is_root() {
        assert_ne!(w.inside("su -c 'id -u' root </dev/null").stdout.trim(), "0");
    }
}
