//! What a command does to the project's own directory, and to nothing in it, is work as well.

use whatif_e2e::{World, as_root_and_user};

as_root_and_user!(
    a_run_that_only_changes_the_projects_own_directory_is_kept,
    an_exec_that_only_changes_it_is_counted,
    a_run_that_leaves_it_as_it_was_is_not_kept,
);

fn a_run_that_only_changes_the_projects_own_directory_is_kept(w: &World) {
    w.outside("chmod 755 .; setfattr -n user.was -v there .").ok();
    for (name, script) in [
        ("mode", "chmod 750 ."),
        ("later", "chmod 711 .; sleep 0.1"),
        ("attribute", "setfattr -n user.note -v x ."),
        ("gone", "setfattr -x user.was ."),
    ] {
        let report = w.whatif(["run", "--name", name, "--", "/bin/sh", "-euc", script]).go().ok().stderr;
        assert!(report.contains(&format!("Kept as {name}")), "{script}: {report}");
        let difference = w.json(["diff", name]);
        assert_eq!(difference["changes"].as_array().map(Vec::len), Some(1), "{script}: {difference:#}");
    }
    // In the wink of an eye, and without a name.
    let report = w.whatif(["run", "--", "chmod", "700", "."]).go().ok().stderr;
    assert!(report.contains("1 path changed"), "{report}");
    w.apply(&["mode", "--risky"]).ok();
    assert_eq!(w.outside("stat -c %a .").ok().text(), "750");
}

fn an_exec_that_only_changes_it_is_counted(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "chmod 750 .").ok();
    let listed = w.json(["ls"]);
    let all = listed["sandboxes"].as_array().or_else(|| listed.as_array()).expect("a list");
    assert_eq!(all[0]["changed_files"], 1, "{listed:#}");
    let difference = w.json(["diff", "s"]);
    assert_eq!(difference["changes"][0]["kind"], "mode", "{difference:#}");
}

fn a_run_that_leaves_it_as_it_was_is_not_kept(w: &World) {
    w.outside("chmod 2775 .; setfattr -n user.was -v there .").ok();
    let report = w.whatif(["run", "--", "/bin/sh", "-euc", "chmod 700 .; chmod 2775 .; echo x > f; rm f"]).go().ok().stderr;
    assert!(report.contains("nothing changed"), "{report}");
}
