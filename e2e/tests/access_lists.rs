//! Access control lists that name other users: an ordinary user's namespace does not show their ids, so what has to read a list
//! there carries it in full or refuses, and never loses it.

use whatif_e2e::{World, as_root, as_root_and_user, needs};

as_root!(a_list_of_a_directory_is_set_and_moved_with_every_backend);
as_root_and_user!(an_export_loses_no_list, a_merge_of_layers_loses_no_list, a_copy_of_a_head_loses_no_list);

/// A sandbox with two snapshots of files and a directory that another user has access to, in reality.
fn made(w: &World) -> String {
    w.outside("mkdir d; echo x > d/x; echo f > f; setfacl -m u:4242:rx d; setfacl -m u:4242:r f").ok();
    w.new_sandbox("s");
    w.exec("s", "echo X > d/x; echo F > f").ok();
    w.whatif(["snapshot", "s", "one"]).go().ok();
    w.exec("s", "echo y > d/y; echo G > f").ok();
    w.whatif(["snapshot", "s", "two"]).go().ok();
    w.outside("getfacl -cn d f").ok().stdout
}

/// Nothing of it is a change, and what was changed can be applied.
#[track_caller]
fn lists_are_as_they_were(w: &World, name: &str, lists: &str) {
    let changed = w.json(["diff", name]);
    let attributes = changed["changes"].as_array().into_iter().flatten().filter(|c| c["attributes"] != serde_json::json!([]));
    assert_eq!(attributes.count(), 0, "{changed}");
    w.whatif(["apply", name, "--yes", "--all"]).go().ok();
    assert_eq!((w.read("f").as_str(), w.read("d/y").as_str()), ("G\n", "y\n"));
    assert_eq!(w.outside("getfacl -cn d f").ok().stdout, lists);
}

fn an_export_loses_no_list(w: &World) {
    needs!(w, "setfacl", "getfacl");
    let lists = made(w);
    let exported = w.whatif(["export", "s"]).go();
    if w.is_root() {
        exported.ok();
        w.whatif(["import", "s.whatif", "--name", "again"]).go().ok();
        w.outside("rm s.whatif").ok();
        return lists_are_as_they_were(w, "again", &lists);
    }
    assert_ne!(exported.code, 0, "{}", exported.stdout);
    exported.says("access control list").says("setfacl -b").says("hint:");
    assert!(!w.project.join("s.whatif").exists());
    // What is advised works.
    w.exec("s", "setfacl -b d f").ok();
    w.whatif(["snapshot", "s", "three"]).go().ok();
    w.whatif(["squash", "s"]).go().ok();
    w.whatif(["export", "s"]).go().ok();
    w.outside("rm s.whatif").ok();
    // And it is a change like any other.
    let changed = w.json(["diff", "s"]);
    assert!(changed["changes"].to_string().contains("4242"), "{changed}");
}

fn a_merge_of_layers_loses_no_list(w: &World) {
    needs!(w, "setfacl", "getfacl");
    let lists = made(w);
    let merged = w.whatif(["squash", "s"]).go();
    if w.is_root() {
        merged.ok();
    } else {
        assert_ne!(merged.code, 0, "{}", merged.stdout);
        merged.says("access control list").says("/d");
    }
    w.whatif(["gc"]).go().ok();
    lists_are_as_they_were(w, "s", &lists);
}

fn a_copy_of_a_head_loses_no_list(w: &World) {
    needs!(w, "setfacl", "getfacl");
    w.outside("mkdir d; echo x > d/x; echo f > f; setfacl -m u:4242:rx d; setfacl -m u:4242:r f").ok();
    let lists = w.outside("getfacl -cn d f").ok().stdout;
    w.new_sandbox("s");
    w.exec("s", "echo y > d/y; echo G > f").ok();
    w.whatif(["exec", "-d", "s", "--", "sleep", "1000"]).go().ok();
    let copied = w.whatif(["snapshot", "s", "one"]).go();
    if w.is_root() {
        copied.ok();
    } else {
        assert_ne!(copied.code, 0, "{}", copied.stdout);
        copied.says("access control list");
        assert_eq!(w.exec("s", "cat f d/y").ok().stdout, "G\ny\n");
        w.whatif(["snapshot", "s", "one", "--live", "stop"]).go().ok();
    }
    w.whatif(["fork", "s@one", "t"]).go().ok();
    lists_are_as_they_were(w, "t", &lists);
}

fn a_list_of_a_directory_is_set_and_moved_with_every_backend(w: &World) {
    needs!(w, "setfacl", "getfacl", "fuse-overlayfs");
    for backend in ["overlay", "copy", "fuse"] {
        w.outside("rm -rf -- *; mkdir -p d/g own; echo x > d/g/x; setfacl -m u:4242:rx d/g").ok();
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "set -e; mv d moved; mkdir new; setfacl -m u:4243:rx new; setfacl -m u:4244:rx own; touch own/x").ok();
        w.whatif(["apply", backend, "--yes", "--all"]).go().ok();
        let lists = w.outside("getfacl -cn moved/g new own | grep user:4").ok().stdout;
        assert_eq!(lists, "user:4242:r-x\nuser:4243:r-x\nuser:4244:r-x\n", "{backend}");
        w.whatif(["rm", backend]).go().ok();
    }
}
