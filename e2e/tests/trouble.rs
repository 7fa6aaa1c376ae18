//! A full disk, a read-only one, a keeper that does not answer, configuration that is no file: the tool stays usable and says why.

use whatif_e2e::{World, as_root, as_root_and_user, needs};

as_root_and_user!(
    a_keeper_that_is_stopped_can_still_be_ended,
    a_directory_closed_by_the_sandbox_does_not_get_in_the_way,
    a_project_file_that_is_no_file_is_refused,
    output_that_cannot_be_written_is_no_success
);
as_root!(
    whole_seconds_are_refused,
    a_full_state_directory_can_be_emptied,
    an_import_on_a_full_disk_leaves_nothing,
    a_disk_that_is_nearly_full_is_told,
    a_read_only_state_directory_can_be_read,
);

fn with_small_disk(w: &World, script: &str) -> String {
    let text = format!(
        "mount -t tmpfs -o mode=700,size=3m none {state} && W={bin}; {script}",
        state = w.state.display(),
        bin = w.bin.display()
    );
    let outcome = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &text]).go();
    format!("{}{}", outcome.stdout, outcome.stderr)
}

fn a_full_state_directory_can_be_emptied(w: &World) {
    let said = with_small_disk(
        w,
        "$W run --name full -- dd if=/dev/zero of=big bs=64k; $W ls -q; $W rm full; echo removed $?; \
         i=0; while [ -n \"$(ls -A $WHATIF_HOME/transient)\" ] && [ $i -lt 3000 ]; do i=$((i+1)); sleep 0.01; done; $W run --rm -q -- echo again",
    );
    assert!(said.contains("full\n") && said.contains("removed 0") && said.contains("again"), "{said}");
    assert!(!w.project.join("big").exists());
}

fn an_import_on_a_full_disk_leaves_nothing(w: &World) {
    // There is room for what the archive holds, but not for a block of the disk for each of its files.
    let said = with_small_disk(
        w,
        "$W run -q --keep --name s -- sh -c 'for n in $(seq 200); do echo $n > n$n; done'; $W export s -o ../a.whatif >/dev/null 2>&1; \
         head -c $(( ($(df -k --output=avail $WHATIF_HOME | tail -1) - 500) * 1024 )) /dev/zero > $WHATIF_HOME/filler; \
         $W import ../a.whatif --name i; echo code $?; rm $WHATIF_HOME/filler; $W ls -q; ls -A $WHATIF_HOME/transient; \
         $W import ../a.whatif --name i >/dev/null 2>&1; echo then $?; $W diff i --name-only | wc -l; $W rm --all -y >/dev/null 2>&1",
    );
    assert!(said.contains("code 125\ns\nthen 0\n200\n") && said.contains("hint: the disk is full"), "{said}");
}

/// The records are mapped into memory in pages, and the blocks of a small disk are smaller than those: what has no block cannot be
/// written, and nobody returns an error for it.
fn a_disk_that_is_nearly_full_is_told(w: &World) {
    needs!(w, "mkfs.ext4");
    let script = format!(
        "truncate -s 40M ../disk && mkfs.ext4 -q -F -m 0 -b 1024 ../disk && mount -o loop ../disk {state} && export WHATIF_HOME={state}/s; \
         for left in $(seq 4 4 120); do \
             free=$(df -k --output=avail {state} | tail -1); \
             dd if=/dev/zero of={state}/filler bs=1k count=$((free - left)) 2>/dev/null; \
             {bin} new t > ../said 2>&1; code=$?; rm {state}/filler; \
             case $code in 0) echo made;; 125) grep -q 'the disk is full' ../said && echo told;; *) echo $left: $code; cat ../said;; esac; \
             {bin} rm --all --yes > /dev/null 2>&1; rm -rf $WHATIF_HOME; \
         done",
        state = w.state.display(),
        bin = w.bin.display()
    );
    let said = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]).go().stdout;
    let ends: Vec<&str> = said.lines().collect();
    assert!(ends.len() == 30 && ends.iter().all(|end| ["told", "made"].contains(end)), "{said}");
    assert_eq!((ends.first(), ends.last()), (Some(&"told"), Some(&"made")), "{said}");
}

fn a_read_only_state_directory_can_be_read(w: &World) {
    let said = with_small_disk(
        w,
        &format!(
            "$W new seen >/dev/null 2>&1; $W stop seen; mount -o remount,ro {}; $W ls -q; $W run -- true; echo code $?",
            w.state.display()
        ),
    );
    assert!(said.contains("seen\n") && said.contains("code 125") && said.contains("hint:"), "{said}");
}

/// PR-08.
fn a_keeper_that_is_stopped_can_still_be_ended(w: &World) {
    let name = w.new_sandbox("stuck");
    let pid = w.json(["show", &name])["keeper_pid"].as_i64().expect("a keeper");
    w.exec(&name, "echo kept > made").ok();
    w.outside(&format!("kill -STOP {pid}")).ok();
    w.whatif(["stop", "--grace", "100ms", &name]).go().ok();
    w.whatif(["start", &name]).go().ok();
    assert_eq!(w.exec(&name, "cat made").ok().text(), "kept");
}

fn a_directory_closed_by_the_sandbox_does_not_get_in_the_way(w: &World) {
    w.whatif(["run", "--name", "closed", "--", "/bin/sh", "-c", "mkdir d && echo x > d/f && chmod 000 d"]).go().ok();
    assert_eq!(w.json(["ls"])[0]["name"], "closed");
    w.whatif(["show", "closed"]).go().ok();
    w.whatif(["rm", "closed"]).go().ok();
}

fn a_project_file_that_is_no_file_is_refused(w: &World) {
    w.outside("mkfifo .whatif.toml").ok();
    w.whatif(["run", "--", "true"]).go().exits(125).says("not a regular file");
    w.outside("rm .whatif.toml; ln -s /dev/zero .whatif.toml").ok();
    w.whatif(["run", "--", "true"]).go().exits(125).says("not a regular file");
}

fn output_that_cannot_be_written_is_no_success(w: &World) {
    let bin = w.bin.display();
    assert_ne!(w.outside(&format!("{bin} run --rm -q -- echo hi > /dev/full")).code, 0);
    assert_ne!(w.outside(&format!("{bin} --json ls > /dev/full")).code, 0);
}

/// What two write within one second is one change there, and one of them would be lost.
fn whole_seconds_are_refused(w: &World) {
    needs!(w, "mkfs.ext4");
    w.outside("truncate -s 32M ../img; mkfs.ext4 -q -I 128 ../img 2> /dev/null; mkdir ../coarse").ok();
    // For root every mount is part of reality, and this one would come and go in the sandboxes of other tests.
    let run = |place: &str| {
        let script = format!(
            "mount -o loop ../img ../coarse && mkdir -p ../coarse/project && {place} && exec {} run -- true",
            w.bin.display()
        );
        w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]).go()
    };
    run("cd ../coarse/project").fails_with_hint(125).says("whole seconds");
    run("export WHATIF_HOME=$(realpath ../coarse)/state").fails_with_hint(125).says("whole seconds");
}
