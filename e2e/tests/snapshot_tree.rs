//! `snapshots`: who came from whom can be seen, and where the sandbox stands.

use whatif_e2e::{World, as_root_and_user};

as_root_and_user!(branches_are_drawn_and_a_straight_line_is_flat, a_fork_that_went_back_is_told_where_it_stands);

fn changed_and_taken(w: &World, sandbox: &str, label: &str) {
    w.exec(sandbox, &format!("echo {label} > f")).ok();
    w.snapshot(sandbox, label);
}

fn shown(w: &World, sandbox: &str) -> String {
    w.whatif(["snapshots", sandbox]).go().ok().stdout
}

fn branches_are_drawn_and_a_straight_line_is_flat(w: &World) {
    w.new_sandbox("s");
    for label in ["one", "two", "left", "further"] {
        changed_and_taken(w, "s", label);
    }
    w.rollback("s", "two");
    changed_and_taken(w, "s", "right");
    let tree = shown(w, "s");
    let beginnings = ["SNAPSHOT ", "○ one ", "○ two ", "├─ ○ left ", "│  ○ further ", "└─ ● right "];
    assert_eq!(tree.lines().count(), beginnings.len(), "{tree}");
    for (line, beginning) in tree.lines().zip(beginnings) {
        assert!(line.starts_with(beginning), "'{beginning}':\n{tree}");
        assert!(line.chars().count() <= 80, "{tree}");
    }
}

fn a_fork_that_went_back_is_told_where_it_stands(w: &World) {
    w.new_sandbox("s");
    changed_and_taken(w, "s", "green");
    w.fork("s@green", "t");
    changed_and_taken(w, "t", "own");
    assert!(shown(w, "t").contains("● own ") && !shown(w, "t").contains("s@green"), "{}", shown(w, "t"));
    w.fork("t@own", "u");
    w.rollback("t", "green");
    let told = shown(w, "t");
    assert!(told.contains("○ own ") && told.ends_with("\nat s@green, of the sandbox it was made from\n"), "{told}");
    w.rollback("u", "green");
    assert_eq!(shown(w, "u"), "at s@green, of a sandbox it descends from\n", "it has none of its own");
}
