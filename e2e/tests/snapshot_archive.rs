//! Export and import: what arrives is what was sent, or nothing arrives.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use whatif_e2e::{Random, World, as_root_and_user, needs, wait_for};

as_root_and_user!(
    a_sandbox_travels_whole,
    a_snapshot_and_a_template_travel,
    a_busy_sandbox_travels,
    a_damaged_archive_changes_nothing,
    a_killed_export_leaves_nothing,
    a_killed_import_leaves_nothing,
    reality_is_no_part_of_it,
    what_is_written_to_stays_what_it_is,
    a_name_that_is_taken_leaves_nothing,
    files_that_are_closed_to_their_owner_travel,
    one_over_fuse_travels,
    an_archive_is_listed_from_standard_input,
    an_archive_is_not_replaced_unasked,
    one_that_arrives_deletes_only_what_it_saw,
);

const WORK: [&str; 3] = [
    "echo one >> edited; rm deleted; mkdir -m 711 new; echo n > new/n; chmod 755 kept; ln -s nowhere 'dang ling'; mkfifo fifo",
    "mv dir renamed; rm -r turned; echo file > turned; printf x > \"$(printf 'caf\\351')\"; printf x > \"$(printf 'n\\nl')\"; \
        echo h > h1; ln h1 h2; setfattr -n user.tag -v one edited",
    "rm renamed/f; rm -r other; mkdir other; echo new > other/n; head -c 300000 /dev/urandom > large; truncate -s 5M sparse",
];

fn prepare(w: &World) {
    let reality = "echo kept > kept; echo edited > edited; echo deleted > deleted; mkdir -p dir/sub other turned; \
        echo f > dir/f; echo g > dir/sub/g; echo o > other/o; echo t > turned/t";
    w.outside(reality).ok();
    w.new_sandbox("s");
    for (n, script) in WORK.iter().enumerate() {
        w.exec("s", &format!("set -e; {script}")).ok();
        w.snapshot("s", &format!("stage-{n}"));
    }
    w.exec("s", "echo head > head").ok();
}

/// What was removed just before may take a moment to be gone.
fn assert_nothing_arrived(w: &World, context: &str) {
    let layers = || fs::read_dir(w.layers()).map_or(0, Iterator::count);
    let is_gone = wait_for(Duration::from_secs(60), || (layers() == 0 && w.transient().is_empty()).then_some(()));
    assert!(is_gone.is_some(), "{context}: {} layers, half done: {:?}", layers(), w.transient());
}

fn a_sandbox_travels_whole(w: &World) {
    needs!(w, "setfattr");
    prepare(w);
    let before = w.listing("s");
    let patch = w.whatif(["diff", "s", "--patch"]).go().ok().stdout;
    w.json(["export", "s", "-o", "../s.whatif"]);
    w.json(["import", "../s.whatif", "--name", "t"]);
    w.listing("t").assert_is(&before, "beside the one it came from");
    w.whatif(["rm", "s", "t"]).go().ok();
    w.whatif(["gc"]).go().ok();
    w.json(["import", "../s.whatif"]);
    w.listing("s").assert_is(&before, "under its own name, where nothing of it is left");
    assert_eq!(w.whatif(["diff", "s", "--patch"]).go().ok().stdout, patch);
    assert_eq!(w.exec("s", "stat -c %h h1").ok().text(), "2", "hard links stay linked");
    w.whatif(["import", "../s.whatif"]).go().fails_with_hint(125);
    w.apply(&["s", "--all"]).ok();
}

fn a_snapshot_and_a_template_travel(w: &World) {
    prepare(w);
    let stage = w.listing_of("s@stage-1");
    w.json(["export", "s@stage-1", "-o", "../one.whatif"]);
    w.json(["template", "save", "s", "t"]);
    w.json(["export", "--template", "t", "-o", "../t.whatif"]);
    let head = w.listing("s");
    w.whatif(["rm", "s"]).go().ok();
    w.whatif(["template", "rm", "t"]).go().ok();
    w.json(["import", "../one.whatif", "--name", "one"]);
    w.listing("one").assert_is(&stage, "the snapshot");
    w.json(["import", "../t.whatif", "--template", "u"]);
    w.json(["new", "v", "--template", "u"]);
    w.listing("v").assert_is(&head, "the template");
    let piped = w.whatif(["export", "one", "-o", "-"]).go().ok();
    assert!(!piped.stdout.is_empty());
}

fn a_busy_sandbox_travels(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo x > f").ok();
    w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
    w.json(["export", "s", "-o", "../s.whatif"]);
    assert!(w.whatif(["ps", "s"]).go().ok().stdout.contains("sleep 1000"));
    w.json(["import", "../s.whatif", "--name", "t"]);
    assert_eq!(w.exec("t", "cat f").ok().text(), "x");
}

/// A pipe, a device or a link is never replaced by a file.
fn what_is_written_to_stays_what_it_is(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo x > f").ok();
    w.outside("mkfifo pipe; touch there; chmod 644 there; ln -s there link; mkdir directory").ok();
    let reading = w.program("/bin/sh").args(["-c", "cat pipe > arrived"]).streams(Stdio::null(), Stdio::null(), Stdio::null());
    let mut reading = reading.spawn();
    w.whatif(["export", "s", "-o", "pipe"]).go().ok();
    assert!(reading.wait().expect("it is our child").success());
    // Whoever names a file need not know that it is there.
    w.whatif(["export", "s", "-o", "link"]).go().fails_with_hint(1).says("--force");
    assert_eq!(w.read("there"), "");
    w.whatif(["export", "--force", "s", "-o", "link"]).go().ok();
    w.whatif(["export", "s", "-o", "directory"]).go().fails_with_hint(125);
    w.whatif(["export", "s", "-o", "/dev/full"]).go().fails_with_hint(125).says("No space left");
    assert_eq!(
        w.outside("test -p pipe && test -L link && test -f there && ls -A").ok().text(),
        "arrived\ndirectory\nlink\npipe\nthere"
    );
    for (archive, name) in [("arrived", "a"), ("link", "b")] {
        w.json(["import", archive, "--name", name]);
        assert_eq!(w.exec(name, "cat f").ok().text(), "x");
    }
}

fn a_name_that_is_taken_leaves_nothing(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo x > f").ok();
    let sha256 = w.json(["export", "s", "-o", "../s.whatif"])["sha256"].clone();
    w.whatif(["rm", "s"]).go().ok();
    w.whatif(["gc"]).go().ok();
    w.new_sandbox("s");
    w.whatif(["import", "../s.whatif"]).go().fails_with_hint(125).says("there already is a sandbox called 's'");
    assert_nothing_arrived(w, "under a name that is taken");
    let listed = w.json(["import", "../s.whatif", "--list"]);
    assert_eq!(listed["sha256"], sha256);
    assert_eq!(w.json(["import", "../s.whatif", "--name", "t"])["sha256"], sha256);
}

fn files_that_are_closed_to_their_owner_travel(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo closed > f; chmod 0 f; mkdir d; echo in > d/f; chmod 0 d").ok();
    w.json(["export", "s", "-o", "../s.whatif"]);
    w.json(["import", "../s.whatif", "--name", "t"]);
    let looked = w.exec("t", "stat -c '%a %n' f d; chmod 700 f d; cat f d/f").ok();
    assert_eq!(looked.text(), "0 f\n0 d\nclosed\nin");
}

fn one_over_fuse_travels(w: &World) {
    needs!(w, "fuse-overlayfs");
    if w.outside("exec 3<>/dev/fuse").code != 0 {
        w.whatif(["new", "s", "--backend", "fuse"]).go().fails_with_hint(125).says("fuse");
        return;
    }
    w.whatif(["new", "s", "--backend", "fuse"]).go().ok();
    w.exec("s", "echo x > f").ok();
    w.json(["export", "s", "-o", "../s.whatif"]);
    w.json(["import", "../s.whatif", "--name", "t", "--backend", "fuse"]);
    assert_eq!(w.exec("t", "cat f; echo y > g; cat g").ok().text(), "x\ny");
}

/// A bit turned, a piece missing, something added: it is noticed, and nothing of it stays.
fn a_damaged_archive_changes_nothing(w: &World) {
    prepare(w);
    w.json(["export", "s", "-o", "../s.whatif"]);
    let file = w.home.join("s.whatif");
    let whole = fs::read(&file).expect("it was written");
    w.whatif(["rm", "s"]).go().ok();
    w.whatif(["gc"]).go().ok();
    let mut random = Random::from(1);
    let mut damaged: Vec<Vec<u8>> =
        [0, 1, 100, whole.len() / 2, whole.len() - 1].iter().map(|end| whole[..*end].to_vec()).collect();
    damaged.push([whole.as_slice(), b"more"].concat());
    for _ in 0..12 {
        let (mut bytes, at) = (whole.clone(), random.below(whole.len()));
        bytes[at] ^= 1 << random.below(8);
        damaged.push(bytes);
    }
    for (n, bytes) in damaged.into_iter().enumerate() {
        fs::write(&file, &bytes).expect("it is ours");
        let outcome = w.whatif(["import", "../s.whatif", "--name", "bad"]).go();
        assert_eq!(outcome.code, 125, "damage {n}: {} {}", outcome.stdout, outcome.stderr);
        assert_eq!(w.json(["ls"]), serde_json::json!([]), "damage {n}");
        assert_nothing_arrived(w, &format!("damage {n}"));
    }
}

fn a_killed_export_leaves_nothing(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "head -c 40000000 /dev/urandom > large").ok();
    let out = w.project.join("out");
    w.outside("mkdir out; echo before > out/s.whatif").ok();
    for pause in [5, 15, 30] {
        let command = w.whatif(["export", "--force", "s", "-o", "out/s.whatif"]);
        let mut export = command.streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
        std::thread::sleep(Duration::from_millis(pause));
        export.kill().expect("it is our child");
        assert_eq!(export.wait().expect("it is our child").code(), None, "it takes longer than {pause} ms");
        let there: Vec<_> = fs::read_dir(&out).expect("it is there").flatten().map(|e| e.file_name()).collect();
        assert_eq!(there, ["s.whatif"], "after {pause} ms");
    }
    assert_eq!(fs::read(out.join("s.whatif")).expect("it is there"), b"before\n");
    w.json(["export", "--force", "s", "-o", "out/s.whatif"]);
    w.json(["import", "out/s.whatif", "--name", "t"]);
}

fn a_killed_import_leaves_nothing(w: &World) {
    prepare(w);
    w.json(["export", "s", "-o", "../s.whatif"]);
    let whole = w.listing("s");
    w.whatif(["rm", "s"]).go().ok();
    w.whatif(["gc"]).go().ok();
    let mut random = Random::from(2);
    for round in 0..6 {
        let null = std::process::Stdio::null;
        let mut child = w.whatif(["import", "../s.whatif", "--name", "t"]).streams(null(), null(), null()).spawn();
        std::thread::sleep(Duration::from_micros(random.below(40_000) as u64));
        let _ = child.kill();
        let _ = child.wait();
        let listed = w.json(["ls"]);
        w.whatif(["gc"]).go().ok();
        if listed == serde_json::json!([]) {
            assert_nothing_arrived(w, &format!("round {round}"));
        } else {
            w.whatif(["start", "t"]).go().ok();
            w.listing("t").assert_is(&whole, &format!("round {round}"));
            w.whatif(["rm", "t"]).go().ok();
            w.whatif(["gc"]).go().ok();
        }
    }
}

/// Neither what was not changed nor what a sandbox must not see is in it.
fn reality_is_no_part_of_it(w: &World) {
    w.write("unchanged", "only-in-reality ".repeat(100));
    w.write(w.home.join(".ssh/id_ed25519"), "very-secret ".repeat(100));
    w.new_sandbox("s");
    w.exec(
        "s",
        "echo mine > mine; mv unchanged moved 2>/dev/null; mv moved unchanged; \
        cat ~/.ssh/id_ed25519 > stolen 2>/dev/null; rm stolen",
    )
    .ok();
    w.json(["export", "s", "-o", "../s.whatif"]);
    let listed = w.whatif(["import", "--list", "../s.whatif"]).go().ok().stdout;
    assert!(!listed.contains("id_ed25519"), "{listed}");
    w.json(["import", "../s.whatif", "--name", "t"]);
    assert_eq!(w.exec("t", "cat mine; cat ~/.ssh/id_ed25519 2>/dev/null").stdout, "mine\n");
}

fn an_archive_is_listed_from_standard_input(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo x > f").ok();
    let sha256 = w.json(["export", "s", "-o", "../s.whatif"])["sha256"].clone();
    let archive = fs::read(w.home.join("s.whatif")).expect("it is there");
    for arguments in [["import", "-", "--list"], ["import", "--list", "-"]] {
        let listed = w.whatif(["--json"]).args(arguments).input(&archive).go().ok().json();
        assert_eq!((&listed["sha256"], &listed["name"]), (&sha256, &"s".into()), "{listed}");
    }
    assert_eq!(w.json(["ls"]).as_array().map(Vec::len), Some(1), "nothing was imported");
}

/// By whichever name.
fn an_archive_is_not_replaced_unasked(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo x > f").ok();
    w.write("s.whatif", "mine");
    w.whatif(["export", "s"]).go().fails_with_hint(1).says("s.whatif");
    assert_eq!(w.read("s.whatif"), "mine");
    w.whatif(["export", "s", "--force"]).go().ok();
    assert_eq!(w.json(["import", "s.whatif", "--list"])["name"], "s");
    w.write("named", "mine");
    w.whatif(["export", "s", "-o", "named"]).go().fails_with_hint(1).says("named");
    assert_eq!(w.read("named"), "mine");
    w.whatif(["export", "s", "-o", "named", "--force"]).go().ok();
    assert_eq!(w.json(["import", "named", "--list"])["name"], "s");
}

/// What reality put into a directory after the sandbox had deleted or replaced it is nothing that an import of it deletes; nor is it
/// with what was made of the import.
fn one_that_arrives_deletes_only_what_it_saw(w: &World) {
    for (number, backend) in ["overlay", "fuse", "copy"].into_iter().enumerate() {
        if backend == "fuse" && w.outside("command -v fuse-overlayfs && exec 3<>/dev/fuse").code != 0 {
            continue;
        }
        let [s, import, fork] = ["s", "import", "fork"].map(|name| format!("{name}-{number}"));
        w.outside("rm -rf replaced gone; mkdir replaced gone; echo a > replaced/a; echo x > gone/x; echo f > f").ok();
        w.whatif(["new", &s, "--backend", backend]).go().ok();
        w.exec(&s, "rm -r replaced gone f; mkdir replaced; echo new > replaced/new").ok();
        w.json(["export", "--force", &s, "-o", "../s.whatif"]);
        w.json(["import", "../s.whatif", "--name", &import, "--backend", backend]);
        w.whatif(["apply", &import, "--all", "--yes"]).go().ok();
        assert_eq!(
            w.outside("find replaced gone f 2> /dev/null | sort").text(),
            "replaced\nreplaced/new",
            "{backend}: what it saw"
        );
        w.whatif(["undo", "--yes"]).go().ok();
        w.whatif(["rm", &import]).go().ok();

        w.outside("echo nl > replaced/nl; ln -s nowhere replaced/link; echo y > gone/y").ok();
        let before = w.outside("grep -r . replaced gone f; ls -l replaced gone").stdout;
        w.json(["import", "../s.whatif", "--name", &import, "--backend", backend]);
        w.whatif(["fork", &import, &fork]).go().ok();
        for name in [&import, &fork] {
            let refused = w.whatif(["apply", name, "--all", "--yes"]).go().exits(1);
            assert!(["replaced/nl", "replaced/link", "gone/y"].iter().all(|path| refused.stderr.contains(path)), "{refused:?}");
            w.whatif(["apply", name, "--all", "--ours=**", "--yes"]).go();
            let after = w.outside("grep -r . replaced gone f; ls -l replaced gone").stdout;
            assert!(after.contains("replaced/nl") && after.contains("gone/y") && after.contains("nowhere"), "{backend}: {after}");
            w.whatif(["undo", "--yes"]).go().ok();
            assert_eq!(w.outside("grep -r . replaced gone f; ls -l replaced gone").stdout, before, "{backend}");
        }
        w.whatif(["rm", "--yes", &s, &import, &fork]).go().ok();
        w.outside("rm -f ../s.whatif").ok();
    }
}
