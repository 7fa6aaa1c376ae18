//! Inside containers: what works with which options, in a real Docker daemon, and what is said where less or nothing does.

use std::sync::Arc;

use serde_json::Value;
use whatif_e2e::{Docker, Outcome, Podman, Security, Who, World, as_user, skip};

/// Makes two tests of each function: as root and as an ordinary user of a container.
macro_rules! in_container {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[test]
            fn as_root() {
                super::with_docker(|docker| super::$name(docker, whatif_e2e::Who::Root));
            }
            #[test]
            fn as_user() {
                super::with_docker(|docker| super::$name(docker, whatif_e2e::Who::User));
            }
        })+
    };
}

in_container!(
    the_usual_options_are_refused_with_the_one_that_helps,
    without_seccomp_a_sandbox_stands_and_borrows_proc,
    nothing_of_the_borrowed_proc_can_be_written_or_looked_into,
    by_a_borrowed_proc_nobody_else_is_taken_for_one_inside,
    with_whole_paths_a_sandbox_has_a_proc_of_its_own,
    a_privileged_container_is_like_a_machine,
    state_that_would_lie_on_an_overlay_is_put_elsewhere_and_that_is_said,
    what_is_on_a_volume_stays_there,
    the_options_in_the_documentation_work,
);

as_user!(rootless_podman_takes_no_options);

#[test]
fn what_is_made_with_the_rights_of_root_is_not_misread_without_them() {
    with_docker(misread);
}

#[test]
fn a_project_of_another_user_is_pointed_out() {
    with_docker(of_another_user);
}

fn with_docker(test: impl FnOnce(&Arc<Docker>)) {
    match Docker::shared() {
        Ok(docker) => test(&docker),
        Err(why) => skip(&why),
    }
}

/// The network of a sandbox has tests of its own; what it takes of the kernel may be missing here.
const PREPARE: &str = "echo real > f; W() { whatif \"$@\"; }; ";

fn run(docker: &Docker, who: Who, security: Security, script: &str) -> Outcome {
    docker.run(who, security, &[], &format!("{PREPARE}{script}"))
}

fn findings(outcome: &Outcome) -> Vec<Value> {
    let text = outcome.stdout.trim();
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}\n{}", outcome.stderr))
}

fn has(findings: &[Value], name: &str, verdict: &str) -> bool {
    findings.iter().any(|finding| finding["name"] == name && finding["verdict"] == verdict)
}

fn the_usual_options_are_refused_with_the_one_that_helps(docker: &Arc<Docker>, who: Who) {
    const CAUSE: &str = "user namespaces are forbidden by the container's seccomp profile";
    let refused = run(docker, who, Security::Usual, "W run -- sh -c 'echo changed > f'; code=$?; cat f; exit $code").exits(125);
    assert_eq!(refused.text(), "real", "nothing has run");
    assert_eq!(refused.stderr.matches(CAUSE).count(), 1, "{}", refused.stderr);
    refused.says("--security-opt seccomp=unconfined").says("nothing was run");

    let examined = run(docker, who, Security::Usual, "W --json doctor").exits(1);
    let findings = findings(&examined);
    let failed: Vec<&Value> = findings.iter().filter(|finding| finding["verdict"] == "fail").collect();
    assert_eq!(failed.len(), 1, "a cause, and nothing that comes of it: {failed:?}");
    assert_eq!(failed[0]["detail"], CAUSE);
    let fix = failed[0]["fix"].as_str().unwrap_or_default();
    assert!(fix.contains("--security-opt seccomp=unconfined") && fix.contains("systempaths=unconfined"), "{fix}");
    assert!(!findings.iter().any(|f| f["name"].as_str().is_some_and(|name| name.starts_with("backend"))), "{findings:?}");
}

fn without_seccomp_a_sandbox_stands_and_borrows_proc(docker: &Arc<Docker>, who: Who) {
    let script = "W run --name s --keep -- sh -c 'echo changed > f; cat f; test /proc/self -ef /proc/$(sh -c \"exec readlink /proc/self\") || readlink /proc/self >/dev/null && echo self'; \
                  cat f; W show s; W diff s; W apply s --yes >/dev/null; cat f; W undo --yes >/dev/null; cat f";
    let outcome = run(docker, who, Security::NoSeccomp, script).ok();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[..3], ["changed", "self", "real"], "{}", outcome.stdout);
    assert_eq!(lines[lines.len() - 2..], ["changed", "real"], "{}", outcome.stdout);
    assert!(outcome.stdout.contains("/proc of what is around the sandbox, read-only"), "{}", outcome.stdout);
    outcome.says("/proc inside is the container's, read-only");

    let examined = run(docker, who, Security::NoSeccomp, "W --json doctor").ok();
    let findings = findings(&examined);
    assert!(has(&findings, "user namespaces", "ok") && has(&findings, "backend overlay", "ok"), "{findings:?}");
    assert!(has(&findings, "/proc", "warn"), "{findings:?}");
}

/// The container's first process is one of the same user, outside, with a secret in its environment.
fn nothing_of_the_borrowed_proc_can_be_written_or_looked_into(docker: &Arc<Docker>, who: Who) {
    let script = r#"W run --rm -q -- sh -c '
for way in environ mem maps cwd root exe fd/0 auxv; do
  cat /proc/1/$way >/dev/null 2>&1 && echo "read $way"; readlink /proc/1/$way
done
for way in /proc/1/oom_score_adj /proc/self/oom_score_adj /proc/1/comm /proc/1/timerslack_ns /proc/1/coredump_filter \
           /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/mm/transparent_hugepage/enabled; do
  { true > $way; } 2>/dev/null && echo "wrote $way"
done
find /proc /sys -path "/proc/[0-9]*" -prune -o -type f -writable -print 2>/dev/null | head -5
ls /proc/kcore /proc/keys /sys/firmware/* 2>/dev/null | grep -v "^/proc/k" | head -3
umount /proc/keys 2>/dev/null && echo "lifted a mask"
umount /proc 2>/dev/null && echo "lifted /proc"
echo done'"#;
    let outcome = docker.run(who, Security::NoSeccomp, &["--env=SECRET=canary"], &format!("{PREPARE}{script}")).ok();
    assert_eq!(outcome.text(), "done", "{}", outcome.stderr);
}

/// The container has processes of the same user, and one that takes a lot of memory; another sandbox has some, too.
fn by_a_borrowed_proc_nobody_else_is_taken_for_one_inside(docker: &Arc<Docker>, who: Who) {
    let script = r#"
sleep 1000 & outsider=$!
dd if=/dev/zero of=/dev/null bs=96M count=1000000 2>/dev/null & hog=$!
W run -q --keep --name other -- sh -c 'sleep 1001 & :'
W run -q --keep --name s -- sh -c 'sleep 1002 & :'
W --json ps s | sed 's/.*"processes"//' | grep -o '"command": *"[^"]*"' | sort | uniq -c | tr -s ' '
W --json ps s | sed 's/.*"processes"//' | grep -o '"pid": *[0-9]*' | tr -d ' '
W exec s -- sh -c 'kill -0 $! 2>/dev/null; for p in 2 3 4 5 6 7 8; do kill -0 $p 2>/dev/null && [ $p != $$ ] && echo "inside $p"; done; :'
W run --rm -q --memory 48M -- sh -c 'sleep 0.5; echo "limit holds for those inside"'
W run --rm -q --memory 16M -- sh -c 'dd if=/dev/zero of=/dev/null bs=64M count=100000 2>/dev/null; echo unreached' || echo "ended $?"
W snapshot s one >/dev/null 2>&1 && echo snapshot
W stop s >/dev/null && echo stopped
kill -0 $outsider && kill -0 $hog && echo "outsiders live"
W --json ps other | grep -c 'sleep'
kill $outsider $hog
"#;
    let outcome = run(docker, who, Security::NoSeccomp, script).ok();
    let lines: Vec<&str> = outcome.stdout.lines().map(str::trim).collect();
    let pid = lines[1].trim_start_matches("\"pid\":");
    assert_eq!(lines[0].matches("sleep").count(), 1, "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(lines[0].starts_with('1'), "one process, by one name: {}", outcome.stdout);
    assert!(lines.contains(&format!("inside {pid}").as_str()), "it has the number that those inside know: {}", outcome.stdout);
    for said in ["limit holds for those inside", "snapshot", "stopped", "outsiders live", "1"] {
        assert!(lines.contains(&said), "{said}: {}\n{}", outcome.stdout, outcome.stderr);
    }
    assert!(lines.iter().any(|line| line.starts_with("ended 1")), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(!lines.contains(&"unreached"), "{}", outcome.stdout);
}

fn with_whole_paths_a_sandbox_has_a_proc_of_its_own(docker: &Arc<Docker>, who: Who) {
    let script = "sleep 1000 & W run --rm -- sh -c 'echo changed > f; test $(readlink /proc/self) -lt 20 && ls -d /proc/[0-9]* | wc -l; \
                  { echo x > /proc/sys/kernel/hostname; } 2>/dev/null || echo closed'; cat f; W --json doctor; kill $!";
    let outcome = run(docker, who, Security::WholePaths, script).ok();
    let mut lines = outcome.stdout.lines();
    let seen: u32 = lines.next().and_then(|line| line.trim().parse().ok()).expect("a count");
    assert!(seen <= 5, "{seen} processes are visible");
    assert_eq!(lines.next(), Some("closed"));
    assert_eq!(lines.next(), Some("real"));
    let rest = outcome.stdout.split_once("real\n").expect("it is there").1;
    let findings: Vec<Value> = serde_json::from_str(rest).expect("JSON");
    assert!(has(&findings, "backend overlay", "ok") && !has(&findings, "/proc", "warn"), "{findings:?}");
    assert!(!outcome.stderr.contains("/proc"), "{}", outcome.stderr);
}

fn a_privileged_container_is_like_a_machine(docker: &Arc<Docker>, who: Who) {
    let script = "W run -q --keep --name s -- sh -c 'echo changed > f; id -u; cat f'; cat f; W --json show s | tr -d ' \\n'";
    let outcome = run(docker, who, Security::Privileged, script).ok();
    let id = if who == Who::Root { "0" } else { "1000" };
    assert_eq!(outcome.stdout.lines().take(3).collect::<Vec<_>>(), [id, "changed", "real"]);
    let kind = if who == Who::Root { ["\"kind\":\"same\"", "\"kind\":\"mapped\""] } else { ["\"kind\":\"own\""; 2] };
    assert!(kind.iter().any(|kind| outcome.stdout.contains(kind)), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("\"borrowed\""), "{}", outcome.stdout);
}

fn state_that_would_lie_on_an_overlay_is_put_elsewhere_and_that_is_said(docker: &Arc<Docker>, who: Who) {
    if !docker.has_overlay {
        return skip("this daemon's containers have no overlay for a root directory");
    }
    let id = if who == Who::Root { 0 } else { 1000 };
    let script = "W run -q --keep -- sh -c 'echo changed > f'; echo again >&2; W run -q --keep -- true; ls -d /dev/shm/whatif-* /var/cache/whatif-* 2>/dev/null; W ls | wc -l";
    let outcome = run(docker, who, Security::NoSeccomp, script).ok();
    assert_eq!(outcome.stdout.lines().map(str::trim).collect::<Vec<_>>(), [format!("/dev/shm/whatif-{id}").as_str(), "3"]);
    let (first, second) = outcome.stderr.split_once("again\n").expect("it is there");
    for said in [&format!("kept in /dev/shm/whatif-{id}"), "gone when the container stops", "set WHATIF_HOME"] {
        assert!(first.contains(said), "{said}: {first}");
    }
    assert!(!second.contains("WHATIF_HOME"), "said once: {second}");

    // A disk is better than memory, and somebody else's directory is not ours.
    let seize = "mkdir -m 777 /dev/shm/whatif-$(id -u) && W run -q --keep -- true; ls -d /tmp/whatif-*";
    let memory = docker.run(who, Security::NoSeccomp, &["--tmpfs=/tmp:mode=1777"], &format!("{PREPARE}{seize}")).ok();
    assert_eq!(memory.text(), format!("/tmp/whatif-{id}"));
    let volume = "W run -q --keep -- true; ls -d /var/tmp/whatif-*";
    let disk = docker.run(who, Security::NoSeccomp, &["--volume=/var/tmp"], &format!("{PREPARE}{volume}")).ok();
    assert_eq!(disk.text(), format!("/var/tmp/whatif-{id}"));
}

fn what_is_on_a_volume_stays_there(docker: &Arc<Docker>, who: Who) {
    // Nothing is said about a place that the user chose, and it is not left for a better one.
    let script = "export WHATIF_HOME=/kept/w; W run -q --keep --name s -- sh -c 'echo changed > f'; W show s >/dev/null; ls -d /kept/w; \
                  ls -d /dev/shm/whatif-* 2>/dev/null; W --json doctor | grep -c '\"state directory\"'";
    let options = ["--tmpfs=/kept:mode=1777"];
    let outcome = docker.run(who, Security::WholePaths, &options, &format!("{PREPARE}{script}"));
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), ["/kept/w", "0"], "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("WHATIF_HOME"), "{}", outcome.stderr);
}

/// Each of the three ways to write them: with a volume that outlasts the container.
fn the_options_in_the_documentation_work(docker: &Arc<Docker>, who: Who) {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/containers.md")).expect("it is there");
    for language in ["sh", "yaml", "json"] {
        let block = page.split_once(&format!("```{language}\n")).and_then(|(_, rest)| rest.split_once("```")).expect("a block").0;
        let words: Vec<&str> = block.split(|c: char| c.is_whitespace() || "\",[]".contains(c)).collect();
        let options = words.iter().filter(|word| word.ends_with("=unconfined")).map(|word| format!("--security-opt={word}"));
        let options: Vec<String> = options.collect();
        assert_eq!(options, ["--security-opt=seccomp=unconfined"], "{language}");
        for named in ["whatif", "/whatif", "WHATIF_HOME"] {
            assert!(block.contains(named), "{language}: {named}");
        }
        let volume = format!("--volume=whatif-{language}-{who:?}:/whatif");
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        options.extend([volume.as_str(), "--env=WHATIF_HOME=/whatif"]);
        if who == Who::User {
            docker.run(Who::Root, Security::Usual, &options, "chown 1000:1000 /whatif && chmod 700 /whatif").ok();
        }
        let made =
            docker.run(who, Security::Usual, &options, &format!("{PREPARE}W run -q --keep --name s -- sh -c 'echo changed > f'"));
        made.ok();
        let later = docker.run(who, Security::Usual, &options, &format!("{PREPARE}W exec s -- cat f; cat f")).ok();
        assert_eq!(later.text(), "changed\nreal", "{language}: {}", later.stderr);
    }
}

/// Two containers share a volume: one is privileged, the other is not. Marks of the one kind are nothing to the other.
fn misread(docker: &Arc<Docker>) {
    let volume = ["--volume=shared:/whatif", "--env=WHATIF_HOME=/whatif"];
    let make =
        "mkdir d && echo 1 > d/below && W run -q --keep --name s -- sh -c 'rm -r d && mkdir d && echo 2 > d/above' && W stop s";
    docker.run(Who::Root, Security::Privileged, &volume, &format!("{PREPARE}{make}")).ok();
    let there = "mkdir d && echo 1 > d/below; ";
    for command in ["start s", "diff s", "apply s --yes", "snapshot s one"] {
        let refused = docker.run(Who::Root, Security::NoSeccomp, &volume, &format!("{PREPARE}{there}W {command}"));
        assert_ne!(refused.code, 0, "{command}: {}", refused.stdout);
        refused.says("was made with the rights of root, and this process lacks them").says("options that it was made with");
    }
    let rest = "W ls | grep -c '^s '; W rm s --yes; W run -q --keep --name t -- true && W stop t";
    let outcome = docker.run(Who::Root, Security::NoSeccomp, &volume, &format!("{PREPARE}{there}{rest}")).ok();
    assert!(outcome.stdout.starts_with("1\n"), "{}", outcome.stdout);
    let other = docker.run(Who::Root, Security::Privileged, &volume, &format!("{PREPARE}W start t"));
    assert_ne!(other.code, 0);
    other.says("was made without the rights of root, and this process has them");
}

fn of_another_user(docker: &Arc<Docker>) {
    let script = "chown 1000:1000 . f; W run --keep -q --name s -- sh -c 'echo changed > f'; cat f";
    let outcome = docker.run(Who::Root, Security::NoSeccomp, &[], &format!("{PREPARE}{script}"));
    assert_eq!(outcome.text(), "real", "{}", outcome.stderr);
    outcome.says("/root/project belongs to uid 1000").says("start whatif as that user");
    let own = docker.run(Who::Root, Security::NoSeccomp, &[], &format!("{PREPARE}W run -q --rm -- sh -c 'echo changed > f'")).ok();
    assert!(!own.stderr.contains("belongs to"), "{}", own.stderr);
}

/// Its profile forbids neither user namespaces nor mounts.
fn rootless_podman_takes_no_options(w: &World) {
    let podman = match Podman::of(w) {
        Ok(podman) => podman,
        Err(why) => return skip(&why),
    };
    let script = "W run -q --keep --name s -- sh -c 'echo changed > f; cat f; sleep 1000 & :'; cat f; W ps s | grep -c sleep; \
                  W apply s --yes >/dev/null; cat f; W --json doctor";
    for (options, is_borrowed) in [(&[][..], true), (&["--security-opt=unmask=all"], false)] {
        let outcome = podman.run(options, &format!("{PREPARE}{script}")).ok();
        let (said, findings) = outcome.stdout.split_at(outcome.stdout.find("[").expect("findings"));
        assert_eq!(said.lines().collect::<Vec<_>>(), ["changed", "real", "1", "changed"], "{options:?}: {}", outcome.stderr);
        let findings: Vec<Value> = serde_json::from_str(findings).expect("JSON");
        assert_eq!(has(&findings, "/proc", "warn"), is_borrowed, "{options:?}: {findings:?}");
        assert!(has(&findings, "user namespaces", "ok") && has(&findings, "backend overlay", "ok"), "{findings:?}");
    }
}
