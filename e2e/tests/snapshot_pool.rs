//! The warm pool: a sandbox that was made beforehand is in nothing different from one that is made now, or it is not handed out.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use whatif_e2e::{Random, World, as_root, as_root_and_user, eventually, kill_wholly, wait_for};

as_root_and_user!(
    a_ready_sandbox_is_claimed,
    a_claimed_sandbox_is_like_a_new_one,
    a_command_has_the_callers_umask_limits_and_priority,
    reality_is_followed_until_the_claim,
    a_new_secret_is_hidden,
    a_rewritten_file_is_the_latest,
    another_program_is_not_trusted,
    a_dead_keeper_is_not_handed_out,
    whoever_wants_something_special_gets_it_made,
    claims_at_once_get_one_each,
    a_killed_filler_leaves_nothing,
    a_killed_claim_leaves_nothing,
    draining_and_collecting,
    what_is_more_than_wanted_is_thrown_away,
    whoever_fills_waits_for_whoever_is_at_it,
    draining_while_another_command_fills_leaves_nothing,
    a_dead_one_is_not_counted,
    a_size_that_cannot_be_meant_is_refused,
);
as_root!(a_new_mount_is_seen);

/// Switches the pool on and fills it.
fn fill(w: &World, size: usize) {
    w.configure(format!("[pool]\nsize = {size}\n"));
    let filled = w.json(["pool", "fill"]);
    assert_eq!(filled["ready"], size, "{filled}");
}

fn ready(w: &World) -> usize {
    let kept = w.json(["pool"]);
    kept.as_array().into_iter().flatten().filter_map(|k| k["ready"].as_u64()).sum::<u64>() as usize
}

/// The processes that are left when the pool is empty are somebody's fault.
fn drain(w: &World) {
    w.configure("");
    // Who fills in the background may be at it just now.
    eventually("nobody fills", || !w.processes().iter().any(|p| p.contains(" tidy") || p.contains(" pool")));
    w.whatif(["pool", "drain"]).go().ok();
    assert_eq!(ready(w), 0);
}

/// Its keeper was there before.
fn was_claimed(w: &World, name: &str, before: &[String]) -> bool {
    let keeper = w.json(["show", name])["keeper_pid"].to_string();
    before.iter().any(|line| line.starts_with(&format!("{keeper} ")))
}

fn a_ready_sandbox_is_claimed(w: &World) {
    fill(w, 2);
    assert_eq!(w.json(["ls"]), serde_json::json!([]), "what is ready is nobody's sandbox");
    let before = w.processes();
    let name = w.new_sandbox("mine");
    assert!(was_claimed(w, &name, &before), "{before:?}");
    assert_eq!(w.exec(&name, "echo works > f; cat f").ok().text(), "works");
    assert_eq!(w.whatif(["run", "--rm", "--quiet", "--", "echo", "ran"]).go().ok().text(), "ran");
    eventually("it is filled up again", || ready(w) == 2);
    drain(w);
    assert_eq!(w.exec(&name, "cat f").ok().text(), "works", "whoever has one keeps it");
}

fn a_claimed_sandbox_is_like_a_new_one(w: &World) {
    let look = "env | grep -v '^_=' | sort; hostname; id; umask; pwd; ls -A ~ /tmp /dev/shm; wc -l < /proc/self/mountinfo; \
        cat /proc/self/status | grep -E '^(Cap|Seccomp|NoNew)'; ls /proc/self/fd | wc -l; ulimit -a; sed 's/-[0-9a-z]*$//' /proc/self/cgroup";
    let seen = |name: &str| {
        let call = w.whatif(["new", name]).env("COLOUR", "claimed").env("LATER", "1");
        call.go().ok();
        w.whatif(["exec", name, "--", "/bin/sh", "-c", look])
            .env("COLOUR", "claimed")
            .env("LATER", "1")
            .go()
            .ok()
            .stdout
            .replace(name, "NAME")
    };
    let fresh = seen("one");
    w.configure("[pool]\nsize = 1\n");
    w.whatif(["pool", "fill"]).env("COLOUR", "filler").env("EARLIER", "1").go().ok();
    let before = w.processes();
    let claimed = seen("two");
    assert!(was_claimed(w, "two", &before));
    // The configuration itself is a file in the home.
    assert_eq!(claimed.replace(".config\n", ""), fresh.replace(".config\n", ""));
    let details = |name: &str| {
        let mut shown = w.json(["show", name]);
        for key in ["id", "name", "created_at", "updated_at", "keeper_pid", "directory", "version", "labels", "processes"] {
            shown.as_object_mut().map(|o| o.remove(key));
            shown["details"].as_object_mut().map(|o| o.remove(key));
        }
        // Which ids it has outside.
        shown["details"]["identity"].as_object_mut().map(|o| o.remove("base"));
        shown["details"].as_object_mut().map(|o| o.remove("reserved_ids"));
        // When it was first used.
        shown["details"]["position"].as_object_mut().map(|o| o.remove("viewed"));
        shown["details"].to_string()
    };
    assert_eq!(details("two"), details("one"));
    drain(w);
}

/// Whether the sandbox is made now, comes from the pool, or is there already.
fn a_command_has_the_callers_umask_limits_and_priority(w: &World) {
    let look = "umask; ulimit -n; ulimit -Hn; ulimit -c; ulimit -s; ulimit -v; nice";
    let changed = "umask 027; ulimit -Sn 555; ulimit -Hn 666; ulimit -c 0; ulimit -s 4096; ulimit -v 9000000";
    let binary = w.bin.display().to_string();
    let from =
        |command: &str| w.outside(&format!("{changed}; exec nice -n 7 {binary} {command} -- /bin/sh -c '{look}'")).ok().stdout;
    let expected = w.outside(&format!("{changed}; exec nice -n 7 /bin/sh -c '{look}'")).ok().stdout;
    assert!(expected.starts_with("0027\n555\n666\n0\n4096\n9000000\n7"), "{expected}");
    assert_eq!(from("run --rm --quiet"), expected, "made now");
    fill(w, 2);
    assert_eq!(from("run --keep --quiet --name pooled"), expected, "claimed with its command");
    eventually("it is filled up again", || ready(w) == 2);
    // One of the two was made by the caller with stricter limits; whoever has none does not get that.
    let before = w.processes();
    w.new_sandbox("mine");
    assert!(was_claimed(w, "mine", &before));
    assert_eq!(from("exec mine"), expected, "claimed, and then entered");
    // Nothing sticks to the keeper. (How many files an ordinary user may have open is bounded in any case.)
    let look = if w.is_root() { look.to_owned() } else { look.replace("ulimit -n; ulimit -Hn; ", "") };
    let plain = w.outside(&format!("exec {binary} exec mine -- /bin/sh -c '{look}'")).ok().stdout;
    assert_eq!(plain, w.outside(&look).ok().stdout);
    drain(w);
}

fn reality_is_followed_until_the_claim(w: &World) {
    w.outside("echo old > changed; echo old > deleted; mkdir gone; echo x > gone/x; ln -s changed link").ok();
    fill(w, 1);
    let before = w.processes();
    w.outside(
        "echo new > changed; rm -r deleted gone; mkdir made; echo m > made/m; ln -sfn made link; echo d > deleted-not; \
        mv changed moved; echo newest > changed",
    )
    .ok();
    w.new_sandbox("s");
    assert!(was_claimed(w, "s", &before));
    w.listing("s").assert_is(&w.real_listing(), "as reality is now");
    // The project itself may be another directory by now.
    eventually("it is filled up again", || ready(w) == 1);
    w.program("/bin/sh").args(["-c", "mv project elsewhere; mkdir project; echo other > project/other"]).cwd(&w.home).go().ok();
    w.new_sandbox("t");
    w.listing("t").assert_is(&w.real_listing(), "a new directory of the same name");
    drain(w);
}

fn a_new_secret_is_hidden(w: &World) {
    fill(w, 1);
    w.write(w.home.join(".ssh/id_ed25519"), "secret");
    w.write(w.home.join(".aws/credentials"), "secret");
    w.new_sandbox("s");
    assert_eq!(w.exec("s", "cat ~/.ssh/id_ed25519 ~/.aws/credentials").stdout, "");
    drain(w);
}

fn a_rewritten_file_is_the_latest(w: &World) {
    w.write(w.home.join(".npmrc"), "color=old\n//registry.npmjs.org/:_authToken=secret-one\n");
    let fresh = w.inside("cat ~/.npmrc").stdout;
    assert!(!fresh.contains("secret-one"), "{fresh}");
    fill(w, 1);
    w.write(w.home.join(".npmrc"), "color=new\n//registry.npmjs.org/:_authToken=secret-two\n");
    w.new_sandbox("s");
    let claimed = w.exec("s", "cat ~/.npmrc").stdout;
    assert_eq!(claimed, fresh.replace("=old", "=new"));
    drain(w);
}

fn another_program_is_not_trusted(w: &World) {
    fill(w, 1);
    let before = w.processes();
    // As an update of the package does it.
    let update = format!("cp -p {bin} {bin}.new && touch {bin}.new && mv {bin}.new {bin}", bin = w.bin.display());
    assert!(std::process::Command::new("/bin/sh").args(["-c", &update]).status().is_ok_and(|s| s.success()));
    w.new_sandbox("s");
    assert!(!was_claimed(w, "s", &before), "an older keeper may not know what is asked of it");
    assert_eq!(w.exec("s", "echo works").ok().text(), "works");
    drain(w);
}

fn keepers(w: &World) -> Vec<i32> {
    w.processes().iter().filter(|p| p.contains(" keeper ")).filter_map(|p| p.split(' ').next()?.parse().ok()).collect()
}

fn a_dead_keeper_is_not_handed_out(w: &World) {
    fill(w, 2);
    kill_wholly(&keepers(w));
    w.new_sandbox("s");
    assert_eq!(w.exec("s", "echo works").ok().text(), "works");
    eventually("it is filled up again", || ready(w) == 2 && keepers(w).len() == 3);
    let own = w.json(["show", "s"])["keeper_pid"].as_i64();
    let others: Vec<i32> = keepers(w).into_iter().filter(|p| Some(i64::from(*p)) != own).collect();
    kill_wholly(&others);
    eventually("dead ones are replaced", || w.json(["pool", "fill"])["ready"] == 2 && keepers(w).len() == 3);
    drain(w);
}

fn whoever_wants_something_special_gets_it_made(w: &World) {
    w.write(w.home.join("diary"), "dear diary");
    fill(w, 1);
    for special in [["--mask", "~/diary"], ["--env", "SET=1"], ["--backend", "copy"], ["--net", "host"]] {
        let before = w.processes();
        w.whatif(["new", "s"]).args(special).go().ok();
        assert!(!was_claimed(w, "s", &before), "{special:?}");
        if special[0] == "--mask" {
            assert_ne!(w.exec("s", "cat ~/diary").code, 0);
        }
        if special[0] == "--env" {
            assert_eq!(w.exec("s", "echo $SET").ok().text(), "1");
        }
        w.whatif(["rm", "s"]).go().ok();
    }
    drain(w);
}

fn start(w: &World, arguments: &[&str]) -> Child {
    w.whatif(arguments.iter().copied()).streams(Stdio::null(), Stdio::piped(), Stdio::piped()).spawn()
}

fn claims_at_once_get_one_each(w: &World) {
    fill(w, 3);
    for round in 0..4 {
        let names: Vec<String> = (0..5).map(|n| format!("s-{round}-{n}")).collect();
        let children: Vec<Child> = names.iter().map(|name| start(w, &["new", name])).collect();
        for child in children {
            let output = child.wait_with_output().expect("it is our child");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        for name in &names {
            w.exec(name, &format!("echo {name} > owner")).ok();
        }
        for name in &names {
            assert_eq!(w.exec(name, "cat owner; ls | wc -l").ok().stdout, format!("{name}\n1\n"), "nobody shares one");
        }
        w.whatif(["rm"]).args(&names).go().ok();
    }
    drain(w);
}

/// After a crash and one more command: keepers only for what is recorded or ready, and nothing half done.
#[track_caller]
fn assert_settled(w: &World, context: &str) {
    let active = || w.json(["ls"]).as_array().into_iter().flatten().filter(|s| s["status"] == "active").count();
    let settled = wait_for(Duration::from_secs(60), || {
        let expected = active() + ready(w);
        let is_busy = w.processes().iter().any(|p| !p.contains(" keeper "));
        (!is_busy && w.transient().is_empty() && keepers(w).len() == expected).then_some(())
    });
    assert!(
        settled.is_some(),
        "{context}: {} active, {} ready, transient {:?}, running {:?}",
        active(),
        ready(w),
        w.transient(),
        w.processes()
    );
    let listed = w.json(["ls"]).to_string();
    assert!(!listed.contains("pool-"), "{context}: what is ready is nobody's: {listed}");
}

fn killed_at_random(w: &World, seed: u64, command: &[&str], prepare: impl Fn()) {
    let mut random = Random::from(seed);
    for round in 0..std::env::var("WHATIF_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(4) {
        prepare();
        let mut child = start(w, command);
        std::thread::sleep(Duration::from_micros(random.below(60_000) as u64));
        let _ = child.kill();
        let _ = child.wait();
        assert_settled(w, &format!("{command:?}, round {round}"));
        w.whatif(["rm", "--all", "--yes"]).go().ok();
    }
}

fn a_killed_filler_leaves_nothing(w: &World) {
    w.configure("[pool]\nsize = 2\n");
    killed_at_random(w, 1, &["pool", "fill"], || {
        w.whatif(["pool", "drain"]).go().ok();
    });
    drain(w);
}

fn a_killed_claim_leaves_nothing(w: &World) {
    w.configure("[pool]\nsize = 1\n");
    killed_at_random(w, 2, &["new", "victim"], || {
        w.whatif(["pool", "fill"]).go().ok();
    });
    drain(w);
}

fn draining_and_collecting(w: &World) {
    fill(w, 2);
    assert!(w.whatif(["gc"]).go().ok().stdout.contains("nothing to do"));
    assert_eq!(ready(w), 2, "a collector leaves it alone");
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    drain(w);
    eventually("nothing runs", || w.processes().is_empty());
    let left = |place: &Path| std::fs::read_dir(place).map_or(0, Iterator::count);
    assert_eq!(left(&w.state.join("pool")) + left(&w.state.join("sandboxes")), 0);
}

fn what_is_more_than_wanted_is_thrown_away(w: &World) {
    fill(w, 3);
    fill(w, 1);
    eventually("only one stands", || keepers(w).len() == 1);
    let off = || w.configure("[pool]\nsize = 0\n");
    off();
    assert_eq!(w.whatif(["pool", "fill"]).go().ok().text(), "the pool is switched off; 1 sandbox thrown away");
    eventually("none stands", || keepers(w).is_empty());
    w.whatif(["pool", "fill"]).go().fails_with_hint(2).says("switched off");
    fill(w, 2);
    off();
    w.new_sandbox("s");
    eventually("they go in the background", || ready(w) == 0 && keepers(w).len() == 1);
    drain(w);
}

fn whoever_fills_waits_for_whoever_is_at_it(w: &World) {
    w.configure("[pool]\nsize = 5\n");
    // Fills in the background from now on.
    w.new_sandbox("s");
    assert_eq!(w.whatif(["pool", "fill"]).go().ok().text(), "5 of 5 sandboxes ready");
    drain(w);
}

fn draining_while_another_command_fills_leaves_nothing(w: &World) {
    w.configure("[pool]\nsize = 4\n");
    let mut filling = w.whatif(["pool", "fill"]).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
    eventually("it has begun", || !keepers(w).is_empty());
    w.whatif(["pool", "drain"]).go().ok();
    assert!(filling.wait().expect("it is our child").success(), "what it made was in nobody's way");
    assert_eq!(ready(w), 0);
    eventually("no keeper is left", || keepers(w).is_empty());
    drain(w);
}

fn a_dead_one_is_not_counted(w: &World) {
    fill(w, 2);
    kill_wholly(&keepers(w));
    assert_eq!(ready(w), 0);
    drain(w);
}

fn a_size_that_cannot_be_meant_is_refused(w: &World) {
    w.configure("[pool]\nsize = 100000\n");
    w.whatif(["pool"]).go().fails_with_hint(125).says("pool.size is 100000, but no more than 100 ");
    w.configure("");
}

/// A sandbox that stands cannot follow a new mount of reality. The "host" is a mount namespace of the test's own.
fn a_new_mount_is_seen(w: &World) {
    w.configure("[pool]\nsize = 1\n");
    w.write("mounted/under", "under");
    let script = format!(
        "set -e; {bin} pool fill >/dev/null; mount -t tmpfs none mounted; echo over > mounted/over; \
        {bin} new s >/dev/null 2>&1; {bin} exec s -- ls mounted; \
         {bin} rm --all --yes >/dev/null; rm {config}; sleep 0.3; {bin} pool drain >/dev/null",
        bin = w.bin.display(),
        config = w.home.join(".config/whatif/config.toml").display()
    );
    let outcome = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]).go().ok();
    assert_eq!(outcome.text(), "over");
    drain(w);
}
