//! Ways of copy-on-write: each works, each is named, and none replaces a better one silently.

use whatif_e2e::{World, as_root, as_root_and_user, needs};

as_root_and_user!(the_best_backend_is_the_default, the_copy_backend_works_and_is_named, the_fuse_backend_works_and_is_named);
as_root!(
    a_state_directory_others_can_write_is_refused,
    a_state_directory_on_an_overlay_is_explained,
    a_state_directory_on_a_tmpfs_works
);

fn the_best_backend_is_the_default(w: &World) {
    w.whatif(["run", "--keep", "--name", "best", "--", "true"]).go().ok();
    let details = w.json(["show", "best"])["details"].clone();
    assert_eq!((details["backend"].as_str(), &details["backend_reason"]), (Some("overlay"), &serde_json::Value::Null));
}

fn works_and_is_named(w: &World, backend: &str) {
    w.write("edited", "old");
    w.write("deleted", "old");
    w.write("sub/kept", "same");
    w.whatif(["run", "--backend", backend, "--", "true"]).go().ok();
    assert_eq!(w.json(["ls"]), serde_json::json!([]), "nothing was changed, and nothing is left running");
    let script = "echo new > edited; rm deleted; echo x > added; cat sub/kept";
    let run = ["run", "--keep", "--name", "b", "--backend", backend, "--", "/bin/sh", "-c", script];
    let outcome = w.whatif(run).go().ok();
    assert_eq!(outcome.stdout, "same");
    assert_eq!((w.read("edited").as_str(), w.read("deleted").as_str()), ("old", "old"));
    assert!(!w.project.join("added").exists());
    let shown = w.json(["show", "b"]);
    assert_eq!(shown["details"]["backend"], backend);
    assert_eq!(shown["changes"]["changed_files"], 3, "{}", shown["changes"]);
    assert!(w.whatif(["show", "b"]).go().ok().stdout.contains(backend), "a person sees it as well");
    w.whatif(["start", "b"]).go().ok();
    assert_eq!(w.exec("b", "cat edited added; ls").ok().stdout, "new\nx\nadded\nedited\nsub\n");
}

fn the_copy_backend_works_and_is_named(w: &World) {
    works_and_is_named(w, "copy");
}

fn the_fuse_backend_works_and_is_named(w: &World) {
    needs!(w, "fuse-overlayfs");
    if w.outside("exec 3<>/dev/fuse").code == 0 {
        works_and_is_named(w, "fuse");
    } else {
        // What was asked for cannot be had: that is said, and nothing else is used in its place.
        w.whatif(["run", "--backend", "fuse", "--", "true"]).go().fails_with_hint(125).says("fuse");
        assert_eq!(w.json(["ls"]), serde_json::json!([]));
    }
}

/// As in a container: an overlay cannot hold the upper of another one.
fn a_state_directory_on_an_overlay_is_explained(w: &World) {
    let script = format!(
        "set -e; mkdir {d}/o {d}/o/l {d}/o/t; mount -t tmpfs none {d}/o/t; mkdir {d}/o/t/u {d}/o/t/w; \
         mount -t overlay overlay -o lowerdir={d}/o/l,upperdir={d}/o/t/u,workdir={d}/o/t/w {state}; \
         set +e; {bin} run --keep --name x -- /bin/sh -c 'echo x > made; cat made'; echo code $?; {bin} --json show x 2>/dev/null; {bin} rm --all --yes >/dev/null 2>&1",
        d = w.dir.display(),
        state = w.state.display(),
        bin = w.bin.display()
    );
    let outcome = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]).go();
    assert!(!w.project.join("made").exists());
    if outcome.stdout.contains("code 0") {
        assert!(outcome.stderr.contains("backend, because: overlay: "), "why not the best one is said: {}", outcome.stderr);
        assert!(outcome.stdout.contains("\"backend_reason\":\""), "and recorded: {}", outcome.stdout);
    } else {
        assert!(outcome.stdout.contains("code 125") && outcome.stderr.contains("hint:"), "{} {}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains("WHATIF_HOME"), "what to do is said: {}", outcome.stderr);
    }
}

fn a_state_directory_on_a_tmpfs_works(w: &World) {
    let script = format!(
        "mount -t tmpfs -o mode=700 none {} && {} run --rm -q -- /bin/sh -c 'echo x > made; cat made'",
        w.state.display(),
        w.bin.display()
    );
    let outcome = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]).go().ok();
    assert_eq!(outcome.text(), "x");
    assert!(!w.project.join("made").exists());
}

/// FS-18: whoever can write there could put a layer or a socket of their own in our way.
fn a_state_directory_others_can_write_is_refused(w: &World) {
    let open = w.dir.join("open-state");
    w.mkdir(&open);
    w.outside(&format!("chmod 777 {}", open.display())).ok();
    let outcome = w.whatif(["run", "--rm", "--", "echo", "ran"]).env("WHATIF_HOME", &open).go().fails_with_hint(125);
    assert_eq!(outcome.says("others can write").stdout, "");
}
