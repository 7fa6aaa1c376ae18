//! Attack group CG, the disk, where the file system itself holds a sandbox to its limit: nothing gets past it, not by one call either.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use whatif_e2e::{World, as_root, as_user, eventually, not_on, quotas};
use whatif_layers::allotment::project_of;
use whatif_sys::quota;

as_root!(
    nothing_is_written_beyond_an_exact_limit,
    files_are_counted_exactly,
    nobody_inside_leaves_the_project,
    two_sandboxes_with_exact_limits_do_not_disturb_each_other,
    an_exact_limit_holds_through_snapshots_and_restarts,
    what_is_changed_from_outside_stays_in_the_project,
    no_project_is_left_behind,
    a_project_of_somebody_else_is_never_taken,
);
as_user!(without_the_rights_for_it_the_disk_is_watched);

const MIB: u64 = 1 << 20;
/// Of the directories that a sandbox needs itself, and of a file system's own blocks for a file.
const OWN: u64 = MIB;

fn enforced(w: &World, name: &str) -> String {
    w.show(name)["details"]["enforced"][0]["by"].as_str().expect("it has a limit").to_owned()
}

/// What a head takes, with the files that nobody sees any more.
fn taken(w: &World, name: &str) -> quota::Account {
    let head = w.directory(name).join("head");
    let project = project_of(&head).expect("it can be asked").expect("it has a project");
    quota::account(fs::File::open(&w.state).expect("it is there"), project).expect("root may ask")
}

/// All projects in this file system that have a limit.
fn limited(state: &Path) -> Vec<u32> {
    let near = fs::File::open(state).expect("it is there");
    let mut found = Vec::new();
    let mut from = 1;
    while let Some((project, account)) = quota::next_account(&near, from).expect("root may ask") {
        found.extend((account.most_bytes > 0 || account.most_files > 0).then_some(project));
        from = project + 1;
    }
    found
}

const TOOLS: &str = r#"
import ctypes, errno, fcntl, json, mmap, os, signal, struct
M = 1 << 20
full = (errno.EDQUOT, errno.ENOSPC)
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
def refused(f, *arguments):
    try: f(*arguments)
    except OSError as e: return e.errno
    return 0
def allocate(name, size):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    done = libc.fallocate(fd, 0, 0, size)
    told = 0 if done == 0 else ctypes.get_errno()
    os.close(fd)
    return told
def fill(name, most=64 * M):
    done = 0
    try:
        fd = os.open(name, os.O_CREAT | os.O_WRONLY)
        while done < most: done += os.write(fd, b'x' * 65536)
        os.fsync(fd)
    except OSError as e:
        assert e.errno in full, e
        return done
    return done
"#;

fn python(w: &World, name: &str, program: &str) -> serde_json::Value {
    let said = w.python(name, &format!("{TOOLS}{program}")).ok();
    serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"))
}

/// CG-05: by writing, allocating, mapping, linking and moving, and by files that have no name.
fn nothing_is_written_beyond_an_exact_limit(w: &World) {
    not_on!(w, "fuse", "fuse-overlayfs is watched");
    fs::create_dir(w.project.join("moved")).expect("it is ours");
    w.write("moved/there", "from reality");
    quotas::on_each(w, |w| {
        w.limited("exact", &["--disk", "20M"]);
        assert_eq!(enforced(w, "exact"), "quota");
        assert!(w.whatif(["show", "exact"]).go().ok().stdout.contains("disk 20 MiB (project quota, exact)"));
        let told = python(
            w,
            "exact",
            r"
got = [allocate('huge', 1024 * M)]
# Some file systems leave what they had allocated until then.
os.unlink('huge'); got.append(allocate('some', 4 * M))
open('holes', 'w').close(); os.truncate('holes', 1024 * M)
# Names and places change, and nothing of that is refused.
os.mkdir('d'); os.link('some', 'd/linked'); os.rename('some', 'd/some'); os.rename('d/some', 'moved/some')
os.rename('moved/there', 'd/there'); os.chmod('moved', 0o750); os.unlink('d/linked'); os.unlink('moved/some')
child = os.fork()
if child == 0:
    fd = os.open('mapped', os.O_CREAT | os.O_RDWR); os.ftruncate(fd, 256 * M)
    with mmap.mmap(fd, 256 * M) as m:
        for at in range(0, 256 * M, 4096): m[at] = 1
    os._exit(0)
status = os.waitpid(child, 0)[1]
os.unlink('mapped')
nameless = os.open('gone', os.O_CREAT | os.O_RDWR); os.unlink('gone')
hidden = fill('/proc/self/fd/%d' % nameless)
wrote = fill('big')
print(json.dumps([got[0] in full, got[1], os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS, hidden, wrote]))
",
        );
        let [refused, allowed, bus_error, hidden, wrote] = told.as_array().expect("a list").as_slice() else { panic!("{told}") };
        assert_eq!((refused, allowed, bus_error), (&true.into(), &0.into(), &true.into()), "{told}");
        let (hidden, wrote) = (hidden.as_u64().expect("bytes"), wrote.as_u64().expect("bytes"));
        assert!((16 * MIB..=20 * MIB + OWN).contains(&hidden) && wrote <= OWN, "{told}");
        assert!(taken(w, "exact").bytes <= 20 * MIB + OWN, "{:?}", taken(w, "exact"));
        // Without that file there is room again, and then it is told who was in the way.
        let full = w.exec("exact", "head -c 100M /dev/zero > big").exits(1);
        full.says("the 20 MiB disk limit was reached: something could not be written").says("a higher --disk");
        let bytes = taken(w, "exact").bytes;
        assert!((19 * MIB..=20 * MIB + OWN).contains(&bytes), "{bytes}");
        w.exec("exact", "rm big && echo again > again").ok();
        w.assert_alive("exact");
        assert!(w.whatif(["diff", "exact"]).go().ok().stdout.contains("again"));
    });
}

fn files_are_counted_exactly(w: &World) {
    not_on!(w, "fuse", "fuse-overlayfs is watched");
    quotas::on_each(w, |w| {
        w.limited("few", &["--inodes", "100"]);
        assert_eq!(enforced(w, "few"), "quota");
        let before = taken(w, "few").files;
        let ended = w.exec("few", "for n in $(seq 300); do touch f$n || exit 7; done").exits(7);
        ended.says("the 100 files limit was reached");
        let files = taken(w, "few").files - before;
        assert!((60..=100).contains(&files), "{files}");
        w.exec("few", "rm f*; touch one").ok();
    });
}

/// CG-05: neither by asking for it, nor by way of what an overlay copies up.
fn nobody_inside_leaves_the_project(w: &World) {
    not_on!(w, "fuse", "fuse-overlayfs is watched");
    fs::create_dir(w.project.join("real")).expect("it is ours");
    w.write("real/file", "from reality");
    quotas::on_each(w, |w| {
        w.limited("inside", &["--disk", "8M"]);
        let told = python(
            w,
            "inside",
            r"
GET, SET, GETFLAGS, SETFLAGS = 0x801C581F, 0x401C5820, 0x80086601, 0x40086602
os.mkdir('own'); open('own/file', 'w').close()
answers = set()
for path in ['own', 'own/file', 'real', 'real/file', '.']:
    fd = os.open(path, os.O_RDONLY)
    for project, flags in [(0, 0), (7, 0x200), (0, 0x80)]:
        answers.add(refused(fcntl.ioctl, fd, SET, struct.pack('5I8x', flags, 0, 0, project, 0)))
    for flags in [0, 0x40, 0x20000000]:
        answers.add(refused(fcntl.ioctl, fd, SETFLAGS, struct.pack('l', flags)))
wrote = [fill(name) for name in ['own/big', 'real/big', 'real/file']]
print(json.dumps([sorted(answers), sum(wrote)]))
",
        );
        assert_eq!(told[0], serde_json::json!([libc::EOPNOTSUPP]));
        assert!(told[1].as_u64().expect("bytes") <= 8 * MIB + OWN, "{told}");
        let found = w.outside(&format!("du -s --block-size=1 {}/head | cut -f1", w.directory("inside").display())).ok();
        assert!(found.text().parse::<u64>().expect("bytes") <= 8 * MIB + OWN, "{found:?}");
    });
}

fn two_sandboxes_with_exact_limits_do_not_disturb_each_other(w: &World) {
    not_on!(w, "fuse", "fuse-overlayfs is watched");
    quotas::on_each(w, |w| {
        w.limited("one", &["--disk", "10M"]);
        w.limited("other", &["--disk", "10M"]);
        let wrote = |name: &str, file: &str| python(w, name, &format!("print(fill('{file}'))")).as_u64().expect("bytes");
        for name in ["one", "other"] {
            let wrote = wrote(name, "big");
            assert!((8 * MIB..=10 * MIB + OWN).contains(&wrote), "{name}: {wrote}");
        }
        w.exec("one", "rm big").ok();
        assert!(wrote("other", "more") <= OWN);
        assert_eq!(limited(&w.state).len(), 2);
    });
}

/// What a sandbox alone has in layers counts; what it shares does not.
fn an_exact_limit_holds_through_snapshots_and_restarts(w: &World) {
    not_on!(w, "copy" | "fuse", "only the kernel's overlay moves while it runs");
    quotas::on_each(w, |w| {
        w.limited("history", &["--disk", "20M"]);
        let fill = |w: &World, name: &str, file: &str| python(w, name, &format!("print(fill('{file}'))")).as_u64().expect("bytes");
        let near = |wrote: u64, expected: u64| (expected.saturating_sub(3 * MIB)..=expected + 2 * OWN).contains(&wrote);
        w.exec("history", "head -c 8M /dev/zero > first; mkdir d; echo 1 > d/1").ok();
        w.snapshot("history", "s1");
        let wrote = fill(w, "history", "second");
        assert!(near(wrote, 12 * MIB), "{wrote} beside a layer of 8 MiB");
        w.exec("history", "rm second; mv d/1 d/2; mv d e || true").ok();
        w.exec("history", "head -c 4M /dev/zero > third-part").ok();
        w.snapshot("history", "s2");
        w.whatif(["stop", "history"]).go().ok();
        w.whatif(["start", "history"]).go().ok();
        assert_eq!(enforced(w, "history"), "quota");
        let wrote = fill(w, "history", "more");
        assert!(wrote <= 9 * MIB, "{wrote} after two snapshots and a restart");
        // A full one can be stopped, started and cleaned up.
        w.whatif(["stop", "history"]).go().ok();
        w.exec("history", "rm more && echo fits > fits").exits(125);
        w.whatif(["start", "history"]).go().ok();
        w.exec("history", "rm more && echo fits > fits").ok();
        w.rollback("history", "s1");
        assert_eq!(w.exec("history", "ls").ok().stdout.lines().filter(|line| *line != "real").collect::<Vec<_>>(), ["d", "first"]);
        w.fork("history@s1", "forked");
        let wrote = fill(w, "forked", "own");
        assert!(near(wrote, 20 * MIB), "{wrote} in a fork, which shares its layers");
        assert_eq!(enforced(w, "forked"), "quota");
        w.whatif(["squash", "history"]).go().ok();
        w.exec("history", "cat d/1").ok();
        // Only heads have limits.
        assert_eq!(limited(&w.state).len(), 2);
    });
}

/// A rebase and an apply write to heads and layers, and what they move there was made elsewhere.
fn what_is_changed_from_outside_stays_in_the_project(w: &World) {
    not_on!(w, "fuse", "fuse-overlayfs is watched");
    quotas::on_each(w, |w| {
        let lines: String = (0..40).map(|n| format!("line {n}\n")).collect();
        w.write("merged", &lines);
        w.limited("rebased", &["--disk", "10M"]);
        w.exec("rebased", "sed -i 's/line 3$/inside/' merged; ln -s merged link; mkdir -p deep/er; echo new > deep/er/new").ok();
        w.write("merged", lines.replace("line 33\n", "outside\n"));
        w.whatif(["rebase", "rebased"]).go().ok();
        let merged = w.exec("rebased", "cat merged").ok().stdout;
        assert!(merged.contains("inside\n") && merged.contains("outside\n"), "{merged}");
        w.snapshot("rebased", "before");
        w.exec("rebased", "mv deep moved; echo more >> merged").ok();
        w.whatif(["apply", "rebased", "--yes"]).go().ok();
        w.exec("rebased", "cat moved/er/new; echo after > after").ok();
        let wrote = python(w, "rebased", "print(fill('big'))").as_u64().expect("bytes");
        assert!((7 * MIB..=10 * MIB + OWN).contains(&wrote), "{wrote}");
        w.outside("rm -rf merged moved after link").ok();
    });
}

/// However a command ends, removing what it made and `gc` leave nothing.
fn no_project_is_left_behind(w: &World) {
    not_on!(w, "fuse", "fuse-overlayfs is watched");
    quotas::on_each(w, |w| {
        w.limited("kept", &["--disk", "10M"]);
        w.exec("kept", "echo 1 > 1").ok();
        w.snapshot("kept", "s");
        w.whatif(["rm", "kept", "--yes"]).go().ok();
        w.whatif(["run", "--rm", "--disk", "10M", "--", "/bin/sh", "-c", "echo 1 > 1"]).go().ok();
        eventually("a removed sandbox has no limit", || limited(&w.state).is_empty());
        for after in (0..12).map(|n| Duration::from_millis(10 * n + 5)) {
            let run = w.whatif(["run", "--disk", "10M", "--", "/bin/sh", "-c", "echo 1 > 1; sleep 0.02"]);
            let mut child = run.streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
            std::thread::sleep(after);
            let _ = child.kill();
            let _ = child.wait();
        }
        w.whatif(["rm", "--all", "--yes"]).go().ok();
        eventually("gc finds all that is left", || {
            w.whatif(["gc"]).go().ok();
            limited(&w.state).is_empty()
        });
    });
}

fn a_project_of_somebody_else_is_never_taken(w: &World) {
    not_on!(w, "fuse", "fuse-overlayfs is watched");
    quotas::on_each(w, |w| {
        w.limited("first", &["--disk", "10M"]);
        let ours = project_of(&w.directory("first").join("head")).expect("it can be asked").expect("it has a project");
        w.whatif(["rm", "first", "--yes"]).go().ok();
        // All that are usual belong to somebody else now, who has set a limit or has a file.
        let near = fs::File::open(&w.state).expect("it is there");
        let usual = (ours & !0xFFFF)..(ours & !0xFFFF) + 64;
        for project in usual.clone() {
            quota::limit(&near, project, 1 << 30, 0).expect("root may");
        }
        w.limited("second", &["--disk", "10M"]);
        let second = project_of(&w.directory("second").join("head")).expect("it can be asked").expect("it has a project");
        assert!(!usual.contains(&second), "{second}");
        for project in usual {
            quota::limit(&near, project, 0, 0).expect("root may");
        }
    });
}

/// And that is said.
fn without_the_rights_for_it_the_disk_is_watched(w: &World) {
    quotas::on_each(w, |w| {
        w.limited("watched", &["--disk", "10M"]);
        assert_eq!(enforced(w, "watched"), "watcher");
        assert!(w.whatif(["show", "watched"]).go().ok().stdout.contains("disk 10 MiB (watched by the keeper)"));
        assert!(w.whatif(["doctor"]).go().stdout.contains("only root can set project quotas: run as root for an exact one"));
    });
}
