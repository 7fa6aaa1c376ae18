//! No sandbox loses its record because a command was killed, or another one looked, at a bad moment.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use whatif_e2e::{Fault, Stopped, World, as_root_and_user, eventually, needs, sample, wait_for};

as_root_and_user!(what_is_half_deleted_is_no_lost_sandbox, work_that_began_before_the_record_says_so_is_kept);

/// A killed `run` that wrote a cache and nothing else: the next command deletes its sandbox.
fn leave_a_cache(w: &World) {
    let script = "mkdir __pycache__; echo x > __pycache__/only.pyc; echo ready; sleep 1000";
    let run = w.whatif(["run", "--", "/bin/sh", "-c", script]).streams(Stdio::null(), Stdio::piped(), Stdio::null());
    let mut run = run.spawn();
    let mut line = String::new();
    BufReader::new(run.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("it is read");
    assert_eq!(line, "ready\n");
    run.kill().expect("it is our child");
    run.wait().expect("it is our child");
}

/// The command that deletes it may be killed as well, wherever it has got to.
fn what_is_half_deleted_is_no_lost_sandbox(w: &World) {
    needs!(w, "strace");
    leave_a_cache(w);
    let points = w.points_of(&w.project, &["ls"]);
    let deletes = |call: &str| matches!(call, "unlinkat" | "rmdir" | "fsync" | "fdatasync" | "pwrite64");
    let points: Vec<_> = points.into_iter().filter(|p| deletes(&p.call)).collect();
    assert!(points.iter().any(|p| p.call == "unlinkat"), "{points:?}");
    for point in sample(&points, 8, 0) {
        leave_a_cache(w);
        w.with_fault(&point, Fault::Kill, &["ls"]).go();
        assert_eq!(w.json(["ls"]), serde_json::json!([]), "{point:?}");
        eventually("nothing is half done", || w.transient().is_empty());
        let left = std::fs::read_dir(w.state.join("sandboxes")).expect("it is there").count();
        assert_eq!(left, 0, "{point:?}: a directory without a record");
    }
    w.assert_nothing_left();
}

/// The command is on its way before the record calls the sandbox active.
fn work_that_began_before_the_record_says_so_is_kept(w: &World) {
    needs!(w, "strace");
    let run = ["run", "--", "/bin/sh", "-c", "echo x > f"];
    w.whatif(run).go().ok();
    let points = w.points_of(&w.project, &run).into_iter().filter(|p| p.call == "pwrite64").collect::<Vec<_>>();
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    let is_written = || w.outside(&format!("find {} -path '*/head/*' -name f", w.state.display())).stdout.ends_with("/f\n");
    let mut kept = 0;
    for point in sample(&points, 6, 0) {
        let stopped = Stopped::at(w, &point, &run);
        let written = wait_for(Duration::from_secs(1), || is_written().then_some(())).is_some();
        let mut tracer = stopped.kill_alone();
        // Its keeper may be alive still: then nobody can tell yet.
        if written {
            kept += 1;
            let mut listed = w.json(["ls"]);
            eventually(&format!("{point:?}: it is kept"), || {
                listed = w.json(["ls"]);
                listed.as_array().is_some_and(|all| all.len() == 1) && listed[0]["changed_files"] == 1
            });
            w.whatif(["rm", listed[0]["name"].as_str().expect("a name")]).go().ok();
        }
        eventually("nothing is half done", || {
            w.whatif(["ls"]).go().ok();
            w.transient().is_empty()
        });
        w.whatif(["rm", "--all", "--yes"]).go().ok();
        tracer.wait().expect("it is our child");
    }
    assert!(kept > 0, "the command never ran: {points:?}");
}
