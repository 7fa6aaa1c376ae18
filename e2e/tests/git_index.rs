//! Git's index is merged by what it means. A stale one next to a branch that moved would make the next commit take the sandbox's
//! work back, so it is never left behind without a word; and `status`, `rebase` and `apply` say the same about it.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    an_index_that_git_only_refreshed_is_taken,
    what_both_staged_is_a_conflict,
    what_only_reality_staged_stays,
    the_same_staged_on_both_sides_is_no_conflict,
    an_undo_does_not_mind_that_git_looked,
);

const COMMIT: &str = "git -c user.name=t -c user.email=t@t commit -q";

fn repository(w: &World) {
    w.outside(&format!("git init -q -b main; for f in a b c; do echo $f > $f; done; git add .; {COMMIT} -m first")).ok();
}

/// Git looks at each file again and writes down what it found, and nothing else changes.
const REFRESH: &str = "touch -d 2001-01-01 c; git update-index -q --refresh";

fn an_index_that_git_only_refreshed_is_taken(w: &World) {
    needs!(w, "git");
    for backend in ["overlay", "copy"] {
        w.outside("rm -rf .git *").ok();
        repository(w);
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, &format!("echo more >> a; echo new > new; git add .; {COMMIT} -m second")).ok();
        w.outside(REFRESH).ok();
        let status = w.json(["status", backend]);
        assert_eq!(status["conflicts"], 0, "{status}");
        w.apply(&[backend, "--all"]).ok();
        assert_eq!(w.outside("git status --porcelain; git log --format=%s").ok().text(), "second\nfirst", "{backend}");
        // The next commit has what it says, and nothing of the sandbox's is taken back.
        w.outside(&format!("echo own > own; git add own; {COMMIT} -m third")).ok();
        assert_eq!(w.outside("git show --format= --name-only; git status --porcelain").ok().text(), "own");
    }
}

fn what_both_staged_is_a_conflict(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", &format!("echo more >> a; git add .; {COMMIT} -m second"));
    w.outside("echo staged > own; git add own").ok();
    let before = w.outside("git log --format=%H; git status --porcelain; cat a").ok().stdout;
    let status = w.json(["status", "s"]);
    let index = status["drift"].as_array().and_then(|all| all.iter().find(|d| d["path"] == ".git/index"));
    assert_eq!(index.map(|d| &d["collides"]), Some(&serde_json::json!("conflict")), "{status}");
    w.apply(&["s", "--all"]).exits(1).says(".git/index").says("staged");
    assert_eq!(w.outside("git log --format=%H; git status --porcelain; cat a").ok().stdout, before);
    let rebased = w.whatif(["rebase", "s"]).go().exits(1).stdout;
    assert!(rebased.contains(".git/index: both changed what is staged"), "{rebased}");
    w.apply(&["s", "--all"]).exits(1).says(".git/index");
    w.apply(&["s", "--all", "--theirs=.git/index"]).ok();
    assert_eq!(w.outside("git status --porcelain; git log --format=%s").ok().text(), "?? own\nsecond\nfirst");
}

fn what_only_reality_staged_stays(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", &format!("{REFRESH}; echo more >> b"));
    w.outside("echo staged > own; git add own").ok();
    w.apply(&["s", "--all"]).ok();
    assert_eq!(w.outside("git status --porcelain").ok().text(), " M b\nA  own");
    w.whatif(["rebase", "s"]).go().ok();
    assert_eq!(w.exec("s", "git status --porcelain").ok().text(), " M b\nA  own");
}

fn the_same_staged_on_both_sides_is_no_conflict(w: &World) {
    needs!(w, "git");
    repository(w);
    let staged = "echo same > same; git add same";
    w.sandbox_with("s", &format!("{staged}; echo more >> b"));
    w.outside(staged).ok();
    assert_eq!(w.json(["status", "s"])["conflicts"], 0);
    w.apply(&["s", "--all"]).ok();
    assert_eq!(w.outside("git status --porcelain").ok().text(), " M b\nA  same");
}

fn an_undo_does_not_mind_that_git_looked(w: &World) {
    needs!(w, "git");
    repository(w);
    let first = w.outside("git log --format=%H; git ls-files --stage; git status --porcelain").ok().stdout;
    w.sandbox_with("s", &format!("echo more >> a; echo new > new; git add .; {COMMIT} -m second"));
    w.apply(&["s", "--all"]).ok();
    let second = w.outside("git log --format=%H; git ls-files --stage; git status --porcelain").ok().stdout;
    w.outside(REFRESH).ok();
    w.whatif(["undo", "--yes"]).go().ok();
    assert_eq!(w.outside("git log --format=%H; git ls-files --stage; git status --porcelain").ok().stdout, first);
    // The other way round it is the same.
    w.outside(REFRESH).ok();
    let undo = w.json(["history"])[0]["id"].as_str().expect("it is listed").to_owned();
    w.whatif(["undo", &undo, "--yes"]).go().ok();
    assert_eq!(w.outside("git log --format=%H; git ls-files --stage; git status --porcelain").ok().stdout, second);
    // Its mode is the user's to choose, and what was staged since is work.
    w.outside(&format!("{REFRESH}; chmod 600 .git/index")).ok();
    let undo = w.json(["history"])[0]["id"].as_str().expect("it is listed").to_owned();
    w.whatif(["undo", &undo, "--yes"]).go().exits(1).says(".git/index has another mode");
    w.outside("chmod 644 .git/index").ok();
    w.outside("echo own > own; git add own").ok();
    let undo = w.json(["history"])[0]["id"].as_str().expect("it is listed").to_owned();
    w.whatif(["undo", &undo, "--yes"]).go().exits(1).says(".git/index");
}
