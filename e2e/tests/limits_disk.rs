//! Attack group CG, the disk: whichever way it is filled, it ends at the limit, and the sandbox can be gone on with.

use std::fs;
use std::time::Duration;

use whatif_e2e::{World, as_root, as_root_and_user, needs, not_on, skip, wait_for};

as_root_and_user!(
    a_disk_limit_ends_every_way_of_filling_a_disk,
    files_are_counted_too,
    a_sandbox_at_its_disk_limit_can_be_cleaned_up,
    small_steps_do_not_go_unnoticed,
    snapshots_count_as_the_sandboxes_disk,
    output_of_background_commands_ends_somewhere,
    copying_up_a_large_file_is_limited_too,
    what_is_kept_of_changed_files_is_limited_too,
    nothing_is_allocated_faster_than_it_could_be_written,
);
// A file system of their own takes root.
as_root!(a_part_of_the_disk_is_left_for_others);

const MIB: &str = "M = 1 << 20\n";

/// What a sandbox's head takes on the disk.
fn taken(w: &World, name: &str) -> u64 {
    let measured = w.outside(&format!("du -s --block-size=1 {}/head", w.directory(name).display())).ok();
    measured.stdout.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number of bytes")
}

/// CG-05: not written by anybody inside, but copied there when its mode is changed.
fn copying_up_a_large_file_is_limited_too(w: &World) {
    not_on!(w, "copy", "all of it was copied before");
    needs!(w, "python3");
    w.write("large", vec![b'x'; 100 << 20]);
    w.limited("copies", &["--disk", "16M"]);
    let document = w.python_json("copies", "import os, time\nos.chmod('large', 0o600)\ntime.sleep(60)");
    assert_eq!((&document["exit_code"], &document["limit_hit"]), (&137.into(), &"disk".into()), "{document}");
    w.assert_alive("copies");
    // What is not changed is not copied.
    assert_eq!(w.exec("copies", "stat -c %s large").ok().text(), (100 << 20).to_string());
}

/// CG-05: the changes take nothing, what they started from does. It is kept in the state directory.
fn what_is_kept_of_changed_files_is_limited_too(w: &World) {
    not_on!(w, "copy", "the copy alone takes more");
    let text = "a line of text\n".repeat((3 << 20) / 15);
    for n in 0..20 {
        w.write(format!("f{n}"), &text);
    }
    w.limited("kept", &["--disk", "16M"]);
    let before = in_state_directory(w);
    w.exec("kept", ": > f0; : > f1").ok();
    w.snapshot("kept", "first");
    w.exec("kept", "for f in f*; do : > $f; done").ok();
    w.whatif(["diff", "kept"]).go().ok();
    let kept = in_state_directory(w) - before;
    assert!((6 << 20..10 << 20).contains(&kept), "{} KiB", kept >> 10);
    // Nothing is taken for merged of which it is not known what it was.
    w.outside("for f in f*; do echo more >> $f; done").ok();
    w.apply(&["kept", "--all"]).exits(1);
    assert_eq!(w.read("f9").len(), text.len() + 5);
}

fn in_state_directory(w: &World) -> u64 {
    // What overlayfs works in is closed to its user, and empty.
    let measured = w.outside(&format!("du -s --block-size=1 --exclude=work {}", w.state.display())).ok();
    measured.stdout.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number of bytes")
}

/// CG-05. 16 MiB are allowed; each way wants much more, and would take a while to get all of it.
fn a_disk_limit_ends_every_way_of_filling_a_disk(w: &World) {
    needs!(w, "python3");
    let ways = [
        ("plain", "f = open('big', 'wb')\nfor n in range(4000): f.write(b'x' * M)"),
        ("holes filled", "f = open('big', 'wb'); f.truncate(4000 * M)\nfor n in range(4000): f.seek(n * M); f.write(b'x' * M)"),
        (
            "mapped",
            "import mmap\nf = open('big', 'w+b'); f.truncate(2000 * M)\nm = mmap.mmap(f.fileno(), 2000 * M)\nfor n in range(2000): m[n * M:(n + 1) * M] = b'x' * M\nm.flush(); import time; time.sleep(60)",
        ),
        (
            "allocated",
            "f = open('big', 'wb')\nfor n in range(60): os.posix_fallocate(f.fileno(), n * 20 * M, 20 * M); time.sleep(0.05)",
        ),
        ("nameless", "fd = os.open('.', os.O_TMPFILE | os.O_RDWR)\nfor n in range(4000): os.write(fd, b'x' * M)"),
        ("deleted", "f = open('big', 'wb'); os.unlink('big')\nfor n in range(4000): f.write(b'x' * M)"),
        (
            "a table of a thread's own",
            "import ctypes, threading\ndef fill():\n  ctypes.CDLL(None).unshare(0x400); f = open('big', 'wb'); os.unlink('big')\n  for n in range(4000): f.write(b'x' * M)\nthreading.Thread(target=fill).start()",
        ),
        (
            "many writers",
            "for p in range(8):\n  if os.fork() == 0:\n    f = open('big', 'ab', buffering=0)\n    for n in range(500): f.write(b'x' * M)\n    os._exit(0)\nfor p in range(8): os.wait()\ntime.sleep(60)",
        ),
        (
            "renamed over",
            "for n in range(4000):\n  with open('new', 'wb') as f: f.write(b'x' * 2 * M)\n  os.rename('new', f'kept{n}')",
        ),
        ("small files", "os.mkdir('d')\nfor n in range(400000):\n  with open(f'd/{n}', 'wb') as f: f.write(b'x' * 4096)"),
    ];
    for (name, way) in ways {
        if name == "nameless" && w.backend() == "fuse" {
            skip("not on fuse: fuse-overlayfs makes no files without a name, so no disk is filled by them");
            continue;
        }
        let sandbox = format!("disk-{}", name.replace([' ', '\''], "-"));
        w.limited(&sandbox, &["--disk", "16M"]);
        let program = format!("import os, time\n{MIB}{way}\ntime.sleep(60)");
        let document = w.python_json(&sandbox, &program);
        let full = document["exit_code"] == 137 && document["limit_hit"] == "disk";
        let quota = document["exit_code"] == 1 && document["stderr"].to_string().contains("Errno");
        assert!(full || quota, "{name}: {document}");
        // What a watcher is late by is a fraction of a second's writing, not the whole of it.
        assert!(taken(w, &sandbox) < 1 << 30, "{name}: {} bytes", taken(w, &sandbox));
        w.assert_alive(&sandbox);
        w.whatif(["rm", &sandbox]).go().ok();
    }
}

/// CG-05: empty ones, and attributes, which are files to nobody and take room all the same.
fn files_are_counted_too(w: &World) {
    needs!(w, "python3");
    w.limited("files", &["--inodes", "200"]);
    let ways = [
        "os.mkdir('d')\nfor n in range(400000): os.close(os.open(f'd/{n}', os.O_CREAT | os.O_WRONLY))",
        "for n in range(400000): os.symlink('nowhere', f's{n}')",
    ];
    for way in ways {
        let document = w.python_json("files", &format!("import os, time\n{way}\ntime.sleep(60)"));
        let full = document["exit_code"] == 137 && document["limit_hit"] == "inodes";
        let quota = document["exit_code"] == 1 && document["stderr"].to_string().contains("Errno");
        assert!(full || quota, "{way}: {document}");
        let count = w.outside(&format!("find {}/head | wc -l", w.directory("files").display())).ok();
        let count: u32 = count.text().parse().expect("a number");
        assert!(count < 200_000, "{count} files");
        w.exec("files", "rm -rf d m* s* 2>/dev/null; find . -mindepth 1 -delete").ok();
    }
    w.limited("attributes", &["--disk", "16M"]);
    let way = "for n in range(200000):\n  open(f'f{n}', 'w').close(); os.setxattr(f'f{n}', 'user.big', b'x' * 3500)";
    let document = w.python_json("attributes", &format!("import os, time\n{way}\ntime.sleep(60)"));
    assert_eq!(document["exit_code"].as_i64().map(|code| code == 137 || code == 1), Some(true), "{document}");
    assert!(taken(w, "attributes") < 1 << 30);
}

/// CG-05: no limit is set, and the disk has few bytes, or few files.
fn a_part_of_the_disk_is_left_for_others(w: &World) {
    // Not as fast as memory is: what is full before anybody can look leaves nothing.
    let few_bytes = ("size=40m", "while head -c 262144 /dev/zero >> big; do sleep 0.005; done; sleep 60", "stat -f -c %f");
    // A file takes fuse-overlayfs many times as long as the kernel.
    let options = if w.backend() == "fuse" { "nr_inodes=4000" } else { "nr_inodes=20000" };
    let few_files = (options, "seq 100000 | xargs -n 100 sh -c \"touch \\$*; sleep 0.005\" -; sleep 60", "stat -f -c %d");
    for (options, fill, free) in [few_bytes, few_files] {
        let script = format!(
            "mount -t tmpfs -o mode=700,{options} none {state}; {free} {state}; \
             {bin} --json run --name fills -- /bin/sh -c '{fill}'; {free} {state}; {bin} rm fills >&2",
            state = w.state.display(),
            bin = w.bin.display()
        );
        let said = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]).go().ok();
        let lines: Vec<&str> = said.stdout.lines().collect();
        let [before, ran @ .., after] = lines.as_slice() else { panic!("{said:?}") };
        let ran: serde_json::Value = serde_json::from_str(&ran.concat()).expect("a document");
        assert_eq!((&ran["exit_code"], &ran["limit_hit"]), (&137.into(), &"reserve".into()), "{options}: {ran}");
        let [before, after] = [before, after].map(|n| n.parse::<u64>().expect("a number"));
        assert!(after > before / 8, "{options}: {after} of {before} were left");
    }
}

/// CG-05: nobody has to throw a sandbox away because it is full.
fn a_sandbox_at_its_disk_limit_can_be_cleaned_up(w: &World) {
    needs!(w, "python3");
    w.limited("full", &["--disk", "16M"]);
    w.exec("full", "echo precious > precious").ok();
    let fills = "f = open('big', 'wb')\nfor n in range(4000): f.write(b'x' * (1 << 20))";
    w.python("full", fills).exits(137).says("hint: 'whatif du' shows").says("a higher --disk");
    assert_eq!(w.exec("full", "cat precious; ls").ok().stdout, "precious\nbig\nprecious\n");
    w.exec("full", "rm big").ok();
    w.exec("full", "head -c 4000000 /dev/zero > small; sleep 0.3; ls small").ok();
    w.whatif(["diff", "full"]).go().ok();
}

/// CG-05: whoever is over the limit a little may clean up, but is told at each step that leads further.
fn small_steps_do_not_go_unnoticed(w: &World) {
    for (name, limit, step) in
        [("bytes", ["--disk", "2M"], "head -c 300000 /dev/urandom > f"), ("files", ["--inodes", "60"], "touch ")]
    {
        w.limited(name, &limit);
        let take = |n: usize| w.exec(name, &format!("for m in 1 2 3 4 5; do {step}{n}-$m; done")).code;
        let codes: Vec<i32> = (0..40).map(take).collect();
        // Beyond what cleaning up may take, none is let off.
        assert_eq!(codes[30..], [137; 10], "{name}: {codes:?}");
        w.exec(name, "rm -- *").ok();
        w.exec(name, "touch again").ok();
    }
}

/// CG-05: a frozen head still is this sandbox's.
fn snapshots_count_as_the_sandboxes_disk(w: &World) {
    needs!(w, "python3");
    w.limited("history", &["--disk", "24M"]);
    let mut stopped = false;
    for n in 0..8 {
        let write = format!(
            "f = open('file{n}', 'wb')\nfor n in range(8): f.write(os.urandom(1 << 20))\nf.flush(); os.fsync(f.fileno()); time.sleep(0.5)"
        );
        let document = w.python_json("history", &format!("import os, time\n{write}"));
        stopped |= document["limit_hit"] == "disk" || document["exit_code"] == 1;
        if stopped {
            break;
        }
        let snapshot = w.whatif(["snapshot", "history", &format!("l{n}")]).go();
        stopped |= snapshot.code == 125 && snapshot.stderr.contains("hint:");
    }
    assert!(stopped, "64 MiB fit into 24 by way of snapshots");
    w.assert_alive("history");
}

/// CG-05: a log is not allowed to grow for ever, and the command that writes it is not held up.
fn output_of_background_commands_ends_somewhere(w: &World) {
    w.limited("loud", &["--disk", "16M"]);
    w.whatif(["exec", "-d", "loud", "--", "/bin/sh", "-c", "yes | head -c 400000000; echo the end; sleep 1000"]).go().ok();
    let logs = w.directory("loud").join("logs");
    let size = || -> u64 {
        let entries = fs::read_dir(&logs).into_iter().flatten().filter_map(Result::ok);
        entries.filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum()
    };
    let settled = wait_for(Duration::from_secs(120), || {
        let over = w.whatif(["ps", "loud"]).go().stdout.contains("sleep 1000")
            || w.json(["ps", "loud"])["processes"].as_array().is_none_or(Vec::is_empty);
        over.then_some(())
    });
    assert!(settled.is_some(), "it wrote all of it, or was ended for it: {}", w.whatif(["ps", "loud"]).go().stdout);
    assert!(size() <= 130 << 20, "{} bytes", size());
    w.assert_alive("loud");
}

/// CG-05: one call takes what nobody could write in that time.
fn nothing_is_allocated_faster_than_it_could_be_written(w: &World) {
    needs!(w, "python3");
    let program = r#"
import ctypes, errno, fcntl, json, os
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
def allocate(fd, mode, at, size):
    return 0 if libc.fallocate(fd, mode, at, size) == 0 else ctypes.get_errno()
got = set()
for n in range(300):
    fd = os.open(f'f{n}', os.O_CREAT | os.O_RDWR)
    got.add(allocate(fd, 0, 0, 16 << 20))
    got.add(allocate(fd, 1, 0, 16 << 20))
fd = os.open('punched', os.O_CREAT | os.O_RDWR)
os.write(fd, b'x' * 65536)
punched = allocate(fd, 3, 0, 65536)
os.posix_fallocate(os.open('small', os.O_CREAT | os.O_RDWR), 0, 65536)
print(json.dumps([sorted(got), punched, os.stat('small').st_size]))
"#;
    for limit in [["--disk", "20M"], ["--inodes", "5000"]] {
        let name = &limit[0][2..];
        w.limited(name, &limit);
        let told: serde_json::Value = serde_json::from_str(&w.python(name, program).ok().stdout).expect("it prints JSON");
        assert_eq!(told, serde_json::json!([[libc::EOPNOTSUPP], 0, 65536]), "{name}");
        assert!(taken(w, name) < 20 << 20, "{} bytes", taken(w, name));
    }
    // Without a limit it is what it is outside.
    w.new_sandbox("free");
    let fallocate = "fallocate -l 1M f && stat -c %b f";
    assert_eq!(w.exec("free", fallocate).ok().text(), w.outside(fallocate).ok().text());
}
