//! Reality stays bit for bit the same, whatever a command does.

use whatif_e2e::{OuterRoot, World, as_root, as_root_and_user, assert_same, canary, needs};

as_root_and_user!(
    vandalism_by_absolute_path_changes_nothing,
    what_was_done_inside_is_seen_inside,
    an_emptied_home_of_thousands_of_files_is_whole_outside,
    dirty_untracked_and_ignored_files_are_there,
    files_keep_their_inode_and_times,
);
as_root!(a_destroyed_system_is_whole_outside, the_system_is_writable_inside, owners_inside_are_true_and_harmless_outside);

/// FS-01: every kind of change to a file of reality.
fn vandalism_by_absolute_path_changes_nothing(w: &World) {
    needs!(w, "python3");
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        w.write(format!("canary/{name}"), format!("content of {name}\n"));
    }
    w.outside("ln -s a canary/link && mkdir canary/dir && echo x > canary/dir/x && setfattr -n user.k -v v canary/a || true");
    let before = canary(&[&w.home]);
    let program = r#"
import os, json
c = os.path.join(os.environ["HOME"], "project/canary")
os.chdir("/")
done = []
def act(name, f):
    f(); done.append(name)
act("write",    lambda: open(c + "/a", "w").write("changed"))
act("append",   lambda: open(c + "/b", "a").write("more"))
act("truncate", lambda: os.truncate(c + "/c", 0))
act("chmod",    lambda: os.chmod(c + "/d", 0o600))
act("utimes",   lambda: os.utime(c + "/e", (1, 1)))
act("setxattr", lambda: os.setxattr(c + "/f", "user.canary", b"x"))
act("unlink",   lambda: os.unlink(c + "/g"))
act("rename",   lambda: os.rename(c + "/h", c + "/hh"))
act("link",     lambda: os.link(c + "/i", c + "/ii"))
act("relink",   lambda: (os.unlink(c + "/link"), os.symlink("/etc/passwd", c + "/link")))
act("mkdir",    lambda: os.mkdir(c + "/new"))
act("rmdir",    lambda: (os.unlink(c + "/dir/x"), os.rmdir(c + "/dir")))
act("chown",    lambda: os.chown(c + "/a", os.getuid(), os.getgid()))
print(json.dumps(done))
"#;
    let done = w.python_inside(program);
    assert_eq!(done.as_array().map(Vec::len), Some(13), "everything works inside: {done}");
    assert_same(&before, &canary(&[&w.home]));
}

fn what_was_done_inside_is_seen_inside(w: &World) {
    w.write("notes.txt", "old\n");
    let name = w.new_sandbox("seen");
    w.exec(&name, "echo new > notes.txt && rm -f gone && echo more > added").ok();
    assert_eq!(w.exec(&name, "cat notes.txt added").ok().stdout, "new\nmore\n");
    assert_eq!(w.read("notes.txt"), "old\n");
    assert!(!w.project.join("added").exists());
}

fn an_emptied_home_of_thousands_of_files_is_whole_outside(w: &World) {
    let fill = "cd ~ && for d in 1 2 3 4 5 6 7 8 9 10; do mkdir d$d && for n in $(seq 300); do echo $d $n > d$d/f$n; done; done";
    w.outside(fill).ok();
    let before = canary(&[&w.home]);
    assert!(before.len() > 3000);
    let outcome = w.whatif(["run", "--rm", "--cwd", "/", "--", "/bin/sh", "-c", "rm -rf ~/*; ls ~ | wc -l"]).go().ok();
    assert_eq!(outcome.text(), "0", "inside, the home is empty");
    assert_same(&before, &canary(&[&w.home]));
}

fn dirty_untracked_and_ignored_files_are_there(w: &World) {
    needs!(w, "git");
    let set_up = "git init -q . && git config user.email a@b && git config user.name n && echo 1 > tracked && echo ignored > .gitignore \
                  && git add . && git commit -qm one && echo 2 > tracked && echo u > untracked && echo i > ignored";
    w.outside(set_up).ok();
    assert_eq!(w.inside("cat tracked untracked ignored").ok().stdout, "2\nu\ni\n");
    assert_eq!(w.inside("git status --short").ok().stdout, w.outside("git status --short").ok().stdout);
}

/// Tools that trust inode and ctime (git's index, build systems) must not see everything as changed.
fn files_keep_their_inode_and_times(w: &World) {
    let file = w.write("stamped", "x");
    let stat = format!("stat -c '%i %Y %Z %s %a' {}", file.display());
    assert_eq!(w.inside(&stat).ok().stdout, w.outside(&stat).ok().stdout);
}

/// The destruction of issue 2, in an outer throw-away root.
fn a_destroyed_system_is_whole_outside(w: &World) {
    needs!(w, "python3", "dpkg");
    w.write("canary.py", CANARY_PROGRAM);
    let whatif = w.bin.display();
    let remove = if w.outside("dpkg -s bubblewrap >/dev/null 2>&1").code == 0 {
        "apt-get remove -y --purge bubblewrap >/dev/null 2>&1; test ! -e /usr/bin/bwrap || echo bubblewrap stays;"
    } else {
        ""
    };
    let destroy = format!("{remove} rm -rf /etc /usr/bin/perl; ls -d /etc /usr/bin/perl 2>/dev/null; true");
    let canary = format!(
        "/usr/bin/python3 {}/canary.py /etc /usr/bin/perl /usr/bin/bwrap /var/lib/dpkg {}",
        w.project.display(),
        w.home.display()
    );
    let script =
        format!("cd {p} && {canary} && {whatif} run --rm --quiet -- /bin/sh -c '{destroy}'; {canary}", p = w.project.display());
    let outcome = OuterRoot::of(w).script(&script).ok();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(
        lines.len(),
        2,
        "inside, everything is gone, and a hash comes before and after: {} {}",
        outcome.stdout,
        outcome.stderr
    );
    assert_eq!(lines[0], lines[1], "reality was touched");
}

const CANARY_PROGRAM: &str = r#"
import hashlib, os, sys
digest, count = hashlib.sha256(), 0
def visit(path):
    global count
    count += 1
    s = os.lstat(path)
    attributes = [(n, os.getxattr(path, n, follow_symlinks=False)) for n in sorted(os.listxattr(path, follow_symlinks=False))]
    digest.update(repr((path, s.st_mode, s.st_uid, s.st_gid, s.st_nlink, s.st_size, s.st_mtime_ns, s.st_ctime_ns, attributes)).encode())
    if os.path.islink(path): digest.update(os.readlink(path).encode())
    elif os.path.isdir(path):
        for name in sorted(os.listdir(path)): visit(os.path.join(path, name))
    elif os.path.isfile(path): digest.update(open(path, "rb").read())
for root in sys.argv[1:]:
    if os.path.lexists(root): visit(root)
assert count > 100
print(digest.hexdigest(), count)
"#;

fn the_system_is_writable_inside(w: &World) {
    let marker = format!("whatif-e2e-{}", std::process::id());
    let script = format!(
        "echo x > /etc/{marker} && echo x > /usr/bin/{marker} && rm /usr/bin/env && test ! -e /usr/bin/env && cat /etc/{marker}"
    );
    assert_eq!(w.inside(&script).ok().text(), "x");
    assert!(std::path::Path::new("/usr/bin/env").exists());
    for path in [format!("/etc/{marker}"), format!("/usr/bin/{marker}")] {
        assert!(!std::path::Path::new(&path).exists(), "{path} is in reality");
    }
}

/// Root inside is nobody outside, and yet files belong to whom they say.
fn owners_inside_are_true_and_harmless_outside(w: &World) {
    let name = w.new_sandbox("owners");
    w.exec(&name, "touch mine && chown 33:33 mine").ok();
    assert_eq!(w.exec(&name, "stat -c %u:%g mine /etc/passwd").ok().stdout, "33:33\n0:0\n");
    assert_eq!(w.exec(&name, "id -u").ok().text(), "0");
    let shown = w.json(["show", &name]);
    let keeper = shown["keeper_pid"].as_u64().expect("it runs");
    let status = std::fs::read_to_string(format!("/proc/{keeper}/status")).expect("the keeper is alive");
    let uid = status.lines().find(|l| l.starts_with("Uid:")).and_then(|l| l.split_whitespace().nth(1)).expect("it has an owner");
    match shown["details"]["identity"]["kind"].as_str() {
        Some("mapped") => assert!(uid.parse::<u32>().expect("a number") > 65535, "root inside is {uid} outside"),
        other => panic!("on this machine ids can be mapped, but the identity is {other:?}"),
    }
}
