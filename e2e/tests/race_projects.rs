//! Real projects with a failing test, and three ways to mend each: another dependency, a patch, taking the last commit back.
//!
//! Which of them works differs from project to project. It wins, and until it is applied reality knows nothing of all this.

use whatif_e2e::projects::{self, Project};
use whatif_e2e::racing::{Race, Running};
use whatif_e2e::{Detail, Outcome, Tree, World, as_root_and_user, needs};

as_root_and_user!(
    a_rust_project_is_mended_by_a_newer_dependency,
    a_python_project_is_mended_by_a_patch,
    a_node_project_is_mended_by_taking_the_last_commit_back,
);

/// Its own tests, in reality.
fn own_tests(w: &World, project: &Project) -> Outcome {
    let call = w.program("/bin/sh").args(["-c", project.test]);
    match &project.path {
        Some(path) => call.env("PATH", path).go(),
        None => call.go(),
    }
}

fn race(w: &World, project: &Project) -> Race {
    let call = w.whatif(["--json", "race"]).args(project.arguments());
    let call = match &project.path {
        Some(path) => call.env("PATH", path),
        None => call,
    };
    Running::begin(w, call).ends()
}

/// Only what was found to be right becomes real, and of the rest nothing remains.
fn the_right_one_wins_and_becomes_real(w: &World, project: &Project) {
    assert_ne!(own_tests(w, project).code, 0, "it is broken");
    // What it made is no part of the project, and must not be taken for part of it.
    w.outside("git clean -fdq && find . -name __pycache__ -prune -exec rm -r {} +").ok();
    let (reality, nothing) = (Tree::of(&w.project, Detail::Times), w.inventory());

    let race = race(w, project).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.winner(), Some(project.winner), "{:#}", race.ranking());
    assert_eq!(race.order()[0], project.winner);
    assert_eq!(race.verdict(project.winner), "passed");
    assert_eq!(race.check(project.winner, "test")["tests"]["passed"], project.tests, "{:#}", race.outcome(project.winner));
    for other in ["dependency", "patch", "revert"].into_iter().filter(|name| *name != project.winner) {
        assert!(["failed_checks", "forbidden"].contains(&race.verdict(other)), "{other}: {:#}", race.outcome(other));
        assert!(race.outcome(other)["changes"]["list"].as_array().is_some(), "{other} did something");
    }
    Tree::of(&w.project, Detail::Times).assert_is(&reality, "nobody has approved anything");

    w.whatif(["race", "apply", "best", "--yes"]).go().ok();
    own_tests(w, project).ok();
    assert_eq!(w.outside("git status --short").ok().stdout.lines().count(), 1, "one file is another one");
    assert_eq!(w.outside("git log --format=%s | wc -l").ok().text(), "2", "no commit was made");

    let losers: Vec<_> = w.json(["ls"]).as_array().cloned().unwrap_or_default();
    assert!(losers.len() <= 1, "the losers are gone: {losers:#?}");
    w.whatif(["race", "rm", "--all"]).go().ok();
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    assert_eq!(w.json(["ls"]), serde_json::json!([]));
    w.outside(&format!("rm -rf {}/applies/*", w.state.display())).ok();
    w.assert_inventory_is(&nothing, "what the race left behind");
}

fn a_rust_project_is_mended_by_a_newer_dependency(w: &World) {
    needs!(w, "git");
    let Some(project) = projects::rust(w) else {
        assert!(std::env::var_os("CI").is_none(), "there is no cargo that can be used");
        return;
    };
    the_right_one_wins_and_becomes_real(w, &project);
}

fn a_python_project_is_mended_by_a_patch(w: &World) {
    needs!(w, "git", "python3", "pip3");
    the_right_one_wins_and_becomes_real(w, &projects::python(w));
}

fn a_node_project_is_mended_by_taking_the_last_commit_back(w: &World) {
    needs!(w, "git", "node", "npm");
    the_right_one_wins_and_becomes_real(w, &projects::node(w));
}
