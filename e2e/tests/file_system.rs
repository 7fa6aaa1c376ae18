//! Attack group FS: file system containment.

use std::os::unix::fs::PermissionsExt;

use whatif_e2e::{World, as_root_and_user, needs, on_other_backends};

const SECRET: &str = "canary-7d1f-secret";

as_root_and_user!(
    secrets_of_the_home_are_absent,
    package_settings_are_shown_without_credentials,
    secrets_are_absent_under_every_alias,
    secrets_created_later_stay_absent,
    secrets_stay_absent_when_their_parent_is_renamed,
    password_hashes_are_absent,
    the_state_directory_is_invisible,
    a_symlink_to_the_system_is_written_inside_only,
    a_hostile_working_directory_widens_nothing,
    no_device_can_be_made,
    no_file_can_be_opened_by_handle,
    setuid_files_made_inside_are_out_of_reach_outside,
    sparse_and_mapped_files_do_not_confuse_anything,
    a_copy_out_does_not_follow_links,
);
on_other_backends!(
    secrets_of_the_home_are_absent,
    secrets_created_later_stay_absent,
    no_device_can_be_made,
    secrets_are_absent_under_every_alias,
    secrets_stay_absent_when_their_parent_is_renamed,
    password_hashes_are_absent,
    a_symlink_to_the_system_is_written_inside_only,
    no_file_can_be_opened_by_handle,
    setuid_files_made_inside_are_out_of_reach_outside,
    a_copy_out_does_not_follow_links,
);

/// The kinds of credentials that are hidden without being asked.
const CREDENTIALS: [&str; 16] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".gnupg/private-keys-v1.d/key",
    ".netrc",
    ".kube/config",
    ".config/gcloud/credentials.db",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".pypirc",
    ".cargo/credentials.toml",
    ".mozilla/firefox/logins.json",
    ".config/google-chrome/Cookies",
    ".bash_history",
    ".python_history",
    ".claude/credentials.json",
    ".claude.json",
];

fn with_credentials(w: &World) {
    for path in CREDENTIALS {
        w.write(w.home.join(path), SECRET);
    }
}

/// FS-02.
fn secrets_of_the_home_are_absent(w: &World) {
    with_credentials(w);
    w.write(w.home.join("ordinary"), "visible");
    let outcome =
        w.inside(&format!("cd ~; cat ordinary; cat {} 2>&1; grep -r {SECRET} . 2>/dev/null; true", CREDENTIALS.join(" "))).ok();
    assert!(outcome.stdout.starts_with("visible"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains(SECRET), "a secret is readable: {}", outcome.stdout);
    assert_eq!(outcome.stdout.matches("No such file").count(), CREDENTIALS.len(), "{}", outcome.stdout);
}

/// Where packages come from is no secret, and needed to install any.
fn package_settings_are_shown_without_credentials(w: &World) {
    w.write(
        w.home.join(".npmrc"),
        format!(
            "registry=https://u:{SECRET}@npm.example.org/\n  //npm.example.org/:_authToken={SECRET}\nnodedir=/usr/include/nodejs\n\
             cache=/data/npm\nsome-secret={SECRET}\nfund=false\r_auth={SECRET}\n"
        ),
    );
    w.write(
        w.home.join(".config/pip/pip.conf"),
        format!(
            "[global]\nindex-url = https://u:{SECRET}@pypi.example.org/simple\ncache-dir = /data/pip\n\
             client-cert = {SECRET}\n[install]\n  password = {SECRET}\n"
        ),
    );
    let outcome = w.inside("cd ~; cat .npmrc .config/pip/pip.conf").ok();
    assert!(!outcome.stdout.contains(SECRET), "a secret is readable: {}", outcome.stdout);
    for kept in [
        "registry=https://npm.example.org/",
        "nodedir=/usr/include/nodejs",
        "cache=/data/npm",
        "fund=false",
        "index-url = https://pypi.example.org/simple",
        "cache-dir = /data/pip",
    ] {
        assert!(outcome.stdout.lines().any(|line| line == kept), "{kept}: {}", outcome.stdout);
    }
}

/// FS-03: the same file by another name.
fn secrets_are_absent_under_every_alias(w: &World) {
    with_credentials(w);
    let secret = w.home.join(".ssh/id_ed25519");
    let (path, home) = (secret.display(), w.home.display());
    let aliases = [
        format!("/proc/self/root{path}"),
        format!("/proc/1/root{path}"),
        "/proc/self/cwd/../.ssh/id_ed25519".to_string(),
        format!("/{path}"),
        format!("{home}/.//.ssh///id_ed25519"),
        format!("{home}/project/.././.ssh/id_ed25519"),
        format!("{home}/.ssh/id_ed25519/"),
        "/proc/self/fd/../cwd/../.ssh/id_ed25519".to_string(),
        format!("/proc/thread-self/root{path}"),
    ];
    let outcome = w.inside(&format!("for p in {}; do cat \"$p\" && echo READ; done; true", aliases.join(" "))).ok();
    assert!(!outcome.stdout.contains("READ") && !outcome.stdout.contains(SECRET), "{}", outcome.stdout);
    let failures = outcome.stderr.lines().filter(|l| l.starts_with("cat:")).count();
    assert_eq!(failures, aliases.len(), "each was really tried: {}", outcome.stderr);
}

/// FS-02: signing in somewhere while a sandbox lives must not show inside.
fn secrets_created_later_stay_absent(w: &World) {
    let name = w.new_sandbox("later");
    assert_ne!(w.exec(&name, "cat ~/.ssh/id_rsa").code, 0);
    // Also in directories that come with them, and in files that would be shown rewritten.
    let secrets = [".ssh/id_rsa", ".netrc", ".cargo/credentials.toml", ".docker/config.json", ".npmrc", ".gitconfig"];
    for path in secrets {
        w.write(w.home.join(path), SECRET);
    }
    w.write(w.home.join("plain"), "seen");
    let outcome = w.exec(&name, &format!("cd ~; cat {} 2>/dev/null; cat plain", secrets.join(" ")));
    // Fuse-overlayfs may remember what was in the root of a tree.
    let is_stale = outcome.stdout.is_empty() && w.backend() == "fuse";
    assert!(is_stale || outcome.stdout == "seen", "an ordinary new file is seen, the secrets are not: {outcome:?}");
}

/// FS-05: a rename of an ancestor must not lift the mask.
fn secrets_stay_absent_when_their_parent_is_renamed(w: &World) {
    with_credentials(w);
    let script = format!(
        "cd ~ && mv .config moved 2>/dev/null; mkdir -p .config; cd / && (mv {h} {h}-moved || cp -r {h} {h}-copied) 2>/dev/null; \
         grep -rl {SECRET} {h}* 2>/dev/null; cat ~/moved/gh/hosts.yml {h}-moved/.ssh/id_ed25519 2>/dev/null; echo end",
        h = w.home.display()
    );
    assert_eq!(w.inside(&script).ok().text(), "end");
}

/// FS-02: users are there, their password hashes are not.
fn password_hashes_are_absent(w: &World) {
    let outcome = w.inside("cat /etc/shadow /etc/shadow- /etc/gshadow 2>/dev/null | cut -d: -f2 | grep -E '^.{4}' ; test -r /etc/passwd && echo end").ok();
    assert_eq!(outcome.text(), "end", "no password field longer than '*' is readable");
    if w.is_root() {
        assert_eq!(w.inside("grep -c ^root: /etc/shadow").ok().text(), "1", "package managers need the users in it");
    }
}

/// FS-15: neither our own layers nor those of other sandboxes.
fn the_state_directory_is_invisible(w: &World) {
    w.write("mark", SECRET);
    let other = w.new_sandbox("other");
    w.exec(&other, &format!("echo {SECRET}-in-the-other > other-file")).ok();
    let state = w.state.display();
    assert!(w.state.join("state.db").exists());
    let script = format!(
        "ls -A {state} 2>/dev/null; for p in /proc/*/root; do ls -A $p{state} 2>/dev/null; done; find {dir} -name other-file 2>/dev/null; \
         find {dir} -name 'state.db*' 2>/dev/null; cat {state}/state.db 2>/dev/null; echo end",
        dir = w.dir.display()
    );
    assert_eq!(w.inside(&script).ok().text(), "end");
    let mode = std::fs::metadata(w.state.join("sandboxes")).expect("it exists").permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else may look into the layers: {mode:o}");
}

/// FS-06.
fn a_symlink_to_the_system_is_written_inside_only(w: &World) {
    let target = w.write(w.dir.join("outside-target"), "original");
    w.outside(&format!("ln -s {} link", target.display())).ok();
    w.inside("echo overwritten > link; cat link").ok();
    assert_eq!(w.read(&target), "original");
}

/// FS-09: the writable part does not depend on where the command starts.
fn a_hostile_working_directory_widens_nothing(w: &World) {
    let marker = format!("whatif-e2e-marker-{}", std::process::id());
    for cwd in ["/", "/etc", ".."] {
        let script = format!(
            "echo x > {marker}; echo x > /etc/{marker}; echo x > /usr/{marker}; cd /proc && cd .. && echo x > {marker}; true"
        );
        let outcome = w.whatif(["run", "--rm", "--quiet", "--cwd", cwd, "--", "/bin/sh", "-c", &script]).go();
        // A user cannot copy what it cannot read.
        assert!(outcome.code == 0 || outcome.stderr.contains("the project cannot be copied"), "{outcome:?}");
    }
    for place in ["/", "/etc", "/usr", w.home.to_str().expect("text"), w.project.to_str().expect("text")] {
        assert!(!std::path::Path::new(place).join(&marker).exists(), "{place}");
    }
}

/// FS-13: whiteouts, memory and disks.
fn no_device_can_be_made(w: &World) {
    needs!(w, "python3");
    let program = r#"
import os, stat, errno, json
out = {}
for name, kind, dev in [("whiteout", stat.S_IFCHR, (0, 0)), ("mem", stat.S_IFCHR, (1, 1)), ("disk", stat.S_IFBLK, (254, 0)), ("kmsg", stat.S_IFCHR, (1, 11))]:
    for place in (".", "/tmp", "/dev/shm"):
        path = place + "/" + name
        try:
            os.mknod(path, kind | 0o666, os.makedev(*dev))
            out[path] = "made"
            os.close(os.open(path, os.O_RDONLY))
            out[path] = "opened"
        except OSError as e:
            if out.get(path) != "made": out[path] = errno.errorcode[e.errno]
os.mkfifo("fifo")
out["fifo"] = os.stat("fifo").st_nlink
print(json.dumps(out))
"#;
    let results = w.python_inside(program);
    assert!(results["fifo"].as_u64() > Some(0), "ordinary special files can be made");
    for (path, result) in results.as_object().expect("an object") {
        // A whiteout (0:0) is no device and opens nothing; in memory it is allowed, in a tree it could forge a deletion. In a copy
        // it deletes nothing; fuse-overlayfs does not show it.
        let is_no_layer = !path.starts_with("./") || w.backend() == "copy";
        let is_lost = w.backend() == "fuse" && path == "./whiteout" && result == "ENOENT";
        let harmless =
            path == "fifo" || result == "EPERM" || is_lost || (path.ends_with("/whiteout") && is_no_layer && result == "made");
        assert!(harmless, "{path}: {result}");
    }
}

/// FS-14 (Shocker).
fn no_file_can_be_opened_by_handle(w: &World) {
    needs!(w, "python3");
    let program = format!(
        r#"
import ctypes, errno, json, struct
libc = ctypes.CDLL(None, use_errno=True)
out = []
for inode in (2, 1, 128):
    handle = struct.pack("=IiII", 8, 1, inode, 0)
    for fd in (0, -100):
        r = libc.syscall({number}, fd, handle, 0)
        out.append(errno.errorcode[ctypes.get_errno()] if r < 0 else "opened")
print(json.dumps(out))
"#,
        number = libc::SYS_open_by_handle_at
    );
    let results = w.python_inside(&program);
    assert!(results.as_array().expect("an array").iter().all(|r| r == "EPERM"), "{results}");
}

/// FS-10: an upper directory is a path of reality; nobody else may run what lies in it.
fn setuid_files_made_inside_are_out_of_reach_outside(w: &World) {
    let name = w.new_sandbox("setuid");
    w.exec(&name, "cp /bin/sh suid-shell && chmod 4755 suid-shell").ok();
    let directory = w.json(["show", &name])["directory"].as_str().expect("it has a directory").to_owned();
    let found = w.outside(&format!("find {directory} -name suid-shell 2>/dev/null")).text().to_owned();
    assert!(!found.is_empty(), "the head holds it");
    let others_may_pass = std::path::Path::new(&found)
        .ancestors()
        .skip(1)
        .take_while(|a| a.starts_with(&w.dir))
        .all(|a| std::fs::metadata(a).is_ok_and(|m| m.permissions().mode() & 0o011 != 0));
    assert!(!others_may_pass, "every directory above {found} can be entered by others");
    assert_eq!(w.exec(&name, "./suid-shell -p -c 'grep NoNewPrivs /proc/self/status | cut -f2'").ok().text(), "1");
}

/// FS-17.
fn sparse_and_mapped_files_do_not_confuse_anything(w: &World) {
    needs!(w, "python3");
    let program = r#"
import mmap, os, signal
f = os.open("sparse", os.O_RDWR | os.O_CREAT)
size = 1 << 40
while True:
    try: os.ftruncate(f, size); break
    except OSError: size >>= 1
m = os.open("mapped", os.O_RDWR | os.O_CREAT); os.ftruncate(m, 4096)
view = mmap.mmap(m, 4096); view[:5] = b"hello"
os.kill(os.getpid(), signal.SIGKILL)
"#;
    let document =
        w.whatif(["--json", "run", "--keep", "--name", "sparse", "--", "/usr/bin/python3", "-c", program]).go().exits(137).json();
    assert_eq!(document["changes"]["changed_files"], 2, "{document}");
    assert!(document["changes"]["size_bytes"].as_u64().expect("a size") < 1 << 20, "holes are not counted: {document}");
    w.whatif(["start", "sparse"]).go().ok();
    assert_eq!(w.exec("sparse", "head -c 5 mapped").ok().text(), "hello");
}

/// FS-06, our side: a link made inside leads nowhere outside.
fn a_copy_out_does_not_follow_links(w: &World) {
    let secret = w.write(w.dir.join("private"), SECRET);
    let name = w.new_sandbox("links");
    w.exec(&name, &format!("mkdir d && ln -s {} d/link && ln -s /etc/passwd passwd && echo real > d/file", secret.display())).ok();
    w.whatif(["cp", "links:d", "copied"]).go().exits(1).says("d/link");
    assert_eq!(w.read("copied/file"), "real\n");
    assert!(!w.project.join("copied/link").exists(), "links that lead out are not carried across");
    w.whatif(["cp", "links:passwd", "passwd"]).go();
    assert!(std::fs::symlink_metadata(w.project.join("passwd")).is_ok_and(|m| m.is_file()) || !w.project.join("passwd").exists());
}
