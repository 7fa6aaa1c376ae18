//! What the user grants by name: devices, cards, user namespaces. Nothing of it is there by itself.

use std::path::Path;

use serde_json::{Value, json};
use whatif_e2e::{OuterRoot, World, as_root, as_root_and_user, needs};

as_root_and_user!(
    no_device_comes_by_itself,
    dangerous_devices_are_refused_by_name,
    what_is_no_device_is_refused,
    without_a_driver_it_is_said_what_was_looked_for,
    a_project_grants_nothing,
    user_namespaces_are_denied_unless_allowed,
    what_is_allowed_is_told_and_shown,
);
as_root!(a_granted_device_works_for_root_and_user, a_closed_device_is_open_to_root_inside, cards_are_granted_by_number);

/// Plants devices with harmless numbers (those of `null` and `zero`) in a `/dev` of its own, and runs a script there.
fn with_devices(w: &World, script: &str) -> String {
    let plant = r#"
set -e
mkdir /tmp/dev && for name in null zero full random urandom tty; do touch /tmp/dev/$name; mount --bind /dev/$name /tmp/dev/$name; done
mkdir /tmp/dev/pts /tmp/dev/shm && mount --rbind /dev/pts /tmp/dev/pts && ln -s pts/ptmx /tmp/dev/ptmx
mount --move /tmp/dev /dev 2>/dev/null || mount --rbind /tmp/dev /dev
mknod -m 666 /dev/gadget c 1 5
mknod -m 600 /dev/for-root c 1 5
mkdir /dev/by-id && ln -s ../gadget /dev/by-id/my-gadget
mknod -m 600 /dev/disk b 7 0
mknod -m 666 /dev/memory c 1 1
for name in nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-uvm-tools; do mknod -m 666 /dev/$name c 1 5; done
mkdir /dev/nvidia-caps && mknod -m 400 /dev/nvidia-caps/nvidia-cap1 c 1 5 && mknod -m 444 /dev/nvidia-caps/nvidia-cap2 c 1 5
mkdir -p /home/somebody/project /home/somebody/state && chown -R 65534:65534 /home/somebody && cd /home/somebody/project
mkdir /root/project
root() { (cd /root/project && "$WHATIF" "$@"); }
user() { setpriv --reuid 65534 --regid 65534 --clear-groups env -i PATH="$PATH" HOME=/home/somebody WHATIF_HOME=/home/somebody/state "$WHATIF" "$@"; }
"#;
    let clear = "for who in root user; do $who rm --all --yes > /dev/null 2>&1; done";
    OuterRoot::of(w).script(&format!("WHATIF={}\n{plant}\n{script}\n{clear}", w.bin.display())).ok().stdout
}

fn no_device_comes_by_itself(w: &World) {
    let inside = w.inside("find /dev -type b; find /dev -type c | sort").ok();
    for line in inside.stdout.lines() {
        let is_usual = ["null", "zero", "full", "random", "urandom", "tty"].iter().any(|name| line == format!("/dev/{name}"));
        assert!(is_usual || line.starts_with("/dev/pts"), "{line}");
    }
}

fn refused(w: &World, options: &[&str]) -> (i32, Value) {
    let outcome = w.whatif(["--json", "run"]).args(options).args(["--", "true"]).go();
    let document: Value = serde_json::from_str(&outcome.stderr).unwrap_or_else(|e| panic!("{e}: {}", outcome.stderr));
    (outcome.code, document["error"].clone())
}

fn dangerous_devices_are_refused_by_name(w: &World) {
    for path in ["/dev/mem", "/dev/kmsg", "/dev/console", "/dev/loop-control", "/dev/vda", "/dev/sda", "/dev/loop0"] {
        if !Path::new(path).exists() {
            continue;
        }
        let (code, error) = refused(w, &["--device", path]);
        assert_ne!(code, 0, "{path}");
        assert_eq!(error["code"], "bad_device", "{path}: {error}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains(path)), "{error}");
    }
}

fn what_is_no_device_is_refused(w: &World) {
    w.write(w.project.join("file"), "");
    for (path, words) in [
        ("/dev/not-there", "there is no device"),
        ("/etc/passwd", "not below /dev"),
        ("/dev/../etc/passwd", "not below /dev"),
        ("file", "not below /dev"),
        ("/dev", "not below /dev"),
        ("/dev/shm", "shared memory of its own"),
    ] {
        let (code, error) = refused(w, &["--device", path]);
        assert_ne!(code, 0, "{path}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains(words)), "{path}: {error}");
    }
    // These name something else in each process.
    for path in ["/dev/stdin", "/dev/stdout", "/dev/fd/0", "/dev/pts/ptmx", "/dev/shm/x"] {
        let (code, error) = refused(w, &["--device", path]);
        let said = error["message"].as_str().unwrap_or_default();
        assert!(code == 125 && error["code"] == "bad_device" && said.contains("is not passed into a sandbox"), "{path}: {error}");
    }
    // One that every sandbox has is no trouble.
    w.whatif(["run", "--device", "/dev/null", "--", "true"]).go().ok();
}

fn without_a_driver_it_is_said_what_was_looked_for(w: &World) {
    if Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let (code, error) = refused(w, &["--gpu", "all"]);
    assert_ne!(code, 0);
    assert_eq!(error["code"], "no_gpu");
    assert!(error["message"].as_str().is_some_and(|said| said.contains("/dev/nvidia0")), "{error}");
    let outcome = w.whatif(["run", "--gpu=python3", "--", "true"]).go();
    assert!(outcome.code != 0 && outcome.stderr.contains("expected 'all' or the numbers of cards"), "{}", outcome.stderr);
}

/// Whatever runs in a project can write its file.
fn a_project_grants_nothing(w: &World) {
    for text in ["[grants]\ndevices = [\"/dev/null\"]\n", "[grants]\ngpu = \"all\"\n", "[grants]\nallow = [\"userns\"]\n"] {
        w.write(w.project.join(".whatif.toml"), text);
        let outcome = w.whatif(["run", "--", "true"]).go();
        assert!(outcome.code != 0 && outcome.stderr.contains("grants"), "{}", outcome.stderr);
    }
}

fn a_granted_device_works_for_root_and_user(w: &World) {
    needs!(w, "setpriv");
    let said = with_devices(
        w,
        r#"
for who in root user; do
    echo "$who"
    $who run --quiet --device /dev/gadget -- sh -c 'head -c 3 /dev/gadget | wc -c; stat -c "%F %t:%T" /dev/gadget; ls /dev/nvidia* /dev/disk 2>/dev/null; true'
    $who run --quiet --device /dev/by-id/my-gadget -- sh -c 'head -c 3 /dev/by-id/my-gadget | wc -c; test -c /dev/gadget && echo both'
    $who new --device /dev/gadget kept 2>&1 | grep -c 'the real device'
    $who --json show kept | python3 -c 'import json, sys; print(json.load(sys.stdin)["details"]["grants"])'
    $who show kept | grep -c /dev/gadget
    $who exec kept -- test -c /dev/gadget
    $who stop kept > /dev/null 2>&1; $who start kept > /dev/null 2>&1; $who exec kept -- head -c 2 /dev/gadget | wc -c
    $who fork kept forked > /dev/null 2>&1; $who exec forked -- test -c /dev/gadget && echo forked
    for path in /dev/disk /dev/memory; do $who run --device $path -- true 2>&1 | grep -c 'is not passed into a sandbox'; done
done
root run --quiet --device /dev/for-root -- sh -c 'head -c 3 /dev/for-root | wc -c'
user run --device /dev/for-root -- true 2>&1 | grep -c 'you cannot open /dev/for-root yourself'
"#,
    );
    let of_each = "3\ncharacter special file 1:5\n3\nboth\n1\n{'devices': ['/dev/gadget']}\n1\n2\nforked\n1\n1\n";
    assert_eq!(said, format!("root\n{of_each}user\n{of_each}3\n1\n"));
}

/// Root inside is somebody else outside, whom the device itself would be closed to.
fn a_closed_device_is_open_to_root_inside(w: &World) {
    let device = Planted::new();
    let path = device.0.as_str();
    let read = format!("head -c 3 {path} | wc -c; stat -c '%a %u:%g %t:%T' {path}");
    let inside = w.whatif(["run", "--quiet", "--device", path, "--", "/bin/sh", "-c", &read]).go().ok();
    assert_eq!(inside.stdout, "3\n600 0:0 1:5\n");
    assert_ne!(w.inside(&format!("test -e {path}")).code, 0);
}

/// A device in the real `/dev`, which is root's alone and reads zeros.
struct Planted(String);

impl Planted {
    fn new() -> Self {
        let path = format!("/dev/whatif-e2e-{}", std::process::id());
        let made = std::process::Command::new("mknod").args(["-m", "600", &path, "c", "1", "5"]).status();
        assert!(made.is_ok_and(|status| status.success()), "{path} can be made");
        Self(path)
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn cards_are_granted_by_number(w: &World) {
    needs!(w, "setpriv");
    let said = with_devices(
        w,
        r#"
list='cd /dev; ls -d nvidia* nvidia-caps/* | tr "\n" " "; head -c 2 nvidiactl | wc -c'
for who in root user; do
    echo "$who"
    $who run --quiet --gpu all -- sh -c "$list"
    $who run --quiet --gpu 1 -- sh -c "$list"
    $who run --gpu 7 -- true 2>&1 | grep -o 'there is no card 7; there are /dev/nvidia0, /dev/nvidia1'
    $who run --gpu -- true 2>&1 | grep -c 'the NVIDIA driver is within reach (all cards)'
    $who run --gpu -- true 2>&1 | grep -c 'libcuda.so.1, the driver'
done
"#,
    );
    let missing = i32::from(!Path::new("/usr/lib/x86_64-linux-gnu/libcuda.so.1").exists());
    let of = |caps: &str| {
        let shared = format!("nvidia-caps {caps} nvidia-uvm nvidia-uvm-tools");
        format!(
            "{shared} nvidia0 nvidia1 nvidiactl 2\n{shared} nvidia1 nvidiactl 2\n\
             there is no card 7; there are /dev/nvidia0, /dev/nvidia1\n1\n{missing}\n"
        )
    };
    // One of them is for root only.
    let (root, user) = (of("nvidia-caps/nvidia-cap1 nvidia-caps/nvidia-cap2"), of("nvidia-caps/nvidia-cap2"));
    assert_eq!(said, format!("root\n{root}user\n{user}"));
}

fn user_namespaces_are_denied_unless_allowed(w: &World) {
    needs!(w, "unshare");
    assert_ne!(w.inside("unshare -U true").code, 0);
    let inside = "unshare -U true && unshare -Ur id -u && unshare -Urm sh -c 'mount -t tmpfs none /mnt && touch /mnt/x && ls /mnt'";
    let allowed = w.whatif(["run", "--allow", "userns", "--", "/bin/sh", "-c", inside]).go().ok();
    assert_eq!(allowed.stdout, "0\nx\n");
    // What is masked stays masked, and what is real stays as it is.
    w.write(w.home.join(".ssh/id_ed25519"), "canary-secret");
    let hostile = "unshare -Urm sh -c 'umount ~/.ssh; umount -l /proc; umount -l /; mount -o remount,rw /proc/sys; \
                   mkdir -p /tmp/o /tmp/u /tmp/w; mount -t overlay o -o lowerdir=$HOME,upperdir=/tmp/u,workdir=/tmp/w /tmp/o; \
                   mount --bind / /tmp/o; cat ~/.ssh/id_ed25519 /tmp/o$HOME/.ssh/id_ed25519 /tmp/o/.ssh/id_ed25519; \
                   echo x > /proc/sys/kernel/core_pattern; echo x > /proc/sysrq-trigger; cat /proc/kmsg /proc/kcore' 2>/dev/null; true";
    let tried = w.whatif(["run", "--allow", "userns", "--", "/bin/sh", "-c", hostile]).go();
    assert!(!tried.stdout.contains("canary"), "{}", tried.stdout);
    let program = r#"
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, *arguments):
    return "worked" if getattr(libc, name)(*arguments) == 0 else errno.errorcode[ctypes.get_errno()]
print(json.dumps([tried("mount", b"none", b"/mnt", b"tmpfs", 0, None), tried("umount2", b"/proc", 2), tried("setns", 0, 0) != "worked"]))
"#;
    let outside_any = w.whatif(["run", "--allow", "userns", "--", "/usr/bin/python3", "-c", program]).go().ok();
    assert_eq!(outside_any.text(), r#"["EPERM", "EPERM", true]"#);
}

fn what_is_allowed_is_told_and_shown(w: &World) {
    let made = w.whatif(["new", "weaker", "--allow", "userns"]).go().ok();
    assert!(made.stderr.contains("confinement is weaker"), "{}", made.stderr);
    assert_eq!(w.show("weaker")["details"]["grants"], json!({ "allow": ["userns"] }));
    let shown = w.whatif(["show", "weaker"]).go().ok().stdout;
    assert!(shown.contains("user namespaces"), "{shown}");
    // A sandbox that nothing was granted to says nothing of grants.
    w.whatif(["new", "usual"]).go().ok();
    assert_eq!(w.show("usual")["details"]["grants"], Value::Null);
    assert_ne!(w.exec("usual", "unshare -U true").code, 0);
    w.whatif(["stop", "weaker"]).go().ok();
    w.whatif(["start", "weaker"]).go().ok();
    assert_eq!(w.exec("weaker", "unshare -U true && echo still").ok().text(), "still");
    // The user's own configuration may.
    w.write(w.home.join(".config/whatif/config.toml"), "[grants]\nallow = [\"userns\"]\n");
    assert_eq!(w.inside("unshare -U true && echo allowed").ok().text(), "allowed");
}
