//! Commands that only look, at the same moment as others work: nobody notices them.

use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use whatif_e2e::{Fault, Point, Stopped, World, as_root_and_user, eventually, needs, wait_for};

as_root_and_user!(
    a_look_when_a_run_has_ended_its_keeper_writes_nothing,
    watched_runs_exit_as_their_commands_do,
    a_run_that_cannot_be_settled_says_that_it_ran,
);

const SCRIPT: [&str; 6] = ["run", "--keep", "--", "/bin/sh", "-c", "echo x > f; exit 7"];

/// Without its keeper a sandbox looks lost, but the `run` that ended it has not come to writing down why.
fn a_look_when_a_run_has_ended_its_keeper_writes_nothing(w: &World) {
    needs!(w, "strace");
    for look in [&["ls"][..], &["show", "s"], &["diff", "s"], &["gc"]] {
        let run = [&["run", "--name", "s"], &SCRIPT[1..]].concat();
        let run = Stopped::at(w, &Point { call: "pidfd_send_signal".to_owned(), number: 1 }, &run);
        eventually("its keeper is gone", || !w.processes().iter().any(|p| p.contains(" keeper ")));
        w.whatif(look.iter().copied()).go().ok();
        assert_eq!(run.go_on(), Some(7), "after {look:?}");
        let shown = &w.json(["show", "s"])["details"];
        assert_eq!((&shown["stop_reason"], &shown["exit_code"]), (&Value::from("finished"), &Value::from(7)), "after {look:?}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

fn watched_runs_exit_as_their_commands_do(w: &World) {
    let quiet =
        |arguments: &[&str]| w.whatif(arguments.iter().copied()).streams(Stdio::null(), Stdio::null(), Stdio::piped()).spawn();
    let looks: [&[&str]; 3] = [&["ls"], &["--json", "ls"], &["gc"]];
    let mut looking: Vec<Child> = looks.iter().map(|look| quiet(look)).collect();
    for _ in 0..6 {
        let mut runs: Vec<Child> = (0..4).map(|_| quiet(&SCRIPT)).collect();
        let ended = wait_for(Duration::from_secs(60), || {
            // There is always somebody who looks.
            for (looking, look) in looking.iter_mut().zip(looks) {
                if let Some(status) = looking.try_wait().expect("it is our child") {
                    assert!(status.success(), "{look:?}");
                    *looking = quiet(look);
                }
            }
            runs.iter_mut().all(|run| run.try_wait().expect("it is our child").is_some()).then_some(())
        });
        assert!(ended.is_some(), "a run hangs");
        for run in runs {
            let output = run.wait_with_output().expect("it is our child");
            assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    looking.into_iter().for_each(|mut look| assert!(look.wait().expect("it is our child").success()));
    let listed = w.json(["ls"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(24), "each is recorded: {listed}");
    w.whatif(["rm", "--all", "--yes"]).go().ok();
}

/// Then nobody runs it a second time by mistake.
fn a_run_that_cannot_be_settled_says_that_it_ran(w: &World) {
    needs!(w, "strace");
    let run = ["--json", "run", "--keep", "--", "/bin/sh", "-c", "echo x > f"];
    w.whatif(run).go().ok();
    // Making the sandbox takes its directory to where it is made, and the last rename takes it to where it stays.
    let rename = w.points_of(&w.project, &run).into_iter().rfind(|p| p.call.starts_with("rename"));
    let outcome = w.with_fault(&rename.expect("it is kept"), Fault::Error("EIO"), &run).go();
    assert_eq!(outcome.code, 125, "{outcome:?}");
    let error: Value = serde_json::from_str(outcome.stderr.trim()).expect("a document");
    let error = &error["error"];
    assert_eq!((&error["code"], &error["retryable"]), (&Value::from("run_incomplete"), &Value::from(false)), "{outcome:?}");
    assert_eq!((&error["details"]["ran"], &error["details"]["exit_code"]), (&Value::from(true), &Value::from(0)), "{outcome:?}");
    let listed = w.json(["ls"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(3), "the next command settles it: {listed}");
    w.whatif(["rm", "--all", "--yes"]).go().ok();
}
