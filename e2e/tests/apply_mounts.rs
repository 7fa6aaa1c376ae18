//! Projects with mounts in them and on disks that are full. Each in a mount namespace of its own, so only for root.

use whatif_e2e::{Outcome, World, as_root};

as_root!(
    a_writable_mount_inside_the_project_is_all_or_nothing,
    a_mount_that_turned_read_only_stops_everything,
    a_mount_over_a_deleted_directory_is_not_entered,
    a_mount_over_a_replaced_file_is_not_written,
    a_project_without_space_stays_as_it_is,
    a_project_without_inodes_stays_as_it_is,
    a_repository_without_space_for_a_commit_stays_as_it_is,
    a_repository_without_any_space_is_not_taken_for_locked,
    a_state_directory_without_space_stops_everything,
);

/// A script in the project, in a mount namespace of its own; `$0` is whatif.
#[track_caller]
fn in_namespace(w: &World, script: &str) -> Outcome {
    let unshare = ["--mount", "--propagation", "private", "/bin/sh", "-euc", script];
    w.program("/usr/bin/unshare").args(unshare).args([&w.bin]).go().ok()
}

const RUN: &str = "\"$0\" run --keep --quiet --name s -- /bin/sh -euc";
const APPLY: &str = "code=0; \"$0\" apply s --all --yes >&2 || code=$?";

fn a_writable_mount_inside_the_project_is_all_or_nothing(w: &World) {
    let script = format!(
        "echo old > f; mkdir sub; mount -t tmpfs sub sub; echo old > sub/f; {RUN} 'echo new > f; echo new > sub/f; echo n > sub/n'; \
         {APPLY}; echo $code; cat f sub/f; ls sub"
    );
    let outcome = in_namespace(w, &script);
    match outcome.stdout.lines().next() {
        Some("0") => assert_eq!(outcome.stdout, "0\nnew\nnew\nf\nn\n", "{}", outcome.stderr),
        _ => assert!(outcome.stdout.ends_with("\nold\nold\nf\n") && outcome.stderr.contains("sub"), "{outcome:?}"),
    }
}

fn a_mount_that_turned_read_only_stops_everything(w: &World) {
    let script = format!(
        "echo old > a; mkdir sub; mount -t tmpfs sub sub; echo old > sub/f; echo old > z; \
         {RUN} 'echo new > a; echo new > sub/f; echo new > z'; mount -o remount,ro sub; {APPLY}; echo $code; cat a sub/f z"
    );
    let outcome = in_namespace(w, &script);
    assert!(!outcome.stdout.starts_with("0\n") && outcome.stdout.ends_with("\nold\nold\nold\n"), "{outcome:?}");
    assert!(outcome.stderr.contains("sub"), "{}", outcome.stderr);
}

fn a_mount_over_a_deleted_directory_is_not_entered(w: &World) {
    let script = format!(
        "mkdir d; echo x > d/x; echo old > f; mkdir ../precious; echo p > ../precious/x; {RUN} 'rm -r d; echo new > f'; \
         mount --bind ../precious d; {APPLY}; echo $code; cat ../precious/x f"
    );
    let outcome = in_namespace(w, &script);
    assert!(!outcome.stdout.starts_with("0\n") && outcome.stdout.ends_with("\np\nold\n"), "{outcome:?}");
}

fn a_mount_over_a_replaced_file_is_not_written(w: &World) {
    let script = format!(
        "echo f > f; echo old > g; echo precious > ../precious; {RUN} 'echo new > f; echo new > g'; \
         mount --bind ../precious f; {APPLY}; echo $code; cat ../precious g"
    );
    let outcome = in_namespace(w, &script);
    assert!(!outcome.stdout.starts_with("0\n") && outcome.stdout.ends_with("\nprecious\nold\n"), "{outcome:?}");
}

fn a_project_without_space_stays_as_it_is(w: &World) {
    let script = format!(
        "mount -t tmpfs -o size=1m small \"$PWD\"; cd \"$PWD\"; echo old > f; echo gone > gone; \
         {RUN} 'echo new > f; rm gone; for n in 1 2 3 4; do head -c 500000 /dev/urandom > large$n; done'; {APPLY}; echo $code; \
         ls -A; cat f gone; rm -f gone; \"$0\" ls >&2; ls -A"
    );
    let outcome = in_namespace(w, &script);
    let (code, rest) = outcome.stdout.split_once('\n').expect("there are lines");
    assert_ne!(code, "0");
    assert_eq!(rest, "f\ngone\nold\ngone\nf\n", "{}", outcome.stderr);
    assert!(outcome.stderr.contains("room") || outcome.stderr.contains("space"), "{}", outcome.stderr);
}

fn a_project_without_inodes_stays_as_it_is(w: &World) {
    let script = format!(
        "mount -t tmpfs -o size=8m,nr_inodes=20 small \"$PWD\"; cd \"$PWD\"; echo old > f; echo gone > gone; \
         {RUN} 'echo new > f; rm gone; for n in $(seq 40); do echo x > n$n; done'; {APPLY}; echo $code; ls -A; cat f gone"
    );
    let outcome = in_namespace(w, &script);
    let (code, rest) = outcome.stdout.split_once('\n').expect("there are lines");
    assert_ne!(code, "0");
    assert_eq!(rest, "f\ngone\nold\ngone\n", "{}", outcome.stderr);
}

/// Git's own directory, on a small disk of its own.
const SMALL_REPOSITORY: &str = "git init -q .; git config user.name n; git config user.email e; echo old > f; git add f; \
    git commit -qm one; cp -a .git ../saved; mount -t tmpfs -o size=1m small .git; cp -a ../saved/. .git; rm -r ../saved";
const COMMIT: &str = "code=0; \"$0\" apply s --all --yes --commit -m two >&2 || code=$?";

fn a_repository_without_space_for_a_commit_stays_as_it_is(w: &World) {
    let script = format!(
        "{SMALL_REPOSITORY}; {RUN} 'echo new > f; head -c 3000000 /dev/urandom > large'; find .git > ../before; {COMMIT}; \
         echo $code; cat f; ls; find .git | diff ../before -; mount -o remount,size=16m .git; {COMMIT}; \
         echo $code; git log --format=%s; git status --short; git fsck"
    );
    let outcome = in_namespace(w, &script);
    assert_eq!(outcome.stdout, "125\nold\nf\n0\ntwo\none\n", "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the disk of the repository is full"), "{}", outcome.stderr);
}

fn a_repository_without_any_space_is_not_taken_for_locked(w: &World) {
    let script = format!(
        "{SMALL_REPOSITORY}; {RUN} 'rm f'; find .git > ../before; cat /dev/zero > .git/filler 2>/dev/null || true; {COMMIT}; \
         echo $code; cat f; rm .git/filler; find .git | diff ../before -; {COMMIT}; echo $code; git log --format=%s; ls"
    );
    let outcome = in_namespace(w, &script);
    assert_eq!(outcome.stdout, "125\nold\n0\ntwo\none\n", "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is full") && !outcome.stderr.contains("locked"), "{}", outcome.stderr);
}

fn a_state_directory_without_space_stops_everything(w: &World) {
    let script = format!(
        "mount -t tmpfs -o size=8m,mode=700 state \"$WHATIF_HOME\"; head -c 1000000 /dev/urandom > f; echo g > g; \
         {RUN} 'rm f; echo new > g'; cat /dev/zero > \"$WHATIF_HOME/filler\" 2>/dev/null || true; {APPLY}; \
         rm \"$WHATIF_HOME/filler\"; \"$0\" ls >&2; echo $code; ls; cat g; \"$0\" rm s >&2"
    );
    let outcome = in_namespace(w, &script);
    match outcome.stdout.lines().next() {
        Some("0") => assert_eq!(outcome.stdout, "0\ng\nnew\n", "{}", outcome.stderr),
        _ => assert!(outcome.stdout.ends_with("\nf\ng\ng\n"), "{outcome:?}"),
    }
}
