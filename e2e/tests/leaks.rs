//! Attack group LK: what leaks in.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use whatif_e2e::{World, as_root_and_user, eventually, needs, on_other_backends};

as_root_and_user!(
    no_secret_of_the_environment_leaks,
    only_three_descriptors_are_open,
    inherited_descriptors_are_closed,
    the_mount_table_names_no_host_path_of_ours,
    secrets_are_not_kept_on_disk,
    secrets_are_in_no_command_line,
    what_is_kept_is_for_its_owner_only,
    the_hostname_can_be_read_and_not_set,
);
on_other_backends!(only_three_descriptors_are_open, inherited_descriptors_are_closed, what_is_kept_is_for_its_owner_only,);

const SECRET: &str = "canary-c0ffee-4711";

/// LK-01.
fn no_secret_of_the_environment_leaks(w: &World) {
    let names = [
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION_OF_SECRETS",
        "GITHUB_TOKEN",
        "GH_HOST_X",
        "DATABASE_URL",
        "OPENAI_API_KEY",
        "MY_SECRET",
        "DB_PASSWORD",
        "NPM_TOKEN",
        "WHATIF_SOMETHING",
        "SIGNING_KEY",
        "KEY",
    ];
    let name = w.new_sandbox("leaks");
    for base in [vec!["run", "--rm", "--quiet"], vec!["exec", &name]] {
        let call =
            w.whatif(base.into_iter().chain(["--", "/bin/sh", "-c", "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"]));
        let outcome = names.iter().fold(call, |call, name| call.env(name, SECRET)).env("PLAIN", "carried").go().ok();
        assert!(outcome.stdout.contains("PLAIN=carried"), "{}", outcome.stdout);
        assert!(!outcome.stdout.contains(SECRET), "{}", outcome.stdout);
        assert!(!outcome.stdout.contains("WHATIF_HOME"), "our own variables name paths of the host: {}", outcome.stdout);
    }
}

const DESCRIPTORS: &str = "import os, json\nopen_ones = []\nfor fd in range(0, 65536):\n  try: os.fstat(fd); open_ones.append(fd)\n  except OSError: pass\nprint(json.dumps([open_ones, [os.readlink(f'/proc/self/fd/{f}') for f in open_ones]]))";

/// LK-02: in a fresh sandbox and in a living one.
fn only_three_descriptors_are_open(w: &World) {
    needs!(w, "python3");
    let name = w.new_sandbox("descriptors");
    for base in [vec!["run", "--rm", "--quiet"], vec!["exec", &name], vec!["exec", "-i", &name]] {
        let found = w.whatif(base.into_iter().chain(["--", "/usr/bin/python3", "-c", DESCRIPTORS])).go().ok().json();
        assert_eq!(found[0], serde_json::json!([0, 1, 2]), "{found}");
    }
    let program = format!(
        "import sys; sys.stdout = open('/tmp/part', 'w')\n{DESCRIPTORS}\nsys.stdout.close(); os.rename('/tmp/part', '/tmp/found')"
    );
    w.whatif(["exec", "-d", &name, "--", "/usr/bin/python3", "-c", &program]).go().ok();
    eventually("it is done", || w.exec(&name, "test -e /tmp/found").code == 0);
    let found = w.exec(&name, "cat /tmp/found").ok().json();
    // One is the file it writes that to.
    assert_eq!(found[0], serde_json::json!([0, 1, 2, 3]), "{found}");
}

/// LK-02 (CVE-2024-21626): a directory of the host left open by the caller, and files as standard streams.
fn inherited_descriptors_are_closed(w: &World) {
    needs!(w, "python3");
    let script = format!(
        "exec 7</ 8</etc/passwd 9>>{dir}/log; exec {bin} run --rm --quiet -- /usr/bin/python3 -c \"$1\"",
        bin = w.bin.display(),
        dir = w.home.display()
    );
    let found = w.program("/bin/sh").args(["-c", &script, "sh", DESCRIPTORS]).go().ok().json();
    assert_eq!(found[0], serde_json::json!([0, 1, 2]), "{found}");

    // A regular file as a stream would be a descriptor of reality: writable without the layers. What is read is a copy in memory that
    // nobody can write.
    let (input, output) = (w.write("input", "from a file"), w.write("output", ""));
    let program = r#"
import fcntl, os, stat, sys
GET_SEALS, SEAL_WRITE = 1034, 8
is_copy = fcntl.fcntl(0, GET_SEALS) & SEAL_WRITE != 0
print(sys.stdin.read(), is_copy and stat.S_ISFIFO(os.fstat(1).st_mode))
"#;
    let open = |path| File::options().read(true).write(true).open(path).expect("it is ours");
    let call = w.whatif(["run", "--rm", "--quiet", "--", "/usr/bin/python3", "-c", program]);
    let status = call.streams(open(&input).into(), open(&output).into(), Stdio::null()).spawn().wait().expect("it is our child");
    assert!(status.success());
    assert_eq!(w.read("output"), "from a file True\n");
    assert_eq!(w.read("input"), "from a file");
}

/// LK-03: where our layers lie is nobody's business inside.
fn the_mount_table_names_no_host_path_of_ours(w: &World) {
    let state = w.state.display().to_string();
    let outcome = w.inside("cat /proc/self/mountinfo /proc/mounts /proc/self/maps").ok();
    assert!(outcome.stdout.contains("overlay"));
    for line in outcome.stdout.lines().filter(|l| l.contains(&state)) {
        // The cover over the state directory has to stand at its path; it must not name what is beneath.
        let is_cover = line.contains("tmpfs") && !line.contains("upperdir=");
        // A copy is shown from where it lies, and the kernel says where that is.
        let is_copy = w.backend() == "copy" && line.contains("/head/0 ");
        assert!(is_cover || is_copy, "{line}");
    }
}

/// LK-05: not in records, logs, caches or modes of files.
fn secrets_are_not_kept_on_disk(w: &World) {
    w.write(w.home.join(".ssh/id_ed25519"), SECRET);
    w.write(w.home.join(".gitconfig"), format!("[user]\n name = n\n[http]\n extraheader = {SECRET}\n"));
    let call =
        w.whatif(["run", "--keep", "--name", "kept", "--env", "GIVEN_TOKEN", "--", "/bin/sh", "-c", "test -n \"$GIVEN_TOKEN\""]);
    call.env("MY_TOKEN", SECRET).env("GIVEN_TOKEN", SECRET).go().ok();
    let found = w.outside(&format!("grep -rla {SECRET} {} 2>/dev/null; true", w.state.display())).ok();
    assert_eq!(found.text(), "", "a secret is on disk");
    for entry in std::fs::read_dir(&w.state).expect("it is there").filter_map(Result::ok) {
        let mode = entry.metadata().expect("it is there").permissions().mode();
        let closed = std::fs::metadata(&w.state).expect("it is there").permissions().mode() & 0o077 == 0;
        assert!(closed || mode & 0o077 == 0, "{} is {mode:o}", entry.path().display());
    }
}

/// LK-05: `ps` is for everybody.
fn secrets_are_in_no_command_line(w: &World) {
    w.whatif(["new", "quiet"]).env("MY_TOKEN", SECRET).go().ok();
    let script = "test -n \"$GIVEN_TOKEN\" && touch /tmp/given; sleep 60";
    let call = w.whatif(["exec", "-d", "--env", "GIVEN_TOKEN", "quiet", "--", "/bin/sh", "-c", script]);
    call.env("GIVEN_TOKEN", SECRET).env("MY_TOKEN", SECRET).go().ok();
    eventually("it has it", || w.exec("quiet", "test -e /tmp/given").code == 0);
    let processes = w.own_process_ids();
    assert!(!processes.is_empty());
    for pid in processes {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(SECRET), "process {pid}");
    }
    let keeper = std::fs::read(format!("/proc/{}/environ", w.keeper_pid("quiet"))).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&keeper).contains(SECRET), "what only passes through is not kept");
}

/// LK-05: what others on this machine could open.
fn what_is_kept_is_for_its_owner_only(w: &World) {
    if !rustix::process::geteuid().is_root() {
        whatif_e2e::skip("only root can be somebody else");
        return;
    }
    w.whatif(["run", "--keep", "--name", "kept", "--", "/bin/sh", "-c", "echo said; echo more > made"]).go().ok();
    // As somebody else: neither root nor the owner.
    let script = format!("umask 0; find {} ! -path {} -readable 2>/dev/null; true", w.state.display(), w.state.display());
    let other = std::process::Command::new("/usr/bin/setpriv")
        .args(["--reuid=12345", "--regid=12345", "--clear-groups", "--", "/bin/sh", "-c", &script])
        .output();
    let other = other.expect("setpriv is installed");
    assert!(other.status.success());
    assert_eq!(String::from_utf8_lossy(&other.stdout), "", "somebody else can read that");
}

fn the_hostname_can_be_read_and_not_set(w: &World) {
    let before = w.outside("uname -n").ok().stdout;
    assert_ne!(w.inside("hostname whatif-e2e-was-here || echo whatif > /proc/sys/kernel/hostname").code, 0);
    w.inside("uname -n").ok();
    assert_eq!(w.outside("uname -n").ok().stdout, before);
}
