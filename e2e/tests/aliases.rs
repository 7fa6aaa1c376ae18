//! Secrets and the state directory under other names: through bind mounts, mounts of their own, and links.
//! Mounts are made in a mount namespace of the test's own; the user's half drops its rights after making them.

use whatif_e2e::{Outcome, World, as_root};

as_root!(
    a_bind_mount_of_a_masked_directory_shows_nothing,
    a_masked_directory_that_is_a_mount_shows_nothing,
    a_state_directory_that_is_a_mount_shows_nothing,
    a_home_with_a_mount_beneath_it_is_masked_too,
    a_link_to_a_masked_directory_shows_nothing
);

/// Runs `script` with `$W` as whatif, after `setup`, once as root and once as uid 65534 with a home of its own.
fn both_ways(w: &World, setup: &str, script: &str) -> [Outcome; 2] {
    let user_home = w.dir.join("user");
    let names = [
        ("root", w.home.clone(), String::new()),
        ("user", user_home, "setpriv --reuid=65534 --regid=65534 --clear-groups ".to_owned()),
    ];
    names.map(|(who, home, drop)| {
        let (home, bin) = (home.display(), w.bin.display());
        let text = format!(
            "set -e; H={home}; mkdir -p $H/.ssh $H/p; echo KEY-MATERIAL > $H/.ssh/id; [ {who} = root ] || chown -R 65534:65534 $H; \
             A={dir}/alias-{who}; mkdir $A; {setup}; cd $H/p; \
             W='{drop}env -i PATH=/usr/sbin:/usr/bin:/bin HOME={home} WHATIF_HOME={home}/state {bin}'; set +e; {script}; $W rm --all --yes >/dev/null 2>&1",
            dir = w.dir.display(),
        );
        w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &text]).go()
    })
}

fn reveals_nothing(outcomes: [Outcome; 2]) {
    for outcome in outcomes {
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(!all.contains("KEY-MATERIAL"), "{all}");
        assert!(all.contains("RAN"), "the command ran: {all}");
    }
}

/// FS-03.
fn a_bind_mount_of_a_masked_directory_shows_nothing(w: &World) {
    let script = "$W run --rm -- /bin/sh -c \"cat $A/id; cat $H/.ssh/id; echo RAN\"";
    reveals_nothing(both_ways(w, "mount --bind $H/.ssh $A", script));
}

fn a_masked_directory_that_is_a_mount_shows_nothing(w: &World) {
    let setup = "mount -t tmpfs -o mode=755 none $H/.ssh; echo KEY-MATERIAL > $H/.ssh/id";
    reveals_nothing(both_ways(w, setup, "$W run --rm -- /bin/sh -c \"cat $H/.ssh/id; echo RAN\""));
}

/// FS-15.
fn a_state_directory_that_is_a_mount_shows_nothing(w: &World) {
    let setup = "mkdir -p $H/state; mount -t tmpfs -o mode=700,uid=$(stat -c %u $H) none $H/state; mount --bind $H $A";
    let script = "$W new one >/dev/null 2>&1; $W exec one -- /bin/sh -c 'echo KEY-MATERIAL > secret'; \
                  $W run --rm -- /bin/sh -c \"ls -A $H/state $A/state; cat $H/state/sandboxes/*/head/*/secret $A/state/sandboxes/*/head/*/secret; echo RAN\"";
    for outcome in both_ways(w, setup, script) {
        assert!(outcome.stdout.contains("RAN") && !outcome.stdout.contains("state.db"), "{} {}", outcome.stdout, outcome.stderr);
        assert!(!outcome.stdout.contains("KEY-MATERIAL"), "{}", outcome.stdout);
    }
}

fn a_home_with_a_mount_beneath_it_is_masked_too(w: &World) {
    let setup = "mkdir $H/mnt; mount -t tmpfs none $H/mnt";
    reveals_nothing(both_ways(w, setup, "$W run --rm -- /bin/sh -c \"cat $H/.ssh/id; ls -d $H/mnt; echo RAN\""));
}

fn a_link_to_a_masked_directory_shows_nothing(w: &World) {
    let setup = "mv $H/.ssh $H/store; ln -s store $H/.ssh";
    reveals_nothing(both_ways(w, setup, "$W run --rm -- /bin/sh -c \"cat $H/.ssh/id $H/store/id; echo RAN\""));
}
