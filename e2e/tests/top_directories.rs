//! What a command does to the project's own directory, and to nothing in it, is work as well. Outside the home, that directory is the
//! top of a tree for an ordinary user: its head has no entry for it.

use std::path::PathBuf;

use whatif_e2e::{Outcome, World, as_root_and_user};

as_root_and_user!(
    a_run_that_only_changes_the_projects_own_directory_is_kept,
    an_exec_that_only_changes_it_is_counted,
    a_run_that_leaves_it_as_it_was_is_not_kept,
);

fn project(w: &World, script: &str) -> PathBuf {
    let project = w.dir.join("elsewhere");
    w.program("/bin/sh").args(["-euc", &format!("mkdir elsewhere; cd elsewhere; {script}")]).cwd(&w.dir).go().ok();
    project
}

fn a_run_that_only_changes_the_projects_own_directory_is_kept(w: &World) {
    let project = project(w, "chmod 755 .; setfattr -n user.was -v there .");
    let whatif = |arguments: &[&str]| -> Outcome { w.whatif([]).args(arguments).cwd(&project).go().ok() };
    for (name, script) in [
        ("mode", "chmod 750 ."),
        ("later", "chmod 711 .; sleep 0.1"),
        ("attribute", "setfattr -n user.note -v x ."),
        ("gone", "setfattr -x user.was ."),
    ] {
        let report = whatif(&["run", "--name", name, "--", "/bin/sh", "-euc", script]).stderr;
        assert!(report.contains(&format!("Kept as {name}")), "{script}: {report}");
        let difference = whatif(&["--json", "diff", name]).json();
        assert_eq!(difference["changes"].as_array().map(Vec::len), Some(1), "{script}: {difference:#}");
    }
    // In the wink of an eye, and without a name.
    let report = whatif(&["run", "--", "chmod", "700", "."]).stderr;
    assert!(report.contains("1 path changed"), "{report}");
    whatif(&["apply", "mode", "--yes", "--risky"]);
    assert_eq!(w.program("stat").args(["-c", "%a", "."]).cwd(&project).go().ok().text(), "750");
}

fn an_exec_that_only_changes_it_is_counted(w: &World) {
    let project = project(w, "chmod 755 .");
    let whatif = |arguments: &[&str]| -> Outcome { w.whatif([]).args(arguments).cwd(&project).go().ok() };
    whatif(&["new", "s"]);
    whatif(&["exec", "s", "--", "chmod", "750", "."]);
    let listed = whatif(&["--json", "ls"]).json();
    let all = listed["sandboxes"].as_array().or_else(|| listed.as_array()).expect("a list");
    assert_eq!(all[0]["changed_files"], 1, "{listed:#}");
    let difference = whatif(&["--json", "diff", "s"]).json();
    assert_eq!(difference["changes"][0]["kind"], "mode", "{difference:#}");
}

fn a_run_that_leaves_it_as_it_was_is_not_kept(w: &World) {
    let project = project(w, "chmod 2775 .; setfattr -n user.was -v there .");
    let script = "chmod 700 .; chmod 2775 .; echo x > f; rm f";
    let report = w.whatif(["run", "--", "/bin/sh", "-euc", script]).cwd(&project).go().ok().stderr;
    assert!(report.contains("nothing changed"), "{report}");
}
