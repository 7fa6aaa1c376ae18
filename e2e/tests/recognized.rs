//! What an apply left is known again by what it is, not by inode and time alone: an edit that keeps them is one, and a file that
//! was written again with the same bytes is not.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::json;
use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    an_undo_sees_an_edit_that_keeps_size_and_time,
    an_undo_sees_no_edit_in_the_same_bytes,
    a_second_apply_sees_an_edit_that_keeps_size_and_time,
    an_undo_leaves_named_paths_as_they_are,
    an_undo_says_where_the_earlier_versions_are,
    an_apply_sees_what_reality_wrote_through_a_mapping,
    what_was_written_again_with_the_same_bytes_is_merged_later,
);

/// Another byte in place, with the time put back.
fn edit_in_place(w: &World, path: &str) {
    w.outside(&format!("cp -p {path} {path}.ref; printf X | dd of={path} conv=notrunc status=none; touch -r {path}.ref {path}"))
        .ok();
    w.outside(&format!("rm {path}.ref")).ok();
}

fn an_undo_sees_an_edit_that_keeps_size_and_time(w: &World) {
    w.outside("echo f > f; printf '\\0b' > binary").ok();
    w.sandbox_with("s", "echo F > f; printf '\\0B' > binary; mkdir d; echo n > d/n");
    w.apply(&["s"]).ok();
    for path in ["f", "binary", "d/n"] {
        edit_in_place(w, path);
    }
    let outcome = w.whatif(["undo", "--yes"]).go().exits(1);
    for path in ["f", "binary", "d/n"] {
        assert!(outcome.stderr.contains(&format!("{path} was modified")), "{path}: {}", outcome.stderr);
    }
    assert_eq!((w.read("f"), w.read("d/n")), ("X\n".into(), "X\n".into()));
}

fn an_undo_sees_no_edit_in_the_same_bytes(w: &World) {
    needs!(w, "git");
    w.outside("git init -q .; git config user.name n; git config user.email e; echo f > f; echo t > t; ln -s a l; git add -A").ok();
    w.outside("git commit -qm first").ok();
    w.sandbox_with("s", "echo F > f; echo T > t; ln -sfn b l; mkdir d; echo n > d/n");
    w.apply(&["s"]).ok();
    w.outside("touch t; git stash -qu; git stash pop -q").ok();
    assert_eq!(w.read("d/n"), "n\n");
    w.whatif(["undo", "--yes"]).go().ok();
    assert_eq!(w.outside("cat f t; readlink l; ls").ok().stdout, "f\nt\na\nf\nl\nt\n");
}

fn a_second_apply_sees_an_edit_that_keeps_size_and_time(w: &World) {
    w.outside("printf '\\0old\\n' > binary").ok();
    w.sandbox_with("s", "printf '\\0new\\n' > binary");
    w.apply(&["s"]).ok();
    edit_in_place(w, "binary");
    w.exec("s", "printf '\\0later\\n' > binary").ok();
    w.apply(&["s"]).exits(1);
    assert_eq!(w.read("binary"), "Xnew\n");
}

fn an_undo_leaves_named_paths_as_they_are(w: &World) {
    w.outside("echo f > f; echo g > g; echo gone > gone").ok();
    w.sandbox_with("s", "echo F > f; echo G > g; rm gone; mkdir -p d/e; echo x > d/e/x; echo y > d/y");
    w.apply(&["s"]).ok();
    w.fork("s", "fork");
    w.outside("echo mine > f; echo mine > d/e/x").ok();
    w.whatif(["undo", "--yes"]).go().exits(1).says("--skip");
    w.whatif(["undo", "--yes", "--skip", "nothing"]).go().fails_with_hint(2);
    w.whatif(["undo", "--yes", "--skip", "*"]).go().fails_with_hint(2);
    let undone = w.json(["undo", "--yes", "--skip", "f", "--skip", "d/e/x"]);
    assert_eq!(undone["skipped"], json!(["d", "d/e", "d/e/x", "f"]), "{undone}");
    assert_eq!(w.outside("cat f g gone d/e/x; find d").ok().stdout, "mine\ng\ngone\nmine\nd\nd/e\nd/e/x\n");
    let page = w.json(["history"])[0].clone();
    assert_eq!(page["skipped"].as_array().map(Vec::len), Some(4), "{page}");
    let listed = w.whatif(["history"]).go().ok().stdout;
    assert!(listed.contains("but for 4 paths"), "{listed}");
    // What was left out is still real, and what reality made of it since is merged with what comes later.
    for name in ["s", "fork"] {
        let document = w.json(["diff", name]);
        let changes = document["changes"].as_array().expect("a list").iter().map(|c| c["path"].clone()).collect::<Vec<_>>();
        assert_eq!(changes, ["d/y", "g", "gone"], "{name}");
    }
    let id = page["id"].as_str().expect("it has one");
    w.whatif(["undo", id, "--yes"]).go().ok();
    assert_eq!(w.outside("cat f g d/e/x d/y; ls").ok().stdout, "mine\nG\nmine\ny\nd\nf\ng\n");
}

fn an_undo_says_where_the_earlier_versions_are(w: &World) {
    w.outside("echo before > f").ok();
    w.sandbox_with("s", "echo F > f");
    w.apply(&["s"]).ok();
    w.outside("echo mine > f").ok();
    let outcome = w.whatif(["undo", "--yes"]).go().exits(1);
    let earlier = outcome.stderr.split_whitespace().find(|word| word.contains("/old/")).expect("it is named").to_owned();
    assert_eq!(w.outside(&format!("cat {earlier}")).ok().text(), "before");
}

/// Maps a file, writes to it, and writes again to the page that is dirty then, which moves no time.
const MAPPED: &str = r#"
import mmap, sys
with open(sys.argv[1], 'r+b') as file:
    mapped = mmap.mmap(file.fileno(), 0)
mapped[2:6] = b'BBBB'
print('dirty', flush=True)
sys.stdin.readline()
mapped[6:16] = b'LATEREDITS'
print('again', flush=True)
sys.stdin.readline()
"#;

fn an_apply_sees_what_reality_wrote_through_a_mapping(w: &World) {
    needs!(w, "python3");
    w.outside("head -c 4000 /dev/zero > f; cp f g").ok();
    for (path, script) in [("f", "printf SANDBOX | dd of=f bs=1 seek=3000 conv=notrunc status=none"), ("g", "rm g")] {
        let pipes = (Stdio::piped(), Stdio::piped(), Stdio::inherit());
        let mut writer = w.program("python3").args(["-c", MAPPED, path]).streams(pipes.0, pipes.1, pipes.2).spawn();
        let mut said = BufReader::new(writer.stdout.take().expect("it is piped")).lines();
        let mut input = writer.stdin.take().expect("it is piped");
        assert_eq!(said.next().expect("a line").expect("text"), "dirty");
        w.sandbox_with(path, script);
        w.json(["diff", path]);
        writeln!(input).expect("it listens");
        assert_eq!(said.next().expect("a line").expect("text"), "again");
        w.apply(&[path]).exits(1);
        writeln!(input).expect("it listens");
        writer.wait().expect("it ends");
        assert!(w.outside(&format!("grep -c LATEREDITS {path}")).ok().text() == "1", "{path}");
    }
}

/// The sandbox touched it without changing it. What it started from is what it is merged with when both sides edit it after that.
fn what_was_written_again_with_the_same_bytes_is_merged_later(w: &World) {
    for backend in ["overlay", "copy"] {
        w.outside("rm -f *; seq 20 > f; seq 20 > touched").ok();
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "cp f g; cat g > f; rm g; chmod +x touched; chmod -x touched").ok();
        w.outside("sed -i 's/^2$/two/' f touched").ok();
        w.exec(backend, "sed -i 's/^18$/eighteen/' f touched").ok();
        let status = w.json(["status", backend]);
        assert_eq!(status["conflicts"], 0, "{backend}: {status}");
        w.apply(&[backend]).ok();
        let merged = w.outside("seq 20 | sed 's/^2$/two/; s/^18$/eighteen/'").ok().stdout;
        assert_eq!((w.read("f"), w.read("touched")), (merged.clone(), merged), "{backend}");
    }
}
