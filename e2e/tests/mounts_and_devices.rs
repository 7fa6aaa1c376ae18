//! Attack group NS: mounts, devices, setuid.

use whatif_e2e::{Outcome, World, as_root, as_root_and_user, needs, not_on, on_other_backends};

as_root_and_user!(
    the_root_cannot_be_left,
    dev_holds_only_what_is_harmless,
    mounts_of_the_host_are_the_same_afterwards,
    the_namespaces_of_another_sandbox_are_out_of_reach,
    cgroups_are_out_of_reach,
    setuid_programs_gain_nothing,
);
on_other_backends!(
    the_root_cannot_be_left,
    dev_holds_only_what_is_harmless,
    mounts_of_the_host_are_the_same_afterwards,
    the_namespaces_of_another_sandbox_are_out_of_reach,
    cgroups_are_out_of_reach,
    setuid_programs_gain_nothing,
);
as_root!(
    a_mount_made_outside_later_does_not_appear_inside,
    a_mount_made_outside_later_is_no_obstacle,
    directories_beside_a_mount_may_come_and_go,
    closed_directories_of_others_are_nobodys_change,
    a_template_is_whole_although_directories_beside_a_mount_went,
);

mod a_mount_beneath_changes_over_fuse_is_waited_for {
    #[test]
    fn fuse_as_root() {
        whatif_e2e::World::with_backend(whatif_e2e::Who::Root, "fuse", super::a_mount_beneath_changes_over_fuse_is_waited_for);
    }
}

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

/// Its place is a plain directory in the sandbox so far.
fn a_mount_made_outside_later_is_no_obstacle(w: &World) {
    not_on!(w, "fuse", "a_mount_beneath_changes_over_fuse_is_waited_for instead");
    let script = "mkdir place; \"$0\" new later; \"$0\" exec later -- touch made; mount -t tmpfs none place; echo real > place/f; \"$0\" snapshot later; \
                  \"$0\" exec later -- sh -c 'cat place/f || echo not in the copy; echo own > place/g'; \"$0\" snapshot later; umount place; \
                  \"$0\" exec later -- cat place/g; \"$0\" rm --yes later";
    let outcome = in_own_namespace(w, script);
    let seen = if w.backend() == "copy" { "not in the copy\n" } else { "real\n" };
    assert!(outcome.stdout.contains(seen) && outcome.stdout.contains("own\n"), "{outcome:?}");
}

/// As for an ordinary user's overlays: what was changed stays with the directory it was changed in, and nothing of it is lost.
fn a_mount_beneath_changes_over_fuse_is_waited_for(w: &World) {
    let script = "mkdir place; \"$0\" new later; \"$0\" exec later -- sh -c 'echo own > made'; \"$0\" snapshot later; mount -t tmpfs none place; \
                  \"$0\" exec later -- true && exit 9; \"$0\" diff --name-only later; umount place; \
                  \"$0\" exec later -- cat made; \"$0\" rm --yes later";
    let outcome = in_own_namespace(w, script);
    assert!(outcome.stderr.contains("mounts beneath that came or went"), "{outcome:?}");
    assert!(outcome.stdout.contains("made\n") && outcome.stdout.contains("own\n"), "{outcome:?}");
}

/// A script in the project, in a mount namespace that the test has to itself.
#[track_caller]
fn in_own_namespace(w: &World, script: &str) -> Outcome {
    let unshare = ["--mount", "--propagation", "private", "/bin/sh", "-euc", script];
    w.program("/usr/bin/unshare").args(unshare).args([&w.bin]).go().ok()
}

/// Where a mount lies in a directory that an ordinary user may write, each of its subdirectories is put in place by itself. One that
/// comes or goes in the very moment may have a command refused (docs/internals/open-questions.md), which does nothing then; the
/// next try is another moment.
fn directories_beside_a_mount_may_come_and_go(w: &World) {
    needs!(w, "setpriv");
    let script = r#"
        mkdir -p theirs/project theirs/state shared/mount; chmod 755 .; chmod 777 shared; chown -R 65534:65534 theirs
        mount -t tmpfs none shared/mount
        while :; do mkdir shared/one shared/two; rmdir shared/one shared/two; done & churn=$!
        trap 'kill $churn' EXIT
        as_them() {
            for _ in 1 2 3; do
                code=0
                setpriv --reuid=65534 --regid=65534 --clear-groups env -C theirs/project HOME="$PWD/theirs" WHATIF_HOME="$PWD/theirs/state" "$@" || code=$?
                [ $code = 125 ] || break
            done
            return $code
        }
        as_them "$0" new --backend overlay s
        for round in 1 2 3 4 5 6 7 8; do
            as_them "$0" run --rm --quiet --backend overlay -- sh -c 'echo new > f'
            as_them "$0" snapshot s
            as_them "$0" exec s -- sh -c "echo $round >> g"
        done
        as_them "$0" stop s; as_them "$0" start s
        as_them "$0" exec s -- cat g
        as_them "$0" rm --yes s
    "#;
    let outcome = in_own_namespace(w, script);
    assert!(outcome.stdout.contains("1\n2\n3\n4\n5\n6\n7\n8\n"), "{outcome:?}");
}

/// An ordinary user in a mount namespace of the test's own, where a mount lies in a directory that all may write to, as in /var/tmp:
/// every directory beside it becomes a tree of the sandbox. `as` runs something as that user, in its project.
fn beside_a_mount(w: &World, script: &str) -> whatif_e2e::Outcome {
    let set_up = format!(
        "cd {dir}; mkdir -m 1777 shared; mkdir shared/mnt; mkdir -m 700 shared/closed; mkdir -m 711 shared/closed-to-lists; mkdir -p user/p user/state; \
         chown -R 65534:65534 user; mount -t tmpfs -o mode=1777 none shared/mnt; cd user/p; \
         as() {{ setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH=$PATH HOME={dir}/user WHATIF_HOME={dir}/user/state \"$@\"; }}",
        dir = w.dir.display()
    );
    let script = format!("{set_up}\n{script}");
    w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-euc", &script]).args([&w.bin]).go()
}

fn closed_directories_of_others_are_nobodys_change(w: &World) {
    let script = "as \"$0\" run --keep --name n -- sh -c 'echo x > a; echo o > ~/outside'; as \"$0\" --json diff n; \
        as \"$0\" apply n --yes --outside >&2; cat a ../outside; as \"$0\" rm n >&2";
    let outcome = beside_a_mount(w, script).ok();
    let mut lines = outcome.stdout.lines();
    let document: serde_json::Value = lines.next().and_then(|line| serde_json::from_str(line).ok()).expect("a document");
    assert!(!document["unreadable"].to_string().contains("closed"), "{document:#}");
    assert!(!outcome.stderr.contains("could not be read"), "{}", outcome.stderr);
    assert_eq!(lines.collect::<Vec<_>>(), ["x", "o"]);
}

/// Trees go by number, and a number stands for the same tree in everything that is made of the same layers.
fn a_template_is_whole_although_directories_beside_a_mount_went(w: &World) {
    let script = r#"
        mkdir ../../shared/aaa
        as "$0" new s --backend overlay; as "$0" exec s -- sh -c 'mkdir deps; echo one > deps/one'
        as "$0" template save s t
        rmdir ../../shared/aaa; mkdir ../../shared/aab
        as "$0" new a --template t; as "$0" exec a -- sh -c 'cat deps/one; echo two > deps/two'
        as "$0" diff a --name-only
        as "$0" snapshot a; as "$0" exec a -- cat deps/one deps/two
        as "$0" stop a; as "$0" start a; as "$0" exec a -- cat deps/one deps/two
        as "$0" fork a k; as "$0" exec k -- cat deps/one deps/two
        as "$0" apply a --yes --all
        cat deps/one deps/two
        as "$0" rm --yes s a k
    "#;
    let outcome = beside_a_mount(w, script).ok();
    let lines: Vec<&str> = outcome.stdout.lines().filter(|l| ["one", "two"].contains(l) || l.contains("deps/")).collect();
    let twice = ["one", "two"].repeat(4);
    assert_eq!(lines, [["one", "deps/one", "deps/two"].to_vec(), twice].concat(), "{outcome:?}");
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
