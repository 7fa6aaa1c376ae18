//! Mounts that come, go and lie elsewhere than usual: what a sandbox did stays with the directory it did it in. Each in a mount
//! namespace of its own, so all are started by root; those for an ordinary user let one run whatif.

use whatif_e2e::{Outcome, World, as_root, not_on, on_other_backends_as_root};

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
    root_changes_are_not_called_deleted_beneath_a_mount_that_came,
    user_changes_are_not_called_deleted_beneath_a_mount_that_came,
    root_changes_wait_for_a_mount_that_went,
    user_changes_wait_for_a_mount_that_went,
    root_an_unchanged_mount_may_go,
    root_nothing_of_a_snapshot_is_applied_beneath_a_mount_that_went,
    user_nothing_of_a_snapshot_is_applied_beneath_a_mount_that_went,
    root_the_rest_is_applied_without_a_mount_that_went,
    user_the_rest_is_applied_without_a_mount_that_went,
    root_checks_see_what_would_be_although_mounts_changed,
    user_checks_see_what_would_be_although_mounts_changed,
    root_a_second_snapshot_waits_for_a_mount_that_went,
    user_a_second_snapshot_waits_for_a_mount_that_went,
    root_a_second_snapshot_does_without_an_unchanged_mount_that_went,
    root_a_mount_that_goes_during_a_snapshot_is_told,
    root_an_archive_waits_for_a_mount_that_went,
    user_an_archive_waits_for_a_mount_that_went,
    root_a_template_waits_for_a_mount_that_went,
    user_a_template_waits_for_a_mount_that_went,
    root_a_template_is_not_hidden_by_a_mount_that_came,
    user_a_template_is_not_hidden_by_a_mount_that_came,
    root_what_leaves_under_another_name_stays_in_a_renamed_directory,
    root_what_is_mounted_in_a_copy_is_shown_and_cannot_be_written,
    user_what_is_mounted_in_a_copy_is_shown_and_cannot_be_written,
);

on_other_backends_as_root!(
    root_a_tree_replaced_under_a_living_process_is_not_overwritten,
    user_a_tree_replaced_under_a_living_process_is_not_overwritten,
    root_a_mount_over_changes_hides_none_of_them,
    user_a_mount_over_changes_hides_none_of_them,
    root_checks_see_what_would_be_although_mounts_changed,
    user_checks_see_what_would_be_although_mounts_changed,
);
/// Over fuse alone: a copy shows reality as it was, and what is mounted in it is read-only.
mod over_fuse {
    use whatif_e2e::{Who, World};

    #[test]
    fn a_replaced_tree_is_seen_by_the_next_command() {
        World::with_backend(Who::Root, "fuse", super::root_a_replaced_tree_is_seen_by_the_next_command);
        World::with_backend(Who::Root, "fuse", super::user_a_replaced_tree_is_seen_by_the_next_command);
    }

    #[test]
    fn nothing_is_applied_beneath_a_mount_that_went() {
        World::with_backend(Who::Root, "fuse", super::root_nothing_is_applied_beneath_a_mount_that_went);
        World::with_backend(Who::Root, "fuse", super::user_nothing_is_applied_beneath_a_mount_that_went);
    }
}

/// Why a test that writes to a mount in the project is not for the backend `copy`.
const READ_ONLY: &str = "what is mounted in the project is read-only";
/// Why a test in which a mount goes from beneath changes is not for `fuse`.
const CUT: &str = "a mount that goes makes other trees of what lies around it";
/// Why a test of a snapshot that has to mount everything again is not for `fuse`.
const AT_REST: &str = "a sandbox is stopped for a snapshot, and mounted again by the next command";
/// Why a test that looks at what reality did since is not for it either.
const AS_COPIED: &str = "it shows reality as it was when it was copied";

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
    // The world ends as root, in another namespace. What the caller removes in the background must be gone before it changes hands:
    // layers too, which a process of its own moves to `transient` a moment after all else is gone.
    let settle = "left() { pgrep -f \"^$0 tidy\" || :; [ ! -d \"$WHATIF_HOME/layers\" ] || ls -A \"$WHATIF_HOME/layers\"; \
                  ls -A \"$WHATIF_HOME/transient\"; }; \
                  for _ in $(seq 1200); do [ -n \"$(left)\" ] || break; sleep 0.05; done";
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
    not_on!(w, "copy", READ_ONLY);
    let script = "mount -t tmpfs -o mode=1777 tmp /tmp; mkdir A B; mount -t tmpfs A A; mount -t tmpfs B B; echo a > A/f; \
                  echo b > B/f; own A B; W run --quiet --name s -- /bin/sh -euc 'echo work > A/new; echo more >> A/f'; \
                  W diff s --name-only; W stop s >&2; W start s >&2; W exec s -- cat A/new B/f; W apply s --yes >&2; cat A/f A/new B/f; ls B";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "A/f\nA/new\nwork\nb\na\nmore\nwork\nb\nf\n", "{}", outcome.stderr);
}

fn root_a_file_system_below_run_takes_no_head(w: &World) {
    not_on!(w, "copy", READ_ONLY);
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

fn root_what_leaves_under_another_name_stays_in_a_renamed_directory(w: &World) {
    let script = "mkdir -p p/d other; touch p/.whatif.toml; echo k > p/d/k; echo m > p/d/m; mount --bind p other; cd other; \
                  W new renamed >&2; W exec renamed -- mv d moved; cd ../p; W new s >&2; W exec s -- rm d/k; W apply s --all --yes >&2; \
                  W exec renamed -- sh -c 'ls moved; cat moved/k'";
    let outcome = in_namespace(w, Caller::Root, script);
    assert_eq!(outcome.stdout, "k\nm\nk\n", "{}", outcome.stderr);
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
    not_on!(w, "copy", AS_COPIED);
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
    not_on!(w, "copy", AS_COPIED);
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
    not_on!(w, "copy", READ_ONLY);
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

fn root_changes_are_not_called_deleted_beneath_a_mount_that_came(w: &World) {
    bound_over(w, Caller::Root);
}

fn user_changes_are_not_called_deleted_beneath_a_mount_that_came(w: &World) {
    bound_over(w, Caller::User);
}

/// A directory of the same file system looks like any other, but for being the root of a mount.
fn bound_over(w: &World, caller: Caller) {
    for mount in ["mount --bind other d", "mount -t tmpfs d d"] {
        let script = format!(
            "rm -rf d other b; mkdir d other; echo old > d/f; echo old > d/gone; echo o > other/o; echo b > b; own d other b; \
             W new s >&2; W exec s -- sh -c 'echo new >> d/f; echo more > d/more; rm d/gone; echo new >> b'; {mount}; \
             for verb in 'apply --yes' 'apply --yes --theirs d' 'rebase'; do W $verb s >&2 && echo done; done; \
             W apply s --yes --exclude \"$PWD/d\" >&2; cat b; umount d; \
             W diff s --name-only; W apply s --yes >&2; cat d/f d/more; ls d other"
        );
        let outcome = in_namespace(w, caller, &script);
        assert_eq!(
            outcome.stdout, "b\nnew\nd/f\nd/gone\nd/more\nold\nnew\nmore\nd:\nf\nmore\n\nother:\no\n",
            "{mount}: {}",
            outcome.stderr
        );
        assert_eq!(outcome.stderr.matches("where something else is mounted by now").count(), 3, "{mount}: {}", outcome.stderr);
    }
}

fn root_changes_wait_for_a_mount_that_went(w: &World) {
    gone(w, Caller::Root);
}

fn user_changes_wait_for_a_mount_that_went(w: &World) {
    gone(w, Caller::User);
}

fn gone(w: &World, caller: Caller) {
    not_on!(w, "copy", READ_ONLY);
    let script = "mkdir m; mount -t tmpfs m m; own m; W run --quiet --name s -- /bin/sh -euc 'echo work > m/new'; umount m; \
                  W start s 2>&1 | grep -c 'cannot be mounted again'; mount -t tmpfs m m; own m; W exec s -- cat m/new; \
                  W diff s --name-only";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "1\nwork\nm/new\n", "{}", outcome.stderr);
}

fn root_an_unchanged_mount_may_go(w: &World) {
    not_on!(w, "fuse", CUT);
    let script = "mkdir m; mount -t tmpfs m m; W run --quiet --name s -- /bin/sh -euc 'echo top > top'; umount m; \
                  W exec s -- /bin/sh -euc 'echo work > m/new'; W diff s --name-only; mount -t tmpfs m m; W stop s >&2; \
                  W start s 2>&1 | grep -c 'what is now at .*/m would hide'; umount m; W start s >&2; W apply s --yes >&2; cat m/new";
    let outcome = in_namespace(w, Caller::Root, script);
    assert_eq!(outcome.stdout, "m/new\ntop\n1\nwork\n", "{}", outcome.stderr);
}

fn root_nothing_of_a_snapshot_is_applied_beneath_a_mount_that_went(w: &World) {
    unmounted_after_snapshot(w, Caller::Root);
}

fn user_nothing_of_a_snapshot_is_applied_beneath_a_mount_that_went(w: &World) {
    unmounted_after_snapshot(w, Caller::User);
}

/// A snapshot of a sandbox that rests, and a fork, have nothing mounted; that something was must be known all the same.
fn unmounted_after_snapshot(w: &World, caller: Caller) {
    not_on!(w, "copy", READ_ONLY);
    let script = "mkdir m disk; mount --bind disk m; own m; W run --quiet --name s -- touch m/new; W snapshot s >&2; \
                  W fork s f >&2; umount m; for s in s f; do W apply $s --yes 2>&1 | grep -c 'where nothing is mounted any more'; \
                  done; ls m; mount --bind disk m; W apply f --yes >&2; ls m";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "1\n1\nnew\n", "{}", outcome.stderr);
}

fn root_a_second_snapshot_waits_for_a_mount_that_went(w: &World) {
    second_snapshot(w, Caller::Root);
}

fn user_a_second_snapshot_waits_for_a_mount_that_went(w: &World) {
    second_snapshot(w, Caller::User);
}

/// The first one has found out what is mounted, and the second one does not look again.
fn second_snapshot(w: &World, caller: Caller) {
    not_on!(w, "copy", READ_ONLY);
    not_on!(w, "fuse", AT_REST);
    for (gone, back) in [("umount m", ":"), ("umount m; rmdir m", "mkdir m")] {
        let script = format!(
            "mkdir -p m store; echo a > store/a; echo u > store/u; own store; mount --bind store m; W new s >&2; \
             W exec s -- sh -c 'echo x >> m/a'; W snapshot s zero >&2; W exec s -- sh -c 'echo y >> m/a'; {gone}; \
             for verb in 'snapshot s one' 'rollback s zero'; do W $verb >&2 && echo moved; done; W exec s -- cat m/a m/u; \
             {back}; mount --bind store m; W snapshot s one >&2; W exec s -- cat m/a m/u; umount m; rm -r m"
        );
        let outcome = in_namespace(w, caller, &script);
        assert_eq!(outcome.stdout, "a\nx\ny\nu\na\nx\ny\nu\n", "{gone}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.matches("cannot be mounted again: it has changes in").count(), 2, "{}", outcome.stderr);
    }
}

fn root_a_second_snapshot_does_without_an_unchanged_mount_that_went(w: &World) {
    not_on!(w, "fuse", CUT);
    let script = "mkdir m; echo b > b; mount -t tmpfs m m; echo a > m/a; W new s >&2; W exec s -- sh -c 'echo x >> b'; \
                  W snapshot s zero >&2; W exec s -- sh -c 'echo y >> b'; umount m; W snapshot s one >&2; \
                  W exec s -- sh -c 'cat b; ls m'; W diff s --name-only";
    let outcome = in_namespace(w, Caller::Root, script);
    assert_eq!(outcome.stdout, "b\nx\ny\nb\n", "{}", outcome.stderr);
}

/// The helper is slow to take what it mounts, and the file system goes when everything was looked at.
fn root_a_mount_that_goes_during_a_snapshot_is_told(w: &World) {
    not_on!(w, "copy", READ_ONLY);
    not_on!(w, "fuse", AT_REST);
    for gone in ["umount m", "umount m; rmdir m"] {
        let script = format!(
            "mkdir -p m; mount -t tmpfs m m; echo a > m/a; W new s >&2; W exec s -- sh -c 'echo x >> m/a'; \
             strace -f -o trace -e trace=open_tree -e inject=open_tree:delay_enter=3000000:when=1 \"$0\" snapshot s one >&2 & \
             for _ in $(seq 3000); do ls \"$WHATIF_HOME\"/transient/shift-* >&2 && break; sleep 0.01; done; {gone}; \
             wait $! && echo taken; ls \"$WHATIF_HOME/transient\"; W exec s -- cat m/a; rm -rf m trace"
        );
        let outcome = in_namespace(w, Caller::Root, &script);
        assert_eq!(outcome.stdout, "a\nx\n", "{gone}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("m was unmounted meanwhile"), "{}", outcome.stderr);
    }
}

fn root_an_archive_waits_for_a_mount_that_went(w: &World) {
    archive_after_unmounting(w, Caller::Root);
}

fn user_an_archive_waits_for_a_mount_that_went(w: &World) {
    archive_after_unmounting(w, Caller::User);
}

/// An ordinary user's home is cut differently without the mount; then it is not even imported.
fn archive_after_unmounting(w: &World, caller: Caller) {
    not_on!(w, "copy", READ_ONLY);
    let script = "mkdir m disk; mount --bind disk m; own m; W run --quiet --name s -- touch m/new; W export s -o ../s.wi >&2; \
                  W rm s >&2; umount m; W import ../s.wi --name i >&2 && W apply i --yes >&2 || echo refused; ls m; mount --bind disk m; \
                  W show i > /dev/null 2>&1 || W import ../s.wi --name i >&2; W apply i --yes >&2; ls m";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "refused\nnew\n", "{}", outcome.stderr);
}

fn root_a_template_waits_for_a_mount_that_went(w: &World) {
    template_after_unmounting(w, Caller::Root);
}

fn user_a_template_waits_for_a_mount_that_went(w: &World) {
    template_after_unmounting(w, Caller::User);
}

fn template_after_unmounting(w: &World, caller: Caller) {
    not_on!(w, "copy", READ_ONLY);
    let script = "mkdir m disk; mount --bind disk m; own m; W run --quiet --name s -- /bin/sh -c 'touch m/new; echo top > top'; \
                  W template save s t >&2; W rm s >&2; umount m; \
                  W run --template t --name n -- /bin/sh -c 'echo work > work' 2>&1 | grep -c \"template 't' cannot be mounted\"; \
                  W new --template t n 2>&1 | grep -c 'nothing is lost; '; W ls --quiet; mount --bind disk m; \
                  W run --quiet --template t --name n -- /bin/sh -c 'echo work > work; ls m top'; W diff n --name-only; \
                  W template rm t >&2";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "1\n1\ntop\n\nm:\nnew\nm/new\ntop\nwork\n", "{}", outcome.stderr);
}

fn root_a_template_is_not_hidden_by_a_mount_that_came(w: &World) {
    template_under_a_mount(w, Caller::Root);
}

fn user_a_template_is_not_hidden_by_a_mount_that_came(w: &World) {
    template_under_a_mount(w, Caller::User);
}

fn template_under_a_mount(w: &World, caller: Caller) {
    let script = "mkdir d; own d; W run --quiet --name s -- /bin/sh -c 'echo new > d/f; echo top > top'; \
                  W template save s t >&2; W rm s >&2; mount -t tmpfs d d; own d; \
                  W run --template t --name n -- true 2>&1 | grep -c \"template 't' cannot be mounted\"; umount d; \
                  W run --rm --template t -- cat d/f; W template rm t >&2";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "1\nnew\n", "{}", outcome.stderr);
}

fn root_the_rest_is_applied_without_a_mount_that_went(w: &World) {
    rest_without_mount(w, Caller::Root);
}

fn user_the_rest_is_applied_without_a_mount_that_went(w: &World) {
    rest_without_mount(w, Caller::User);
}

fn rest_without_mount(w: &World, caller: Caller) {
    not_on!(w, "copy", READ_ONLY);
    let script = "mkdir m disk; mount --bind disk m; own m; W run --quiet --name s -- /bin/sh -euc 'for f in m/f x y; do echo $f > $f; done'; \
                  umount m; W apply s --yes 2>&1 | grep -o 'whatif apply s --exclude .*' > hint; W apply s --files x --yes >&2; cat x; \
                  eval \"W $(sed 's/whatif //; s/$/ --yes/' hint)\" >&2; cat y; ls m; \
                  W apply s --yes 2>&1 | grep -c 'where nothing is mounted any more'; mount --bind disk m; W apply s --yes >&2; cat m/f";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "x\ny\n1\nm/f\n", "{}", outcome.stderr);
}

fn root_checks_see_what_would_be_although_mounts_changed(w: &World) {
    checks_without_mount(w, Caller::Root);
}

fn user_checks_see_what_would_be_although_mounts_changed(w: &World) {
    checks_without_mount(w, Caller::User);
}

/// For an ordinary user a mount that goes makes other trees of what lies around it.
fn checks_without_mount(w: &World, caller: Caller) {
    w.write(".whatif.toml", "[[apply.checks]]\nname = \"c\"\nrun = \"! grep -q bad f\"\n");
    let script = "mkdir m; mount -t tmpfs m m; own m; echo good > f; own f; W run --quiet --name s -- /bin/sh -c 'echo bad > f'; \
                  W run --quiet --name t -- /bin/sh -c 'echo better > f'; umount m; \
                  W apply s --yes 2>&1 | grep -c 'nothing was applied'; cat f; W apply t --yes >&2; cat f; rm -f .whatif.toml";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "1\ngood\nbetter\n", "{}", outcome.stderr);
}

fn root_what_is_mounted_in_a_copy_is_shown_and_cannot_be_written(w: &World) {
    mounted_in_a_copy(w, Caller::Root);
}

fn user_what_is_mounted_in_a_copy_is_shown_and_cannot_be_written(w: &World) {
    mounted_in_a_copy(w, Caller::User);
}

/// One mount is of the project's own file system, one is of another. Neither the mount nor the directory beneath it gets anything.
fn mounted_in_a_copy(w: &World, caller: Caller) {
    let script = "mkdir m n disk; echo beneath > m/beneath; echo a > disk/f; mount --bind disk m; mount -t tmpfs n n; echo b > n/f; own m n; \
                  W run --backend copy --quiet --name s -- /bin/sh -c 'cat m/f n/f; echo x > m/new; echo x > n/new; echo top > top'; \
                  W diff s --name-only; umount m n; W apply s --yes >&2; ls m n disk; cat top";
    let outcome = in_namespace(w, caller, script);
    assert_eq!(outcome.stdout, "a\nb\ntop\ndisk:\nf\n\nm:\nbeneath\n\nn:\ntop\n", "{}", outcome.stderr);
}
