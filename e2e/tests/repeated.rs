//! A command that finds its goal reached succeeds, and says so: who asks twice, as a script that is run again does, wants nothing else.

use whatif_e2e::{World, as_root_and_user, eventually};

as_root_and_user!(
    what_is_stopped_can_be_stopped,
    what_is_removed_can_be_removed,
    a_name_never_heard_of_stays_an_error,
    what_is_rejected_can_be_rejected,
    a_rejection_stops_an_apply,
    a_rejection_outlives_what_changes_nothing,
    what_is_rejected_can_be_taken_all_the_same,
    what_is_applied_can_be_applied,
);

fn what_is_stopped_can_be_stopped(w: &World) {
    w.new_sandbox("s");
    assert_eq!(w.whatif(["stop", "s"]).go().ok().stdout, "s is stopped\n");
    assert_eq!(w.whatif(["stop", "s"]).go().ok().stdout, "s was already stopped\n");
    assert_eq!(w.json(["stop", "s"])["status"], "stopped");
    // What was decided stays decided.
    w.whatif(["reject", "s"]).go().ok();
    assert!(w.whatif(["stop", "s"]).go().ok().stdout.contains("rejected"));
    assert_eq!(w.show("s")["status"], "rejected");
}

fn what_is_removed_can_be_removed(w: &World) {
    let id = w.new_sandbox("s");
    w.whatif(["rm", "s"]).go().ok();
    for word in ["s", id.as_str()] {
        let again = w.whatif(["rm", word]).go().ok();
        assert_eq!(again.stdout, format!("{word} was already removed\n"));
    }
    let document = w.json(["rm", "s"]);
    assert_eq!((document["removed"].as_array().map(Vec::len), &document["already_removed"][0]), (Some(0), &"s".into()));
    // A new one of that name is another one.
    w.new_sandbox("s");
    assert_eq!(w.whatif(["rm", "s"]).go().ok().stdout, "s is gone\n");
}

fn a_name_never_heard_of_stays_an_error(w: &World) {
    w.new_sandbox("s");
    for _ in 0..2 {
        let unknown = w.whatif(["--json", "rm", "never"]).go();
        assert!(unknown.code != 0 && unknown.stderr.contains("not_found"), "{unknown:?}");
    }
    // The others go all the same.
    let mixed = w.whatif(["rm", "never", "s"]).go();
    assert!(mixed.code != 0 && mixed.stdout == "s is gone\n", "{mixed:?}");
    let stopped = w.whatif(["stop", "s"]).go();
    assert!(stopped.code != 0, "what is gone is not stopped: {stopped:?}");
}

fn what_is_rejected_can_be_rejected(w: &World) {
    w.whatif(["run", "--keep", "--name", "s", "-q", "--", "sh", "-c", "echo a > a"]).go().ok();
    w.whatif(["reject", "s", "--keep"]).go().ok();
    let again = w.whatif(["reject", "s", "--keep"]).go().ok();
    assert!(again.stdout.contains("already rejected"), "{again:?}");
    w.whatif(["reject", "s", "--delete"]).go().ok();
    let gone = w.whatif(["reject", "s", "--delete"]).go().ok();
    assert!(gone.stdout.contains("already removed"), "{gone:?}");
    assert_eq!(w.json(["reject", "s", "--delete"])["deleted"], true);
    // What is to be kept is not there.
    assert!(w.whatif(["reject", "s", "--keep"]).go().code != 0);
}

fn rejected(w: &World) {
    w.outside("mkdir d; echo old > d/old; echo o > moved").ok();
    w.whatif(["run", "--keep", "--name", "s", "-q", "--", "sh", "-c", "echo a > a; rm d/old; mv moved moved-on"]).go().ok();
    w.whatif(["reject", "s", "--keep"]).go().ok();
}

fn a_rejection_stops_an_apply(w: &World) {
    rejected(w);
    let told = w.whatif(["apply", "s", "--yes"]).go();
    assert!(told.stdout.contains("nothing to apply") && told.stderr.contains("left out, rejected: "), "{told:?}");
    assert!(!w.project.join("a").exists() && w.project.join("d/old").exists() && w.project.join("moved").exists());
    // What is changed later is a question of its own.
    w.exec("s", "echo b > b").ok();
    w.whatif(["apply", "s", "--yes"]).go();
    assert!(!w.project.join("a").exists() && !w.project.join("moved-on").exists());
    w.whatif(["stop", "s"]).go().ok();
    assert_eq!(w.show("s")["status"], "stopped", "something in it was not rejected");
}

fn a_rejection_outlives_what_changes_nothing(w: &World) {
    rejected(w);
    for end in [&["stop", "s"][..], &["kill-it"]] {
        w.exec("s", "cat a").ok();
        assert_eq!(w.show("s")["status"], "active");
        match end {
            ["kill-it"] => {
                let keeper = w.show("s")["keeper_pid"].as_u64().expect("it runs").to_string();
                w.outside(&format!("kill -9 {keeper}")).ok();
                eventually("that is noticed", || w.show("s")["status"] != "active");
            }
            _ => drop(w.whatif(end.iter().copied()).go().ok()),
        }
        assert_eq!(w.show("s")["status"], "rejected", "{end:?}");
        if end[0] == "stop" {
            w.whatif(["start", "s"]).go().ok();
        }
    }
    assert!(w.whatif(["apply", "s", "--yes"]).go().stdout.contains("nothing to apply"));
}

fn what_is_rejected_can_be_taken_all_the_same(w: &World) {
    rejected(w);
    let told = w.whatif(["apply", "s", "--yes", "--files", "a"]).go().ok();
    assert!(w.read("a") == "a\n" && told.stderr.contains("rejected, and taken all the same: a"), "{told:?}");
    assert_eq!(w.show("s")["status"], "rejected", "the rest still is");
    w.whatif(["apply", "s", "--yes", "--all"]).go().ok();
    assert!(!w.project.join("d/old").exists() && w.project.join("moved-on").exists());
    assert_eq!(w.show("s")["status"], "approved");
}

fn what_is_applied_can_be_applied(w: &World) {
    w.whatif(["run", "--keep", "--name", "s", "-q", "--", "sh", "-c", "echo a > a; echo b > b"]).go().ok();
    w.whatif(["apply", "s", "--yes", "--files", "a"]).go().ok();
    let again = w.whatif(["apply", "s", "--yes", "--files", "a"]).go().ok();
    assert!(again.stdout.contains("nothing to apply"), "{again:?}");
    assert!(!w.project.join("b").exists());
    // What neither is nor was changed is still a mistake.
    assert!(w.whatif(["apply", "s", "--yes", "--files", "c"]).go().code != 0);
    w.whatif(["apply", "s", "--yes"]).go().ok();
    assert!(w.whatif(["apply", "s", "--yes"]).go().ok().stdout.contains("nothing to apply"));
}
