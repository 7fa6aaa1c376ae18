//! Reality is replaced under a living sandbox, whose kernel remembers what it looked up before. Whatever the sandbox saw, no change
//! of reality may be lost: what comes out is a merge or a conflict.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use whatif_e2e::{World, as_root_and_user, eventually, needs};

as_root_and_user!(
    what_reality_puts_into_a_replaced_directory_is_not_lost,
    an_apply_of_another_sandbox_is_merged_with_an_edit_in_place,
    an_apply_of_another_sandbox_is_merged_with_an_edit_by_rename,
    an_undo_of_another_sandbox_is_seen,
    an_edit_by_hand_is_not_lost,
    an_edit_by_hand_is_not_lost_over_fuse,
    what_reality_appends_is_not_lost_over_fuse,
    what_reality_appends_is_copied_inside,
    what_a_first_write_lacks_that_reality_just_appended_is_in_doubt,
    what_a_first_write_has_of_it_was_seen,
    an_edit_by_hand_is_seen_by_the_next_command,
    an_edit_by_hand_is_seen_through_layers,
    a_swapped_directory_is_not_lost,
    a_replaced_link_is_not_lost,
    a_replaced_file_is_not_deleted_unasked,
    a_replaced_binary_file_is_not_lost,
    a_process_that_goes_on_does_not_lose_an_edit,
    an_unknown_start_stays_unknown_over_snapshots_and_forks,
    an_unknown_start_can_be_settled,
    a_lost_start_stays_lost_in_copies,
    a_rebase_takes_an_unknown_start_for_none,
    what_is_unrelated_is_no_conflict,
    old_files_in_changed_directories_are_no_conflict,
    the_same_bytes_again_are_no_conflict,
    files_made_just_before_are_no_conflict,
    the_next_command_sees_what_reality_has,
    the_next_command_sees_what_reality_has_while_another_runs,
    the_next_command_sees_what_reality_has_beneath_layers,
    many_commands_at_once_leave_a_view_that_follows_reality,
    what_reality_deletes_does_not_come_back,
    a_directory_can_be_renamed_inside_after_reality_replaced_it,
    what_the_sandbox_only_copied_does_not_come_back,
);

const LOOK: &str = "cat a.txt d/a.txt bin bin2 link/x 2> /dev/null; readlink link; ls -l . d > /dev/null";
const IN_PLACE: &str = "sed s/^9$/nine/ a.txt > /tmp/new; cat /tmp/new > a.txt";
const BY_RENAME: &str = "sed -i s/^9$/nine/ a.txt";

/// A project with lines to change, and a sandbox that has seen them.
fn seen(w: &World, backend: &str) {
    w.outside("seq 10 > a.txt; mkdir -p d other; seq 10 > d/a.txt; seq 10 > other/a.txt; echo > other/b; ln -sfn one link").ok();
    w.outside("printf 'bin\\0one' > bin; printf 'bin\\0two' > bin2").ok();
    w.whatif(["new", "b", "--backend", backend]).go().ok();
    w.exec("b", LOOK).ok();
}

/// Reality changes while a command that has seen the project goes on; then the command does what it does.
#[track_caller]
fn meanwhile(w: &World, reality: &str, inside: &str) {
    w.exec_around("b", LOOK, reality, inside);
}

/// Applies it. A conflict must leave reality alone.
fn applies(w: &World, path: &str, reality: &str) -> bool {
    let before = w.outside(&format!("cat {path}")).stdout;
    let outcome = w.apply(&["b"]);
    match outcome.code {
        0 => true,
        1 => {
            assert!(outcome.stderr.contains(path), "{}", outcome.stderr);
            assert_eq!(w.outside(&format!("cat {path}")).stdout, before, "nothing is written in a conflict");
            assert!(before.contains(reality), "{before}");
            let said = w.whatif(["status", "b"]).go().ok().stdout;
            assert!(!said.contains("has not moved"), "{said}");
            false
        }
        _ => panic!("{}", outcome.stderr),
    }
}

fn assert_both(w: &World, path: &str) {
    let text = w.read(path);
    assert!(text.contains("one") && text.contains("nine"), "a line was lost:\n{text}");
}

fn applied_elsewhere(w: &World, edit: &str) {
    seen(w, "overlay");
    w.whatif(["new", "a", "--backend", "overlay"]).go().ok();
    w.exec("a", "sed -i s/^1$/one/ a.txt").ok();
    w.apply(&["a"]).ok();
    w.exec("b", edit).ok();
    w.apply(&["b"]).ok();
    assert_both(w, "a.txt");
}

fn an_apply_of_another_sandbox_is_merged_with_an_edit_in_place(w: &World) {
    applied_elsewhere(w, IN_PLACE);
}

fn an_apply_of_another_sandbox_is_merged_with_an_edit_by_rename(w: &World) {
    applied_elsewhere(w, BY_RENAME);
}

fn an_undo_of_another_sandbox_is_seen(w: &World) {
    seen(w, "overlay");
    w.whatif(["new", "a", "--backend", "overlay"]).go().ok();
    w.exec("a", "sed -i s/^1$/one/ a.txt").ok();
    w.apply(&["a"]).ok();
    w.exec("b", "grep one a.txt").ok();
    w.whatif(["undo", "--yes"]).go().ok();
    w.exec("b", &format!("{BY_RENAME}; ! grep one a.txt")).ok();
    w.apply(&["b"]).ok();
    assert_eq!(w.read("a.txt"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n10\n");
}

fn edited_by_hand(w: &World, backend: &str) {
    for edit in [IN_PLACE, BY_RENAME] {
        seen(w, backend);
        meanwhile(w, "sed -i s/^1$/one/ a.txt", edit);
        if applies(w, "a.txt", "one") && !kept_its_temporary_name(w, backend, edit) {
            assert_both(w, "a.txt");
        }
        w.whatif(["rm", "b", "--yes"]).go().ok();
    }
}

fn an_edit_by_hand_is_not_lost(w: &World) {
    edited_by_hand(w, "overlay");
}

fn an_edit_by_hand_is_not_lost_over_fuse(w: &World) {
    needs!(w, "fuse-overlayfs");
    if w.outside("exec 3<>/dev/fuse").code == 0 {
        edited_by_hand(w, "fuse");
    }
}

/// What a running command has looked at it may go on seeing as it was.
fn what_reality_appends_is_not_lost_over_fuse(w: &World) {
    needs!(w, "fuse-overlayfs");
    if w.outside("exec 3<>/dev/fuse").code != 0 {
        return;
    }
    for edit in ["echo eleven >> a.txt", BY_RENAME, "cp a.txt copy; echo eleven >> copy; mv copy a.txt"] {
        seen(w, "fuse");
        meanwhile(w, "echo theirs >> a.txt", edit);
        let outcome = w.apply(&["b"]);
        assert!(w.read("a.txt").contains("theirs"), "{edit}: {} {}", w.read("a.txt"), outcome.stdout);
        w.whatif(["rm", "b", "--yes"]).go().ok();
    }
}

/// An overlay goes by the size that it remembers where it is asked to copy.
fn what_reality_appends_is_copied_inside(w: &World) {
    seen(w, "overlay");
    meanwhile(w, "echo theirs >> a.txt", "cp a.txt copy");
    assert_eq!(w.exec("b", "tail -n 1 copy").ok().stdout, "theirs\n");
    assert_eq!(w.exec("b", "echo more >> copy; mv copy a.txt; tail -n 2 a.txt").ok().stdout, "theirs\nmore\n");
    w.apply(&["b"]);
    assert!(w.read("a.txt").contains("theirs"));
}

/// Whether `sed -i` inside renamed nothing. Its new file can get the number of the inode that reality just gave up; fuse-overlayfs takes
/// both for one file, and renaming a file to another of its names does nothing. What was written is at its temporary name then.
fn kept_its_temporary_name(w: &World, backend: &str, edit: &str) -> bool {
    let is_there = || w.outside("grep -q nine sed?????? && grep -q one a.txt && rm sed??????").code == 0;
    backend == "fuse" && edit == BY_RENAME && is_there()
}

/// The kernel takes the size of what it copies up some time before it makes the copy. About one of a thousand appended lines was lost
/// by that at random moments; here the command itself leaves them out, which looks the same.
fn what_a_first_write_lacks_that_reality_just_appended_is_in_doubt(w: &World) {
    append_and_write(w, "f.truncate(6)");
    w.apply(&["b"]).exits(1).says("not known");
    assert_eq!(w.read("1"), "start\nappended\n");
}

fn what_a_first_write_has_of_it_was_seen(w: &World) {
    append_and_write(w, "pass");
    w.apply(&["b"]).ok();
    assert_eq!(w.read("1"), "Start\nappended\n");
}

/// Reality appends to twenty files, one after the other, and a running command that sees it writes to each for the first time, some
/// milliseconds later unless the machine is busy.
fn append_and_write(w: &World, then: &str) {
    const FILES: u64 = 20;
    w.outside(&format!("for n in $(seq {FILES}); do echo start > $n; done")).ok();
    w.new_sandbox("b");
    let program = format!(
        "import os, time\nprint('ready', flush=True)\nfor n in range(1, {FILES} + 1):\n\
         \x20   while os.stat(str(n)).st_size == 6: pass\n\
         \x20   time.sleep(0.02)\n\
         \x20   with open(str(n), 'r+') as f: f.write('S'); f.flush(); {then}\n\
         \x20   print(n, flush=True)\n"
    );
    let call = w.whatif(["exec", "b", "--", "/usr/bin/python3", "-c", &program]);
    let mut running = call.streams(Stdio::null(), Stdio::piped(), Stdio::inherit()).spawn();
    let mut said = BufReader::new(running.stdout.take().expect("it is a pipe")).lines();
    for n in 1..=FILES {
        said.next().expect("it goes on").expect("it can be read");
        let mut file = File::options().append(true).open(w.project.join(n.to_string())).expect("it is there");
        file.write_all(b"appended\n").expect("it can be written to");
    }
    assert_eq!(said.last().expect("it goes on").expect("it can be read"), FILES.to_string());
    assert!(running.wait().expect("it is our child").success());
}

fn an_edit_by_hand_is_seen_by_the_next_command(w: &World) {
    seen(w, "overlay");
    w.outside("sed -i s/^1$/one/ a.txt").ok();
    w.exec("b", BY_RENAME).ok();
    w.apply(&["b"]).ok();
    assert_both(w, "a.txt");
}

/// Beneath layers lies an overlay of its own, which remembers as much as the one above.
fn an_edit_by_hand_is_seen_through_layers(w: &World) {
    seen(w, "overlay");
    w.exec("b", "echo > made").ok();
    w.whatif(["snapshot", "b", "s"]).go().ok();
    w.whatif(["fork", "b@s", "forked"]).go().ok();
    w.whatif(["template", "save", "b", "t"]).go().ok();
    w.whatif(["new", "templated", "--template", "t"]).go().ok();
    let all = ["b", "forked", "templated"];
    for name in all {
        w.exec(name, "cat a.txt; ls -l d").ok();
    }
    w.outside("sed -i s/^1$/one/ a.txt; mv d gone; mkdir d; echo new > d/new; rm other/b").ok();
    for name in all {
        w.exec(name, "grep one a.txt; cat d/new; test ! -e d/a.txt -a ! -e other/b").ok();
    }
    w.exec("b", "rm d/new").ok();
    w.exec("forked", BY_RENAME).ok();
    w.exec("templated", "sed -i s/^5$/five/ a.txt").ok();
    w.outside("sed -i s/^3$/three/ a.txt; echo newer > d/newer; mv d/newer d/new").ok();
    w.apply(&["b"]).exits(1);
    assert_eq!(w.read("d/new"), "newer\n");
    w.apply(&["forked"]).ok();
    w.apply(&["templated"]).ok();
    let text = w.read("a.txt");
    assert!(["one", "three", "five", "nine"].iter().all(|line| text.contains(line)), "a line was lost:\n{text}");
}

fn a_swapped_directory_is_not_lost(w: &World) {
    for edit in [BY_RENAME, IN_PLACE] {
        seen(w, "overlay");
        // Made before the sandbox was, and put in place after: nothing in it has a new time.
        w.whatif(["rm", "b", "--yes"]).go().ok();
        w.outside("sed s/^1$/one/ d/a.txt > other/a.txt").ok();
        w.whatif(["new", "b"]).go().ok();
        meanwhile(w, "mv d gone; mv other d", &format!("cd d && {edit}"));
        if applies(w, "d/a.txt", "one") {
            assert_both(w, "d/a.txt");
        }
        w.whatif(["rm", "b", "--yes"]).go().ok();
        w.outside("rm -rf d gone other").ok();
    }
}

fn a_replaced_link_is_not_lost(w: &World) {
    seen(w, "overlay");
    meanwhile(w, "ln -s two new; mv -T new link", "ln -sfn three link");
    w.apply(&["b"]).exits(1);
    assert_eq!(w.outside("readlink link").ok().stdout, "two\n");
}

fn a_replaced_file_is_not_deleted_unasked(w: &World) {
    seen(w, "overlay");
    meanwhile(w, "sed -i s/^1$/one/ a.txt d/a.txt; printf 'bin\\0new' > new; mv new bin", "rm a.txt bin; rm -r d");
    w.apply(&["b"]).exits(1);
    assert!(w.read("a.txt").contains("one") && w.read("d/a.txt").contains("one"));
}

fn a_replaced_binary_file_is_not_lost(w: &World) {
    seen(w, "overlay");
    let reality = "printf 'bin\\0new' > new; mv new bin; printf 'bin\\0new' > new; mv new bin2";
    meanwhile(w, reality, "printf x >> bin; cat bin2 > /tmp/n; printf x >> /tmp/n; cp /tmp/n n; mv n bin2");
    w.apply(&["b"]).exits(1);
    assert_eq!(w.outside("cat bin bin2 | tr '\\0' 0").ok().stdout, "bin0newbin0new");
}

fn a_process_that_goes_on_does_not_lose_an_edit(w: &World) {
    seen(w, "overlay");
    // It keeps the view, and what it has read of it.
    let script = "exec 3< a.txt; touch /tmp/ready; while [ ! -e /tmp/go ]; do sleep 0.02; done; sed s/^9$/nine/ <&3 > n; mv n a.txt; \
        touch /tmp/done; sleep 1000";
    w.whatif(["exec", "-d", "b", "--", "sh", "-c", script]).go().ok();
    eventually("it has read it", || w.exec("b", "test -e /tmp/ready").code == 0);
    w.whatif(["new", "a", "--backend", "overlay"]).go().ok();
    w.exec("a", "sed -i s/^1$/one/ a.txt").ok();
    w.apply(&["a"]).ok();
    w.exec("b", "touch /tmp/go").ok();
    eventually("it has written it", || w.exec("b", "test -e /tmp/done").code == 0);
    let said = w.whatif(["status", "b"]).go().ok().stdout;
    assert!(said.contains("a.txt") && !said.contains("has not moved"), "{said}");
    w.apply(&["b"]).exits(1);
    assert!(w.read("a.txt").contains("one"));
}

/// A sandbox with a change of `a.txt` whose start is not known.
fn unknown(w: &World) {
    seen(w, "overlay");
    w.whatif(["exec", "-d", "b", "--", "sh", "-c", "exec 3< a.txt; sleep 1000"]).go().ok();
    w.outside("sed -i s/^1$/one/ a.txt").ok();
    w.exec("b", BY_RENAME).ok();
    assert_eq!(whatif_e2e::change(&w.json(["diff", "b"]), "a.txt")["base"], "unknown");
}

fn an_unknown_start_stays_unknown_over_snapshots_and_forks(w: &World) {
    unknown(w);
    w.whatif(["snapshot", "b", "--stop"]).go();
    w.whatif(["stop", "b"]).go().ok();
    w.whatif(["snapshot", "b"]).go().ok();
    w.whatif(["start", "b"]).go().ok();
    w.exec("b", "echo more > more").ok();
    w.whatif(["snapshot", "b"]).go().ok();
    w.whatif(["fork", "b", "f"]).go().ok();
    w.whatif(["squash", "b"]).go();
    for name in ["b", "f"] {
        assert_eq!(whatif_e2e::change(&w.json(["diff", name]), "a.txt")["base"], "unknown", "{name}");
        w.apply(&[name]).exits(1);
    }
    assert!(w.read("a.txt").contains("one"));
}

/// What tells it is when the sandbox's file was made, and a copy is made later.
fn a_lost_start_stays_lost_in_copies(w: &World) {
    w.outside("seq 10 > a.txt; seq 10 > gone.txt").ok();
    w.whatif(["new", "b", "--backend", "overlay"]).go().ok();
    let edit = "sed s/^9$/nine/ a.txt > /tmp/new; cat /tmp/new > a.txt; rm gone.txt; touch done; sleep 1000";
    w.whatif(["exec", "-d", "b", "--", "sh", "-c", edit]).go().ok();
    // Without a command in it, after which somebody would look.
    eventually("it has written", || w.outside(&format!("find {} -name done | grep -q .", w.state.display())).code == 0);
    w.outside("echo theirs > a.txt; echo theirs > gone.txt").ok();
    w.whatif(["fork", "b", "forked"]).go().ok();
    w.whatif(["export", "b", "-o", "b.whatif"]).go().ok();
    w.whatif(["import", "b.whatif", "--name", "imported", "--backend", "overlay"]).go().ok();
    w.whatif(["snapshot", "b"]).go().ok();
    w.whatif(["snapshot", "b"]).go().ok();
    w.whatif(["squash", "b"]).go();
    for name in ["forked", "imported", "b"] {
        w.apply(&[name, "--all"]).exits(1).says("a.txt").says("gone.txt");
        assert_eq!(w.read("a.txt") + &w.read("gone.txt"), "theirs\ntheirs\n", "{name}");
    }
}

fn an_unknown_start_can_be_settled(w: &World) {
    unknown(w);
    let (standing, told) = (w.json(["status", "b"]), w.whatif(["status", "b"]).go().ok().stdout);
    let moved = standing["drift"].as_array().and_then(|all| all.iter().find(|d| d["path"] == "a.txt")).expect("a.txt moved");
    assert_eq!((&moved["collides"], &moved["base"]), (&"conflict".into(), &"unknown".into()), "{standing:#}");
    assert!(told.contains("which version the sandbox saw is not known"), "{told}");
    let said = w.apply(&["b"]).exits(1).stderr;
    assert!(said.contains("not known"), "{said}");
    w.apply(&["b", "--skip", "a.txt"]);
    assert!(w.read("a.txt").contains("one"));
    w.apply(&["b", "--theirs", "a.txt"]).ok();
    assert!(w.read("a.txt").contains("nine"));
    assert_eq!(w.json(["diff", "b"])["changes"], serde_json::json!([]));
    w.exec("b", "sed -i s/^2$/two/ a.txt").ok();
    w.apply(&["b"]).ok();
    assert!(w.read("a.txt").contains("two"), "it is known again");
}

fn a_rebase_takes_an_unknown_start_for_none(w: &World) {
    unknown(w);
    w.whatif(["stop", "b"]).go().ok();
    w.whatif(["rebase", "b"]).go();
    w.apply(&["b"]).exits(1);
    assert!(w.read("a.txt").contains("one"));
    assert!(w.outside("cat a.txt").ok().stdout.contains("one"));
}

fn what_is_unrelated_is_no_conflict(w: &World) {
    seen(w, "overlay");
    w.outside("echo n > n1; echo n > d/n1; sed -i s/^1$/one/ d/a.txt; touch other/n; echo more >> a.txt").ok();
    w.exec("b", "sed -i s/^9$/nine/ other/a.txt; echo x >> a.txt; rm bin; printf x >> bin2; ln -sfn three link; echo new > d/new")
        .ok();
    w.apply(&["b"]).ok();
    assert!(w.read("other/a.txt").contains("nine") && w.read("a.txt").ends_with("more\nx\n"));
    assert_eq!(w.outside("readlink link; ls d n1").ok().stdout, "three\nn1\n\nd:\na.txt\nn1\nnew\n");
}

fn old_files_in_changed_directories_are_no_conflict(w: &World) {
    w.outside("mkdir -p p/q; seq 10 > p/q/f; seq 10 > p/q/g; seq 10 > p/q/h").ok();
    w.whatif(["new", "b", "--backend", "overlay"]).go().ok();
    w.exec("b", "cat p/q/*").ok();
    // Every directory on the way gets a new time.
    w.outside("touch top p/n p/q/n").ok();
    w.exec("b", "sed -i s/^9$/nine/ p/q/f; echo x >> p/q/g").ok();
    w.apply(&["b"]).ok();
    assert!(w.read("p/q/f").contains("nine") && w.read("p/q/g").ends_with("x\n"));
}

fn the_same_bytes_again_are_no_conflict(w: &World) {
    seen(w, "overlay");
    w.exec("b", "sed -i s/^9$/nine/ a.txt; printf x >> bin; rm bin2").ok();
    w.outside("for f in a.txt bin bin2; do cp $f new; mv new $f; done").ok();
    w.apply(&["b"]).ok();
    assert!(w.read("a.txt").contains("nine"));
    assert_eq!(w.outside("cat bin | tr '\\0' 0; ls bin2").stdout, "bin0onex");
}

fn files_made_just_before_are_no_conflict(w: &World) {
    for n in 0..5 {
        let name = format!("s{n}");
        // One shell for both, so that hardly any time passes between them.
        let script =
            format!("mkdir -p p{n}/q; seq 10 > p{n}/q/f; exec \"$0\" run -q --keep --name {name} -- sed -i s/^9$/nine/ p{n}/q/f");
        w.program("/bin/sh").args(["-c", &script]).args([&w.bin]).go().ok();
        w.apply(&[&name]).ok();
        assert!(w.read(format!("p{n}/q/f")).contains("nine"));
    }
}

/// A directory that the sandbox replaced hides what reality puts into its own; a name that both give is a conflict.
fn what_reality_puts_into_a_replaced_directory_is_not_lost(w: &World) {
    w.outside("mkdir d; echo old > d/old").ok();
    w.new_sandbox("s");
    w.exec("s", "mv d aside && cp -a aside d && rm -rf aside; echo new > d/new").ok();
    w.whatif(["apply", "s", "--all", "--yes"]).go().ok();
    w.outside("mv d aside && cp -a aside d && rm -rf aside; echo theirs > d/both").ok();
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["rebase", "s"]).go();
    w.whatif(["start", "s"]).go().ok();
    w.exec("s", "echo mine > d/both").ok();
    w.whatif(["apply", "s", "--all", "--yes"]).go().exits(1);
    assert_eq!(w.read("d/both"), "theirs\n");
}

/// At once, and by whatever means reality was changed.
fn sees_reality(w: &World) {
    let look = "cat a.txt d/a.txt other/b 2>&1; readlink link; ls";
    for round in ["one", "two", "three"] {
        w.exec("b", look).ok();
        w.outside(&format!("echo {round} > new; mv new a.txt; mkdir d2; echo {round} > d2/a.txt; rm -r d; mv d2 d")).ok();
        w.outside(&format!("ln -sfn {round} link; rm -f other/b")).ok();
        let seen = w.exec("b", look).stdout;
        assert!(seen.starts_with(&format!("{round}\n{round}\ncat: other/b: No such file or directory\n{round}\n")), "{seen}");
        w.outside("echo again > other/b").ok();
    }
}

fn the_next_command_sees_what_reality_has(w: &World) {
    seen(w, "overlay");
    sees_reality(w);
}

fn the_next_command_sees_what_reality_has_while_another_runs(w: &World) {
    seen(w, "overlay");
    w.whatif(["exec", "b", "-d", "--", "/bin/sleep", "1000"]).go().ok();
    sees_reality(w);
}

/// All of them make the view fresh with the same descriptors, and nothing orders them while something runs.
fn many_commands_at_once_leave_a_view_that_follows_reality(w: &World) {
    seen(w, "overlay");
    w.whatif(["exec", "b", "-d", "--", "/bin/sleep", "1000"]).go().ok();
    for _ in 0..40 {
        let at_once: Vec<_> = (0..6).map(|_| w.whatif(["exec", "b", "--", "cat", "a.txt"]).spawn()).collect();
        for mut command in at_once {
            assert!(command.wait().expect("it ends").success());
        }
    }
    sees_reality(w);
    w.whatif(["exec", "b", "--", "sh", "-c", "kill -KILL -1"]).go();
    sees_reality(w);
}

fn the_next_command_sees_what_reality_has_beneath_layers(w: &World) {
    seen(w, "overlay");
    w.exec("b", "echo more > more").ok();
    w.whatif(["snapshot", "b"]).go().ok();
    sees_reality(w);
    w.whatif(["exec", "b", "-d", "--", "/bin/sleep", "1000"]).go().ok();
    sees_reality(w);
}

fn what_reality_deletes_does_not_come_back(w: &World) {
    for runs in [false, true] {
        seen(w, "overlay");
        if runs {
            w.whatif(["exec", "b", "-d", "--", "/bin/sleep", "1000"]).go().ok();
        }
        w.exec("b", "cat a.txt d/a.txt > /dev/null").ok();
        w.outside("rm -r a.txt d").ok();
        w.exec("b", "[ ! -e a.txt ]; echo new >> a.txt; [ ! -e d ]").ok();
        w.apply(&["b", "--all"]).ok();
        assert_eq!((w.read("a.txt").as_str(), w.project.join("d").exists()), ("new\n", false), "runs: {runs}");
        w.whatif(["rm", "b", "--yes"]).go().ok();
    }
}

/// Otherwise both names lead to one directory later, and neither can be opened.
fn a_directory_can_be_renamed_inside_after_reality_replaced_it(w: &World) {
    seen(w, "overlay");
    w.outside("mkdir d/e; echo x > d/e/f").ok();
    w.whatif(["exec", "b", "-d", "--", "/bin/sleep", "1000"]).go().ok();
    w.exec("b", "find . > /dev/null; chmod 750 d/e").ok();
    w.outside("mv d swapped; cp -a swapped d; rm -r swapped").ok();
    w.exec("b", "mv d/e renamed").ok();
    w.whatif(["stop", "b"]).go().ok();
    w.whatif(["start", "b"]).go().ok();
    assert_eq!(w.exec("b", "cat renamed/f; ls d").ok().stdout, "x\na.txt\n");
}

/// The sandbox had touched the directory before reality put something into it, and makes it again later.
fn what_the_sandbox_only_copied_does_not_come_back(w: &World) {
    seen(w, "overlay");
    w.exec("b", "chmod 750 d; echo mine > d/mine").ok();
    w.whatif(["snapshot", "b"]).go().ok();
    w.outside("ln -s nowhere d/link; echo theirs > d/theirs").ok();
    w.exec("b", "mv d swapped; cp -a swapped d; rm -r swapped; echo more >> d/mine").ok();
    w.whatif(["diff", "b"]).go().ok();
    w.outside("rm d/link d/theirs").ok();
    w.apply(&["b", "--all"]).ok();
    assert_eq!(w.outside("ls d").text(), "a.txt\nmine");
}
