//! Mounts that come, go and lie elsewhere than usual: what a sandbox did stays with the directory it did it in. Each in a mount
//! namespace of its own, so all are started by root; those for an ordinary user let one run whatif.

use whatif_e2e::{Outcome, World, as_root};

as_root!(
    root_a_file_system_at_tmp_takes_no_head,
    user_a_file_system_at_tmp_takes_no_head,
    root_a_file_system_below_run_takes_no_head,
    root_a_project_on_a_file_system_at_tmp_is_kept,
    user_a_project_on_a_file_system_at_tmp_is_kept,
    root_a_replaced_tree_is_seen_by_the_next_command,
    user_a_replaced_tree_is_seen_by_the_next_command,
    root_a_tree_replaced_under_a_living_process_is_not_overwritten,
    user_a_tree_replaced_under_a_living_process_is_not_overwritten,
    root_an_exchanged_mount_is_seen_by_the_next_command,
    root_nothing_is_applied_beneath_a_mount_that_went,
    user_nothing_is_applied_beneath_a_mount_that_went,
    root_a_mount_over_changes_hides_none_of_them,
    user_a_mount_over_changes_hides_none_of_them,
    root_changes_wait_for_a_mount_that_went,
    user_changes_wait_for_a_mount_that_went,
    root_an_unchanged_mount_may_go,
);

/// Whoever calls whatif in a script, as `W`.
#[derive(Clone, Copy)]
enum Caller {
    Root,
    User,
}

/// A script in the project, in a mount namespace of its own.
#[track_caller]
fn in_namespace(w: &World, caller: Caller, script: &str) -> Outcome {
    let call = match caller {
        Caller::Root => "W() { \"$0\" \"$@\"; }; own() { :; }",
        Caller::User => {
            "W() { setpriv --reuid 65534 --regid 65534 --clear-groups env -u XDG_RUNTIME_DIR \"$0\" \"$@\"; }; \
             own() { chown -R 65534:65534 \"$@\"; }; own \"$HOME\" \"$WHATIF_HOME\" \"$PWD\""
        }
    };
    // The world ends as root, in another namespace. What the caller removes in the background must be gone before it changes hands.
    let settle = "for _ in $(seq 400); do [ -n \"$(ls -A \"$WHATIF_HOME/transient\")\" ] || break; sleep 0.05; done";
    let script = format!("{call}\n{script}\nW rm --all --yes >&2; {settle}; chown -R 0:0 \"$WHATIF_HOME\" || :");
    let unshare = ["--mount", "--propagation", "private", "/bin/sh", "-euc", &script];
    w.program("/usr/bin/unshare").args(unshare).args([&w.bin]).go().ok()
}

fn root_a_file_system_at_tmp_takes_no_head(w: &World) {
    at_tmp(w, Caller::Root);
}

fn user_a_file_system_at_tmp_takes_no_head(w: &World) {
    at_tmp(w, Caller::User);
}

fn at_tmp(w: &World, caller: Caller) {
    let script = "mount -t tmpfs -o mode=1777 tmp /tmp; mkdir A B; mount -t tmpfs A A; mount -t tmpfs B B; echo a > A/f; \
                  echo b > B/f; own A B; W run --quiet --name s -- /bin/sh -euc 'echo work > A/new; echo more >> A/f'; \
                  W diff s --name-only; W stop s >&2; W start s >&2; W exec s -- cat A/new B/f; W apply s --yes >&2; cat A/f A/new B/f; ls B";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "A/f\nA/new\nwork\nb\na\nmore\nwork\nb\nf\n", "{}", outcome.stderr);
}

fn root_a_file_system_below_run_takes_no_head(w: &World) {
    let script = "mount -t tmpfs run /run; mkdir /run/lock A; mount -t tmpfs lock /run/lock; mount -t tmpfs A A; \
                  W new s >&2; W exec s -- touch A/new; W diff s --name-only";
    let outcome = in_namespace(w, Caller::Root, script);
    assert_eq!(outcome.stdout, "A/new\n", "{}", outcome.stderr);
}

fn root_a_project_on_a_file_system_at_tmp_is_kept(w: &World) {
    in_tmp(w, Caller::Root);
}

fn user_a_project_on_a_file_system_at_tmp_is_kept(w: &World) {
    in_tmp(w, Caller::User);
}

fn in_tmp(w: &World, caller: Caller) {
    let script = "mount -t tmpfs -o mode=1777 tmp /tmp; mkdir /tmp/p; cd /tmp/p; echo old > f; own /tmp/p; \
                  W run --quiet --name s -- /bin/sh -euc 'echo work > new; echo more >> f'; W diff s --name-only";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "f\nnew\n", "{}", outcome.stderr);
}

/// A project that is a tree of its own, and is replaced by a directory with other content.
const REPLACED: (&str, &str) = (
    "mount -t tmpfs -o mode=1777 tmp /tmp; mkdir /tmp/p; cd /tmp/p; seq 1 9 > f; seq 1 9 > g; own /tmp/p; W new s >&2; ",
    "cd /tmp; cp -a p p.new; sed -i s/8/real/ p.new/f p.new/g; mv p p.old; mv p.new p; cd p; ",
);

fn root_a_replaced_tree_is_seen_by_the_next_command(w: &World) {
    replaced_while_idle(w, Caller::Root);
}

fn user_a_replaced_tree_is_seen_by_the_next_command(w: &World) {
    replaced_while_idle(w, Caller::User);
}

fn replaced_while_idle(w: &World, caller: Caller) {
    let (before, replace) = REPLACED;
    let script = format!(
        "{before} W exec s -- sed -i s/2/early/ g; {replace} W exec s -- sed -i s/2/sandbox/ f; W exec s -- grep -c real f; \
         code=0; W apply s --yes >&2 || code=$?; echo $code; grep -c -e real -e sandbox f; grep -c -e real -e early g"
    );
    let outcome = in_namespace(w, caller, &script);
    assert_eq!(outcome.stdout, "1\n0\n2\n2\n", "{}", outcome.stderr);
}

fn root_a_tree_replaced_under_a_living_process_is_not_overwritten(w: &World) {
    replaced_while_used(w, Caller::Root);
}

fn user_a_tree_replaced_under_a_living_process_is_not_overwritten(w: &World) {
    replaced_while_used(w, Caller::User);
}

fn replaced_while_used(w: &World, caller: Caller) {
    let (before, replace) = REPLACED;
    let script = format!(
        "{before} W exec -d s -- sleep 1000 >&2; {replace} W exec s -- /bin/sh -euc 'sed -i s/2/sandbox/ f; rm g'; \
         code=0; W apply s --yes >&2 || code=$?; echo $code; grep real f g"
    );
    let outcome = in_namespace(w, caller, &script);
    assert_eq!(outcome.stdout, "1\nf:real\ng:real\n", "{}", outcome.stderr);
}

fn root_an_exchanged_mount_is_seen_by_the_next_command(w: &World) {
    let script = "mkdir m; mount -t tmpfs m m; echo old > m/f; W new s >&2; W exec s -- cat m/f; umount m; mount -t tmpfs m m; \
                  echo other > m/f; W exec s -- cat m/f";
    let outcome = in_namespace(w, Caller::Root, script);
    assert_eq!(outcome.stdout, "old\nother\n", "{}", outcome.stderr);
}

fn root_nothing_is_applied_beneath_a_mount_that_went(w: &World) {
    unmounted(w, Caller::Root);
}

fn user_nothing_is_applied_beneath_a_mount_that_went(w: &World) {
    unmounted(w, Caller::User);
}

fn unmounted(w: &World, caller: Caller) {
    let script = "mkdir m disk; mount --bind disk m; own m; W run --quiet --name s -- touch m/new; umount m; \
                  W apply s --yes 2>&1 | grep -c 'where nothing is mounted any more'; ls m; mount --bind disk m; \
                  W apply s --yes >&2; ls m";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "1\nnew\n", "{}", outcome.stderr);
}

fn root_a_mount_over_changes_hides_none_of_them(w: &World) {
    covered(w, Caller::Root);
}

fn user_a_mount_over_changes_hides_none_of_them(w: &World) {
    covered(w, Caller::User);
}

fn covered(w: &World, caller: Caller) {
    let script = "mkdir d; echo old > d/f; own d; W run --quiet --name s -- /bin/sh -euc 'echo new > d/f; echo top > top'; \
                  mount -t tmpfs d d; W start s 2>&1 | grep -c 'cannot be mounted again'; W ls >&2; umount d; \
                  W exec s -- cat d/f top; W diff s --name-only";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "1\nnew\ntop\nd/f\ntop\n", "{}", outcome.stderr);
}

fn root_changes_wait_for_a_mount_that_went(w: &World) {
    gone(w, Caller::Root);
}

fn user_changes_wait_for_a_mount_that_went(w: &World) {
    gone(w, Caller::User);
}

fn gone(w: &World, caller: Caller) {
    let script = "mkdir m; mount -t tmpfs m m; own m; W run --quiet --name s -- /bin/sh -euc 'echo work > m/new'; umount m; \
                  W start s 2>&1 | grep -c 'cannot be mounted again'; mount -t tmpfs m m; own m; W exec s -- cat m/new; \
                  W diff s --name-only";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "1\nwork\nm/new\n", "{}", outcome.stderr);
}

fn root_an_unchanged_mount_may_go(w: &World) {
    let script = "mkdir m; mount -t tmpfs m m; W run --quiet --name s -- /bin/sh -euc 'echo top > top'; umount m; \
                  W exec s -- /bin/sh -euc 'echo work > m/new'; W diff s --name-only; mount -t tmpfs m m; W stop s >&2; \
                  W start s 2>&1 | grep -c 'what is at .*/m by now would hide'; umount m; W start s >&2; W apply s --yes >&2; cat m/new";
    let outcome = in_namespace(w, Caller::Root, script);
    assert_eq!(outcome.stdout, "m/new\ntop\n1\nwork\n", "{}", outcome.stderr);
}
