//! Patches and reverts, run for real with git and patch in temporary directories.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use whatif_race::attempts::{Patch, Wanted};
use whatif_types::experiment::AttemptPlan;
use whatif_types::text::Text;

/// Removed when it goes.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("whatif-race-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    /// With two commits: `a.txt` has `one`, then `two` and a new file besides.
    fn repository() -> Self {
        let made = Self::new();
        made.git(&["init", "--quiet", "--initial-branch=main"]);
        made.write("a.txt", "one\n");
        made.write("sub/b.txt", "b\n");
        made.commit("first");
        made.write("a.txt", "two\n");
        made.write("sub/new.txt", "new\n");
        made.commit("second");
        made
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.join(path)).ok()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = command("git", &self.0).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    fn status(&self) -> String {
        self.git(&["status", "--porcelain"])
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Without anything of the user's own configuration.
fn command(program: &str, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_CEILING_DIRECTORIES", std::env::temp_dir());
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    for (name, value) in [("NAME", "Test"), ("EMAIL", "test@example.com")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    command
}

fn prepared(attempt: &AttemptPlan, directory: &Path) -> Command {
    let mut arguments = attempt.arguments.iter().map(Text::to_os);
    let mut command = command(arguments.next().unwrap().to_str().unwrap(), directory);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(attempt: &AttemptPlan, mut command: Command) -> Output {
    let mut child = command.spawn().unwrap();
    let input = attempt.input.as_ref().map_or(&b""[..], Text::as_bytes);
    // One that does not read it has ended before.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn patch(content: &str) -> AttemptPlan {
    let patches = vec![Patch { name: None, path: "x.patch".to_owned(), content: Text::from(content) }];
    Wanted { patches, ..Wanted::default() }.into_attempts().unwrap().remove(0)
}

fn revert(commit: &str) -> AttemptPlan {
    Wanted { reverts: vec![(None, commit.to_owned())], ..Wanted::default() }.into_attempts().unwrap().remove(0)
}

#[track_caller]
fn succeeds(attempt: &AttemptPlan, directory: &Path) {
    let output = run(attempt, prepared(attempt, directory));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[track_caller]
fn fails(attempt: &AttemptPlan, directory: &Path) -> String {
    let output = run(attempt, prepared(attempt, directory));
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

const TWO_TO_THREE: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-two\n+three\n";

#[test]
fn a_patch_is_applied_to_the_work_tree_only() {
    let at = Directory::repository();
    succeeds(&patch(TWO_TO_THREE), &at.0);
    assert_eq!((at.read("a.txt").as_deref(), at.status().as_str()), (Some("three\n"), " M a.txt\n"));
}

#[test]
fn in_a_directory_of_the_repository_names_count_from_its_top() {
    let at = Directory::repository();
    let both = format!("{TWO_TO_THREE}--- a/sub/b.txt\n+++ b/sub/b.txt\n@@ -1 +1 @@\n-b\n+c\n");
    succeeds(&patch(&both), &at.0.join("sub"));
    assert_eq!((at.read("a.txt").as_deref(), at.read("sub/b.txt").as_deref()), (Some("three\n"), Some("c\n")));

    // And if they do not fit there, from where we are.
    succeeds(&patch("--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-c\n+d\n"), &at.0.join("sub"));
    assert_eq!(at.read("sub/b.txt").as_deref(), Some("d\n"));
}

#[test]
fn a_repository_around_it_that_has_nothing_of_it_does_not_matter() {
    let at = Directory::repository();
    fs::create_dir(at.0.join("project")).unwrap();
    succeeds(&patch("--- /dev/null\n+++ b/fresh.txt\n@@ -0,0 +1 @@\n+fresh\n"), &at.0.join("project"));
    assert_eq!((at.read("project/fresh.txt").as_deref(), at.read("fresh.txt")), (Some("fresh\n"), None));
    fails(&patch(TWO_TO_THREE), &at.0.join("project"));
    assert_eq!(at.read("a.txt").as_deref(), Some("two\n"));
}

#[test]
fn a_patch_needs_no_repository_and_none_of_the_environment_is_used() {
    let at = Directory::new();
    let other = Directory::repository();
    at.write("a.txt", "two\n");
    let attempt = patch(TWO_TO_THREE);
    let mut command = prepared(&attempt, &at.0);
    command.env("GIT_DIR", other.0.join(".git")).env("GIT_WORK_TREE", &other.0);
    assert!(run(&attempt, command).status.success());
    assert_eq!((at.read("a.txt").as_deref(), other.read("a.txt").as_deref()), (Some("three\n"), Some("two\n")));
}

#[test]
fn binary_files_new_files_and_removed_ones_are_patched() {
    let at = Directory::repository();
    fs::write(at.0.join("picture"), [0, 159, 146, 150, 10, 0]).unwrap();
    at.write("fresh.txt", "fresh\n");
    fs::remove_file(at.0.join("sub/b.txt")).unwrap();
    at.git(&["add", "--all"]);
    let difference = at.git(&["diff", "--cached", "--binary"]);
    at.git(&["reset", "--quiet", "--hard"]);
    succeeds(&patch(&difference), &at.0);
    assert_eq!(fs::read(at.0.join("picture")).unwrap(), [0, 159, 146, 150, 10, 0]);
    assert_eq!((at.read("fresh.txt").as_deref(), at.read("sub/b.txt")), (Some("fresh\n"), None));
}

#[test]
fn a_patch_that_does_not_fit_changes_nothing() {
    let at = Directory::repository();
    let half = format!("--- a/sub/b.txt\n+++ b/sub/b.txt\n@@ -1 +1 @@\n-b\n+c\n{}", TWO_TO_THREE.replace("two", "seven"));
    for directory in [at.0.clone(), at.0.join("sub")] {
        assert!(fails(&patch(&half), &directory).contains("patch does not apply"));
        fails(&patch("this is not a patch\n"), &directory);
        fails(&patch(&TWO_TO_THREE.replace("a.txt", "../outside.txt")), &directory);
    }
    assert_eq!(at.status(), "");
}

/// What `patch` does, where there is no git.
#[test]
fn without_git_patch_is_as_strict() {
    let tools = Directory::new();
    for tool in ["sh", "mktemp", "rm", "cat", "patch"] {
        let found = ["/usr/bin", "/bin"].iter().map(|at| Path::new(at).join(tool)).find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap_or_else(|| panic!("{tool} is not installed")), tools.0.join(tool)).unwrap();
    }
    let at = Directory::new();
    at.write("a.txt", "two\n");
    at.write("b.txt", "b\n");
    let with_patch = |content: &str| {
        let attempt = patch(content);
        let mut command = prepared(&attempt, &at.0);
        command.env("PATH", &tools.0);
        run(&attempt, command)
    };
    assert!(with_patch(TWO_TO_THREE).status.success());
    assert_eq!(at.read("a.txt").as_deref(), Some("three\n"));

    // Once more it does not fit, and neither does half of one.
    let half = format!("--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-b\n+c\n{TWO_TO_THREE}");
    assert!(!with_patch(TWO_TO_THREE).status.success());
    assert!(!with_patch(&half).status.success());
    assert_eq!(at.read("b.txt").as_deref(), Some("b\n"));
    assert_eq!(fs::read_dir(&at.0).unwrap().count(), 2, "no rejects, no copies");

    fs::remove_file(tools.0.join("patch")).unwrap();
    let output = with_patch(TWO_TO_THREE);
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("neither is installed"));
}

#[test]
fn nothing_is_left_beside_the_patched_files() {
    let at = Directory::repository();
    let room = Directory::new();
    for content in [TWO_TO_THREE, "nonsense\n"] {
        let attempt = patch(content);
        let mut command = prepared(&attempt, &at.0);
        command.env("TMPDIR", &room.0);
        run(&attempt, command);
    }
    assert_eq!(fs::read_dir(&room.0).unwrap().count(), 0);
}

#[test]
fn a_commit_is_taken_back_in_the_work_tree_only_even_if_it_is_dirty() {
    let at = Directory::repository();
    at.write("sub/b.txt", "being worked on\n");
    let head = at.git(&["rev-parse", "HEAD"]);
    succeeds(&revert("HEAD"), &at.0.join("sub"));
    assert_eq!((at.read("a.txt").as_deref(), at.read("sub/new.txt")), (Some("one\n"), None));
    assert_eq!(at.read("sub/b.txt").as_deref(), Some("being worked on\n"));
    assert_eq!(at.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(at.git(&["diff", "--cached", "--name-only"]), "", "the index is as it was");
}

#[test]
fn an_older_commit_the_first_one_and_a_merge_can_be_taken_back() {
    let at = Directory::repository();
    at.git(&["checkout", "--quiet", "-b", "side", "HEAD~1"]);
    at.write("side.txt", "side\n");
    at.commit("on the side");
    at.git(&["checkout", "--quiet", "main"]);
    at.git(&["merge", "--quiet", "--no-edit", "side"]);
    succeeds(&revert("HEAD"), &at.0);
    assert_eq!(
        (at.read("side.txt"), at.read("a.txt").as_deref()),
        (None, Some("two\n")),
        "what was merged is gone, the rest is not"
    );
    at.git(&["checkout", "--quiet", "."]);
    succeeds(&revert("HEAD^1"), &at.0);
    assert_eq!((at.read("a.txt").as_deref(), at.read("side.txt").as_deref()), (Some("one\n"), Some("side\n")));
    succeeds(&revert("main~2"), &at.0);
    assert_eq!((at.read("a.txt"), at.read("sub/b.txt")), (None, None));
}

#[test]
fn settings_of_the_user_do_not_change_what_is_taken_back() {
    let at = Directory::repository();
    for (name, value) in
        [("diff.noprefix", "true"), ("diff.external", "false"), ("color.ui", "always"), ("apply.whitespace", "error")]
    {
        at.git(&["config", name, value]);
    }
    succeeds(&revert("HEAD"), &at.0);
    assert_eq!(at.read("a.txt").as_deref(), Some("one\n"));
}

#[test]
fn what_cannot_be_taken_back_is_said_and_nothing_is_changed() {
    let at = Directory::repository();
    assert!(fails(&revert("nowhere"), &at.0).contains("there is no commit 'nowhere'"));
    assert!(fails(&revert("HEAD; touch pwned"), &at.0).contains("there is no commit"));
    assert!(fails(&revert("$(touch pwned)"), &at.0).contains("there is no commit"));
    at.git(&["commit", "--quiet", "--allow-empty", "--message", "nothing"]);
    assert!(fails(&revert("HEAD"), &at.0).contains("changes nothing"));
    assert_eq!(at.status(), "");

    at.write("a.txt", "something else\n");
    fails(&revert("HEAD~1"), &at.0);
    assert_eq!((at.read("a.txt").as_deref(), at.read("sub/new.txt").as_deref()), (Some("something else\n"), Some("new\n")));
    fails(&revert("HEAD"), &Directory::new().0);
}

#[test]
fn the_last_commit_of_a_shallow_clone_is_not_taken_for_the_first_of_all() {
    let at = Directory::repository();
    let clone = Directory::new();
    clone.git(&["clone", "--quiet", "--depth=1", &format!("file://{}", at.0.display()), "."]);
    assert!(fails(&revert("HEAD"), &clone.0).contains("is not in this clone"));
    assert_eq!(clone.read("a.txt").as_deref(), Some("two\n"));
}

#[test]
fn a_commit_that_looks_like_an_option_is_none() {
    for commit in ["-x", "--all", "-", "", "HEAD\nHEAD"] {
        let wanted = Wanted { reverts: vec![(None, commit.to_owned())], ..Wanted::default() };
        assert!(wanted.into_attempts().is_err(), "{commit:?}");
    }
}
