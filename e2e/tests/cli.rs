//! The command line: exit codes, JSON, names, streams, hints.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use serde_json::json;
use whatif_e2e::{Terminal, World, as_root_and_user, needs};

as_root_and_user!(
    a_command_ends_with_its_own_exit_code,
    failures_of_whatif_have_their_own_exit_codes_and_a_hint,
    a_command_needs_no_dashes,
    a_program_can_stand_in_the_place_of_a_verb,
    the_report_of_a_run_says_what_there_is_to_know,
    the_latest_is_the_one_used_last,
    what_is_removed_is_named_or_confirmed,
    hunks_in_a_patch_have_numbers,
    errors_name_what_is_wrong,
    an_empty_pattern_is_a_mistake,
    an_empty_pattern_in_the_configuration_is_one_too,
    in_json_mode_standard_output_is_one_document,
    in_json_mode_errors_are_json_too,
    in_json_mode_remedies_are_data_beside_the_hints,
    sandboxes_are_found_by_name_by_prefix_and_by_project,
    names_are_unique_and_sane,
    a_person_is_asked_about_what_is_there,
    labels_select,
    hints_are_about_the_sandbox_that_was_meant,
    help_that_cannot_be_written_is_a_failure,
    standard_streams_can_be_files,
    a_large_output_arrives_whole,
    input_reaches_the_command,
    piped_input_reaches_exec_as_it_is,
    a_terminal_alone_takes_no_input,
    hostile_file_names_are_shown_harmlessly,
    a_project_in_tmp_works,
    the_network_is_none_unless_asked_for,
    a_missing_network_is_hinted_at,
    completions_are_printed,
    colours_are_for_terminals_that_want_them,
    paths_and_working_directory_are_the_same_inside,
    doctor_reports_every_probe,
    doctor_changes_nothing_without_being_told_to,
    what_is_said_to_come_next_leads_somewhere,
);

fn a_command_ends_with_its_own_exit_code(w: &World) {
    for code in [0, 1, 3, 42, 255] {
        w.inside(&format!("exit {code}")).exits(code);
    }
    w.inside("kill -KILL $$").exits(137);
    w.inside("kill -TERM $$").exits(143);
    let name = w.new_sandbox("codes");
    w.exec(&name, "exit 7").exits(7);
}

fn failures_of_whatif_have_their_own_exit_codes_and_a_hint(w: &World) {
    w.write("not-executable", "#!/bin/sh\n");
    w.whatif(["run", "--timeout", "300ms", "--", "sleep", "60"]).go().exits(124).says("time limit");
    w.whatif(["exec", "nobody-is-called-so", "--", "true"]).go().fails_with_hint(125).says("nobody-is-called-so");
    w.whatif(["show"]).go().fails_with_hint(125);
    w.whatif(["run", "--cwd", "/does/not/exist", "--", "true"]).go().fails_with_hint(125).says("/does/not/exist");
    w.whatif(["run", "--", "./not-executable"]).go().fails_with_hint(126).says("not-executable");
    w.whatif(["run", "--", "no-such-command-at-all"]).go().fails_with_hint(127).says("no-such-command-at-all");
    w.whatif(["run", "--provider", "imaginary", "--", "true"]).go().fails_with_hint(2);
    w.whatif(["run", "--name", "not a name", "--", "true"]).go().fails_with_hint(2);
    w.whatif(["cp", "a", "b"]).go().fails_with_hint(2);
    for usage in [
        vec!["frobnicate"],
        vec!["run"],
        vec!["run", "--timeout", "soon", "--", "true"],
        vec!["run", "--net", "some", "--", "true"],
    ] {
        w.whatif(usage).go().exits(2).says("--help");
    }
}

/// `--files "$UNSET"` would take everything, and `--expose ''` show every secret.
fn an_empty_pattern_is_a_mistake(w: &World) {
    w.sandbox_with("s", "printf 'all:\\n\\tid\\n' > Makefile; echo x > x");
    for option in ["--files", "--exclude", "--ours", "--theirs", "--skip"] {
        w.apply(&["s", option, ""]).fails_with_hint(2).says("empty");
        w.apply(&["s", option, "x", option, ""]).fails_with_hint(2);
    }
    w.apply(&["s", "--hunks", ":1"]).fails_with_hint(2);
    assert!(!w.project.join("Makefile").exists() && !w.project.join("x").exists());
    for option in ["--mask", "--expose"] {
        w.whatif(["run", option, "", "--", "true"]).go().exits(2);
    }
    w.whatif(["race", "--protect", "", "--check", "true", "echo y > y"]).go().fails_with_hint(2);
}

fn an_empty_pattern_in_the_configuration_is_one_too(w: &World) {
    w.sandbox_with("s", "echo x > x");
    for rule in ["[policy]\ndeny = ['']", "[policy]\nask = ['a', '']", "[files]\nmask = ['']"] {
        w.write(".whatif.toml", rule);
        w.apply(&["s"]).fails_with_hint(125).says("empty pattern");
    }
    w.outside("rm .whatif.toml").ok();
    for rule in ["[policy.auto_approve]\npaths = ['']", "[files]\nexpose = ['']"] {
        w.configure(rule);
        w.whatif(["apply", "s"]).go().fails_with_hint(125).says("empty pattern");
    }
    w.configure("");
    assert!(!w.project.join("x").exists());
}

fn in_json_mode_standard_output_is_one_document(w: &World) {
    let run = w.json(["run", "--keep", "--name", "doc", "--", "/bin/sh", "-c", "echo out; echo err >&2; echo x > made"]);
    assert_eq!((&run["stdout"], &run["stderr"], &run["exit_code"]), (&json!("out\n"), &json!("err\n"), &json!(0)));
    assert_eq!(run["kept"], true);
    let listed = w.json(["ls"]);
    let fields = ["id", "name", "status", "provider", "project", "created_at", "changed_files", "size_bytes", "pids", "labels"];
    for field in fields {
        assert!(!listed[0][field].is_null(), "ls lacks {field}: {listed}");
    }
    let made = w.json(["new", "second"]);
    assert!(fields.iter().all(|f| !made[f].is_null()), "{made}");
    assert!(w.json(["show", "second"])["keeper_pid"].as_u64().is_some());
    assert_eq!(w.json(["exec", "second", "--", "echo", "hi"])["stdout"], "hi\n");
    let detached = w.json(["exec", "second", "-d", "--", "sleep", "1000"]);
    assert!(w.json(["ps", "second"])["processes"].as_array().expect("a list").iter().any(|p| p["pid"] == detached["pid"]));
    let pid = detached["pid"].to_string();
    w.json(["logs", "second"]);
    w.json(["kill", "second", &pid]);
    w.json(["cp", "doc:made", "copied"]);
    w.json(["stop", "second"]);
    w.json(["start", "second"]);
    w.json(["gc"]);
    assert_eq!(w.json(["rm", "second", "doc"])["removed"], json!(["second", "doc"]));
}

fn in_json_mode_errors_are_json_too(w: &World) {
    let outcome = w.whatif(["--json", "show", "nobody"]).go().exits(125);
    assert_eq!(outcome.stdout, "");
    let error: serde_json::Value = serde_json::from_str(&outcome.stderr).expect("one document on standard error");
    assert_eq!(error["error"]["code"], "not_found");
    assert!(error["error"]["hints"].as_array().is_some_and(|h| !h.is_empty()), "{error}");
    assert!(error["error"]["message"].as_str().is_some_and(|m| m.contains("nobody")));
}

fn in_json_mode_remedies_are_data_beside_the_hints(w: &World) {
    let error = |words: &[&str], code: i32| {
        let outcome = w.whatif(["--json"].into_iter().chain(words.iter().copied())).go().exits(code);
        let document: serde_json::Value = serde_json::from_str(&outcome.stderr).expect("one document on standard error");
        document["error"].clone()
    };
    let missing = error(&["show", "nobody"], 125);
    assert_eq!(missing["kind"], "not_found");
    assert_eq!(missing["remedies"], json!([[{ "mention": { "call": "list" } }, " lists the sandboxes"]]));
    assert_eq!(missing["hints"], json!(["'whatif ls' lists the sandboxes"]));
    w.new_sandbox("taken");
    let taken = error(&["new", "taken"], 125);
    assert_eq!((&taken["code"], &taken["kind"]), (&json!("name_taken"), &json!("conflict")));
    let remove = json!({ "call": "remove", "name": { "given": "taken" } });
    assert_eq!(taken["remedies"], json!([["choose another name, or remove it: ", remove]]));
    assert_eq!(taken["hints"], json!(["choose another name, or remove it: whatif rm taken"]));
    // Messages of the engine that name an option are spelled for the command line, too.
    let masked = error(&["run", "--mask", "/", "--", "true"], 2);
    assert_eq!((&masked["code"], &masked["kind"]), (&json!("invalid_mask"), &json!("invalid")));
    assert_eq!(masked["message"], "--mask cannot hide the whole file system or home");
    assert_eq!(
        masked["remedies"],
        json!([["name what is to be hidden: ", { "choice": "mask", "value": { "given": "~/letters" } }]])
    );
    assert_eq!(masked["hints"], json!(["name what is to be hidden: --mask ~/letters"]));
    let unknown = error(&["no-such-verb"], 2);
    assert_eq!((&unknown["kind"], unknown.get("remedies")), (&json!("invalid"), None));
    for (code, words) in [
        ("unknown_command", &["no-such-verb"][..]),
        ("unknown_option", &["ls", "--nonsense"]),
        ("missing_argument", &["run"]),
        ("invalid_value", &["run", "--timeout", "soon", "--", "true"]),
        ("conflicting_options", &["run", "--keep", "--rm", "--", "true"]),
        ("needs_confirmation", &["rm", "--all"]),
        ("needs_approval", &["apply", "changed"]),
        ("invalid_pattern", &["apply", "changed", "--files", ""]),
        ("no_match", &["apply", "changed", "--files", "typo"]),
        ("no_such_hunk", &["apply", "changed", "--hunks", "f:7"]),
        ("no_logs", &["logs", "changed"]),
    ] {
        if words.contains(&"changed") && w.whatif(["show", "changed"]).go().code != 0 {
            w.sandbox_with("changed", "seq 3 > f");
        }
        assert_eq!(error(words, 2)["code"], code, "{words:?}");
    }
}

fn sandboxes_are_found_by_name_by_prefix_and_by_project(w: &World) {
    let id = w.json(["new", "first"])["id"].as_str().expect("an id").to_owned();
    w.new_sandbox("second");
    assert_eq!(w.json(["show", "first"])["id"], json!(id));
    assert_eq!(w.json(["show", &id])["name"], "first");
    let other = w.json(["show", "second"])["id"].as_str().expect("an id").to_owned();
    let unique = (4..=id.len()).map(|n| &id[..n]).find(|p| !other.starts_with(p)).expect("ids differ");
    assert_eq!(w.json(["show", unique])["name"], "first");
    w.whatif(["show", &id[..3]]).go().fails_with_hint(125);
    assert_eq!(w.json(["show"])["name"], "second", "the latest of this project");
    let elsewhere = w.home.join("elsewhere");
    w.mkdir(&elsewhere);
    w.whatif(["show"]).cwd(&elsewhere).go().fails_with_hint(125);
    w.whatif(["new", "third"]).cwd(&elsewhere).go().ok();
    assert_eq!(w.json(["show"])["name"], "second", "of this project only");
    assert_eq!(w.whatif(["ls", "--here", "-q"]).go().ok().stdout, "second\nfirst\n");
}

fn names_are_unique_and_sane(w: &World) {
    w.new_sandbox("taken");
    w.whatif(["new", "taken"]).go().fails_with_hint(125).says("taken");
    for bad in ["", "-x", "a/b", "../x", "a b", "x\u{1b}[31m", &"x".repeat(64)] {
        let outcome = w.whatif(["new", "--name", bad]).go().exits(2);
        assert!(!outcome.stderr.contains('\u{1b}'), "{bad:?}");
    }
    let made_up = w.json(["new"])["name"].as_str().expect("a name").to_owned();
    assert!(made_up.contains('-') && made_up.len() < 40, "{made_up} is memorable");
}

fn labels_select(w: &World) {
    w.whatif(["new", "a", "--label", "task=42", "--label", "kind=fix"]).go().ok();
    w.whatif(["new", "b", "--label", "task=43"]).go().ok();
    assert_eq!(w.whatif(["ls", "-q", "--label", "task=42"]).go().ok().stdout, "a\n");
    assert_eq!(w.whatif(["ls", "-q", "--label", "task"]).go().ok().stdout, "b\na\n");
    assert_eq!(w.json(["show", "a"])["labels"], json!({"task": "42", "kind": "fix"}));
    let none = w.whatif(["ls", "--label", "task=44"]).go().ok().stderr;
    assert!(none.contains("no sandbox with such labels; 2 in all") && !none.contains("make one"), "{none}");
}

fn hints_are_about_the_sandbox_that_was_meant(w: &World) {
    w.sandbox_with("first", "echo f > f");
    w.new_sandbox("latest");
    w.exec("first", "true").ok();
    w.apply(&["first", "--files", "typo"]).exits(2).says("whatif diff first --name-only --all --outside");
    w.whatif(["kill", "latest", "99"]).go().exits(125).says("no process 99 in sandbox 'latest'").says("whatif ps latest");
    w.apply(&["first", "--files", "-dash"]).exits(2).says("--files=-dash");
}

fn help_that_cannot_be_written_is_a_failure(w: &World) {
    for arguments in [&["--help"][..], &["--version"], &["apply", "--help"]] {
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        let status = w.whatif(arguments.iter().copied()).streams(Stdio::null(), full.into(), Stdio::null()).spawn().wait();
        assert_eq!(status.expect("it is our child").code(), Some(125), "{arguments:?}");
    }
}

/// Files are relayed, never handed over: a descriptor of reality is a way around the layers.
fn standard_streams_can_be_files(w: &World) {
    let input = w.write("input", "one\ntwo\n");
    let (output, errors) = (w.write("output", "old\n"), w.write("errors", ""));
    let append = |path| -> Stdio { File::options().append(true).open(path).expect("it is ours").into() };
    let call = w.whatif(["run", "--rm", "-q", "--", "/bin/sh", "-c", "cat; echo problem >&2; exit 4"]);
    let status = call.streams(File::open(&input).expect("it is ours").into(), append(&output), append(&errors)).spawn().wait();
    assert_eq!(status.expect("it is our child").code(), Some(4));
    assert_eq!(w.read("output"), "old\none\ntwo\n");
    assert_eq!(w.read("errors"), "problem\n");
}

fn a_large_output_arrives_whole(w: &World) {
    assert_eq!(w.inside("seq 300000").ok().stdout.lines().last(), Some("300000"));
    assert_eq!(w.json(["run", "--rm", "--", "seq", "100000"])["stdout"].as_str().map(|s| s.lines().count()), Some(100_000));
}

fn input_reaches_the_command(w: &World) {
    let text = "line\n".repeat(50_000);
    assert_eq!(w.whatif(["run", "--rm", "-q", "--", "wc", "-l"]).input(text.as_bytes()).go().ok().text(), "50000");
    let name = w.new_sandbox("input");
    assert_eq!(w.whatif(["exec", "-i", &name, "--", "cat"]).input(b"typed").go().ok().stdout, "typed");
    assert_eq!(w.whatif(["exec", &name, "--", "cat"]).input(b"typed").go().ok().stdout, "typed");
    assert_eq!(w.whatif(["run", "--in", &name, "--", "cat"]).input(b"typed").go().ok().stdout, "typed");
}

/// Pipes and files, without -i: any bytes, any amount, and no more than the command takes.
fn piped_input_reaches_exec_as_it_is(w: &World) {
    let name = w.new_sandbox("input");
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(3 << 20).collect();
    let file = w.write("bytes", &bytes);
    let sum = w.outside("sha256sum < bytes").ok().stdout;
    assert_eq!(w.whatif(["exec", &name, "sha256sum"]).input(&bytes).go().ok().stdout, sum);
    let bin = w.bin.display();
    for verb in [format!("exec {name}"), "run --rm -q".to_owned()] {
        assert_eq!(w.outside(&format!("{bin} {verb} sha256sum < bytes")).ok().stdout, sum, "{verb}");
        // One that reads only the beginning, or nothing.
        assert_eq!(w.outside(&format!("{bin} {verb} head -c 4 < bytes | od -An -tu1")).ok().text().trim(), "0   1   2   3");
        assert_eq!(w.outside(&format!("yes | {bin} {verb} head -n 1")).ok().text(), "y");
        w.outside(&format!("{bin} {verb} true < bytes")).ok();
        w.outside(&format!("{bin} {verb} true <&-")).ok();
        assert_eq!(w.outside(&format!("{bin} {verb} cat < /dev/null")).ok().stdout, "");
        w.outside("rm -f fifo; mkfifo fifo").ok();
        assert_eq!(w.outside(&format!("(yes | head -c 1000000 > fifo &) ; {bin} {verb} head -n 1 < fifo")).ok().text(), "y");
    }
    // What is not read is there for the next reader, as without a sandbox.
    w.write("list", "one\ntwo\nthree\n");
    let each = format!("while read -r line; do {bin} exec {name} echo \"$line\"; done < list");
    assert_eq!(w.outside(&each).ok().stdout, "one\ntwo\nthree\n");
    let first = format!("({bin} exec {name} dd bs=1 count=4 status=none; cat) < list");
    assert_eq!(w.outside(&first).ok().stdout, "one\ntwo\nthree\n");
    // Of a file, some programs read more than they want, and go back.
    for verb in [format!("exec {name}"), "run --rm -q".to_owned()] {
        assert_eq!(w.outside(&format!("({bin} {verb} head -n 1; cat) < list")).ok().stdout, "one\ntwo\nthree\n", "{verb}");
        assert_eq!(w.outside(&format!("(read -r x; {bin} {verb} head -n 1; cat) < list")).ok().stdout, "two\nthree\n", "{verb}");
        // It is a copy, for reading only.
        let kept =
            format!("{bin} {verb} sh -c 'echo no >&0 || echo no > /dev/stdin; chmod 777 /dev/stdin' < list 2> /dev/null; true");
        w.outside(&kept).ok();
        assert_eq!(w.read("list"), "one\ntwo\nthree\n", "{verb}");
        assert_eq!(w.outside("stat -c %a list").ok().text(), w.outside("touch other; stat -c %a other").ok().text(), "{verb}");
    }
    // Another program that reads on meanwhile is not set back.
    let both = format!("(exec 3<&0; {bin} exec {name} sleep 1 <&3 & read -r x; read -r x; wait; cat) < list");
    assert_eq!(w.outside(&both).ok().stdout, "three\n");
    let script = format!("{bin} exec {name} true\necho still here\n");
    assert_eq!(w.program("/bin/sh").input(script.as_bytes()).go().ok().text(), "still here");
    drop(file);
}

fn hostile_file_names_are_shown_harmlessly(w: &World) {
    let directory = w.project.join(std::ffi::OsStr::from_bytes(b"a \xff'\"$(id)\n\x1b[31m"));
    w.mkdir(&directory);
    let script = "printf x > \"$(printf 'evil\\033]0;owned\\007 name')\" && printf x > \"$(printf 'bad\\377utf')\" && printf x > './-rf' && printf x > 'new\nwhatif: forged'";
    let outcome = w.whatif(["run", "--keep", "--name", "hostile", "--", "/bin/sh", "-c", script]).cwd(&directory).go().ok();
    assert!(outcome.stderr.contains(": 4 "), "four changes: {}", outcome.stderr);
    assert!(!outcome.stderr.contains('\u{1b}') && !outcome.stderr.contains('\u{7}'), "{:?}", outcome.stderr);
    assert!(
        !outcome.stderr.lines().any(|l| l.starts_with("whatif: forged")),
        "a name forges a line of the report: {}",
        outcome.stderr
    );
    let ls = w.whatif(["ls"]).go().ok();
    assert!(!ls.stdout.contains('\u{1b}'), "{:?}", ls.stdout);
    w.json(["show", "hostile"]);
    w.json(["ls"]);
}

/// A sandbox has a /tmp of its own, but a project there is still the project.
fn a_project_in_tmp_works(w: &World) {
    let project = std::env::temp_dir().join(w.dir.file_name().expect("it has a name"));
    w.mkdir(&project);
    w.write(project.join("file"), "in tmp\n");
    let outcome =
        w.whatif(["run", "--rm", "-q", "--", "/bin/sh", "-c", "cat file; echo changed > file; cat file"]).cwd(&project).go();
    let after = std::fs::read_to_string(project.join("file"));
    let report = w.whatif(["run", "--rm", "true"]).cwd(&project).go().stderr;
    std::fs::remove_dir_all(&project).expect("it is ours");
    assert_eq!(outcome.ok().stdout, "in tmp\nchanged\n");
    assert_eq!(after.ok().as_deref(), Some("in tmp\n"));
    assert!(!report.contains("private /tmp"), "the way to the project is no leftover: {report}");
}

/// A listener on the host's loopback is reached with `--net host` only.
fn the_network_is_none_unless_asked_for(w: &World) {
    needs!(w, "python3");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let port = listener.local_addr().expect("it is bound").port();
    let program = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 5)");
    let connect = |net: &[&'static str]| {
        w.whatif(["run", "--rm", "-q"].into_iter().chain(net.iter().copied()).chain(["--", "/usr/bin/python3", "-c", &program]))
            .go()
    };
    assert_eq!(connect(&["--net", "host"]).code, 0, "the host's network");
    assert_ne!(connect(&["--net", "none"]).code, 0);
    assert_ne!(connect(&[]).code, 0, "the host's loopback is not what registries are about");
    let names = w.inside("cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '").ok();
    assert_eq!(names.text(), "lo");
}

/// 192.0.2.1 is an address for documentation, and there is no route to it in a sandbox.
fn a_missing_network_is_hinted_at(w: &World) {
    needs!(w, "python3");
    let program = "import socket; socket.create_connection(('192.0.2.1', 80), 5)";
    let outcome = w.whatif(["run", "--net", "none", "--", "/usr/bin/python3", "-c", program]).go();
    outcome.exits(1).says("Network is unreachable").says("--net allow=HOST");
    w.whatif(["run", "--", "/bin/sh", "-c", "exit 1"])
        .go()
        .exits(1)
        .stderr
        .contains("--net host")
        .then(|| panic!("a hint without a reason"));
}

fn completions_are_printed(w: &World) {
    for shell in ["bash", "zsh", "fish"] {
        let outcome = w.whatif(["completions", shell]).go().ok();
        assert!(outcome.stdout.contains("whatif") && outcome.stdout.contains("exec"), "{shell}");
        assert!(!outcome.stdout.contains("attend") && !outcome.stdout.contains("tidy"), "{shell} offers hidden commands");
    }
    w.whatif(["completions", "tcl"]).go().exits(2);
}

fn colours_are_for_terminals_that_want_them(w: &World) {
    w.new_sandbox("colour");
    assert!(!w.whatif(["ls"]).go().ok().stdout.contains('\u{1b}'), "not into a pipe");
    let mut terminal = Terminal::with_whatif(w, &["ls"]);
    terminal.expect("colour");
    assert!(terminal.screen().contains('\u{1b}'), "on a terminal");
    terminal.ends();
    let bin = w.bin.display().to_string();
    let mut plain = Terminal::with(w, &["/usr/bin/env", "NO_COLOR=1", &bin, "ls"]);
    plain.expect("colour");
    assert!(!plain.screen().contains('\u{1b}'), "not with NO_COLOR: {:?}", plain.screen());
    plain.ends();
}

fn paths_and_working_directory_are_the_same_inside(w: &World) {
    let deep = w.project.join("a/b");
    w.mkdir(&deep);
    assert_eq!(w.whatif(["run", "--rm", "-q", "--", "pwd"]).cwd(&deep).go().ok().text(), deep.to_str().expect("text"));
    assert_eq!(
        w.whatif(["run", "--rm", "-q", "--cwd", "a", "--", "pwd"]).go().ok().text(),
        w.project.join("a").to_str().expect("text")
    );
    let name = w.new_sandbox("where");
    assert_eq!(w.whatif(["exec", &name, "--cwd", "/usr", "--", "pwd"]).go().ok().text(), "/usr");
}

fn doctor_reports_every_probe(w: &World) {
    let outcome = w.whatif(["doctor"]).go().ok();
    for subject in ["kernel", "namespace", "overlay", "cgroup", "seccomp", "andlock", "provider", "disk"] {
        assert!(
            outcome.stdout.to_lowercase().contains(&subject.to_lowercase()),
            "doctor says nothing about {subject}: {}",
            outcome.stdout
        );
    }
    w.json(["doctor"]);
}

/// What it would do on a machine that needs it is tested in a tree of files, in the engine.
fn doctor_changes_nothing_without_being_told_to(w: &World) {
    w.whatif(["doctor", "--yes"]).go().exits(2);
    let told = w.whatif(["doctor", "--fix"]).go();
    let settings = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
    if !std::fs::read_to_string(settings).is_ok_and(|value| value.trim() == "1") {
        assert!(told.ok().stdout.starts_with("nothing to change: "));
        assert_eq!(w.json(["doctor", "--fix"]), json!({ "steps": [], "done": false }));
    }
}

fn what_is_said_to_come_next_leads_somewhere(w: &World) {
    w.outside("git init -q .; echo 1 > f; git add .; git -c user.name=x -c user.email=x@y commit -qm first").ok();
    let script = "git -c user.name=x -c user.email=x@y commit -q --allow-empty -m second";
    let report = w.whatif(["run", "--name", "commit", "sh", "-c", script]).go().ok().stderr;
    assert!(report.contains("whatif diff commit --all\n") && report.contains("whatif apply commit --ignored\n"), "{report}");
    assert!(w.whatif(["diff", "commit", "--all"]).go().ok().stdout.contains(".git/refs/heads/"));
    w.apply(&["commit", "--ignored"]).ok();
    assert_eq!(w.outside("git log --format=%s").ok().text(), "second\nfirst");
    let report = w.whatif(["run", "--name", "beyond", "sh", "-c", "echo x > ~/beyond"]).go().ok().stderr;
    assert!(report.contains("whatif diff beyond --outside\n") && report.contains("whatif apply beyond --outside\n"), "{report}");
    let report = w.whatif(["run", "--name", "usual", "sh", "-c", "echo x > g"]).go().ok().stderr;
    assert!(report.contains("whatif diff usual\n") && report.contains("whatif apply usual\n"), "{report}");
}

/// From its first word on, everything belongs to the command.
fn a_command_needs_no_dashes(w: &World) {
    assert_eq!(w.whatif(["run", "--rm", "-q", "echo", "-n", "--rm", "--", "x"]).go().ok().stdout, "--rm -- x");
    assert_eq!(w.whatif(["run", "--rm", "-q", "--", "echo", "-n", "--", "x"]).go().ok().stdout, "-- x");
    assert_eq!(w.whatif(["run", "-q", "--rm", "--env", "A=1", "sh", "-c", "echo $A"]).go().ok().text(), "1");
    w.new_sandbox("s");
    assert_eq!(w.whatif(["exec", "s", "echo", "-n", "--", "x"]).go().ok().stdout, "-- x");
    assert_eq!(w.whatif(["exec", "s", "--cwd", "/usr", "pwd", "-L"]).go().ok().text(), "/usr");
    assert_eq!(w.whatif(["exec", "--", "echo", "latest"]).go().ok().text(), "latest");
    assert_eq!(w.json(["exec", "s", "echo", "--json"])["stdout"], "--json\n");
    let tip = "the first word names the sandbox; without one: whatif exec -- ls";
    w.whatif(["exec", "ls"]).go().exits(2).says(tip);
    w.whatif(["exec", "ls", "-l"]).go().exits(2).says("whatif exec -- ls -l");
    w.whatif(["exec", "ls", "file"]).go().fails_with_hint(125).says("whatif exec -- ls file");
    w.whatif(["run", "--unknown", "ls"]).go().exits(2).says("'--unknown'");
    let others = w.whatif(["apply", "--dry-run", "h", "h", "h2"]).go().exits(2);
    assert!(!others.stderr.contains("tip:"), "{}", others.stderr);
}

/// Which one is taken is said, where the output would not say it.
fn the_latest_is_the_one_used_last(w: &World) {
    w.sandbox_with("first", "echo 1 > one");
    w.sandbox_with("second", "echo 2 > two");
    let latest = || w.json(["show"])["name"].as_str().expect("a name").to_owned();
    assert_eq!(latest(), "second", "made last");
    w.exec("first", "true").ok();
    assert_eq!(latest(), "first", "used last");
    w.whatif(["exec", "--", "true"]).go().ok().says("whatif: in first, the sandbox used last");
    assert!(!w.whatif(["exec", "first", "true"]).go().ok().stderr.contains("used last"), "it was named");
    w.whatif(["ps"]).go().ok().says("in first, the sandbox used last");
    w.json(["show", "second"]);
    assert_eq!(latest(), "first", "to ask about another one is no use of it");
    w.json(["diff", "second"]);
    assert_eq!(latest(), "second", "what is looked at is what is applied next");
    let plan = w.whatif(["apply", "--dry-run"]).go().ok();
    assert!(plan.stdout.starts_with("1 change from second:\n"), "{}", plan.stdout);
    let mut terminal = Terminal::with_whatif(w, &["apply", "first"]);
    terminal.expect("1 change from ");
    terminal.expect("Apply 1 change from first to ");
    terminal.type_in("y\n");
    terminal.expect("applied from first");
    assert_eq!(terminal.ends(), 0);
    w.whatif(["apply", "first", "-y"]).go().ok();
    assert!(w.whatif(["apply", "first", "-y"]).go().ok().stdout.contains("nothing to apply from first"));
    w.whatif(["status", "first"]).go().ok().stdout.contains("everything it changed was applied").then_some(()).expect("it says so");
    let mut terminal = Terminal::with_whatif(w, &["undo"]);
    terminal.expect(" from ");
    terminal.expect("Take back 1 change of apply ");
    terminal.expect("from first?");
    terminal.type_in("y\n");
    terminal.expect("undo the undo: whatif undo ");
    assert_eq!(terminal.ends(), 0);
    assert!(!w.whatif(["status", "first"]).go().ok().stdout.contains("was applied"), "it was undone");
}

/// A patch says which number `apply --hunks` knows a hunk by, and git takes it all the same.
fn hunks_in_a_patch_have_numbers(w: &World) {
    needs!(w, "git");
    w.outside("seq 40 > f").ok();
    w.sandbox_with("s", "sed -i 's/^2$/two/; s/^38$/last/' f");
    let patch = w.whatif(["diff", "s", "--patch"]).go().ok().stdout;
    assert!(patch.contains("@@ -1,5 +1,5 @@ hunk 1 of 2\n") && patch.contains(" @@ hunk 2 of 2\n"), "{patch}");
    w.program("/usr/bin/env").args(["git", "apply", "--check", "-"]).input(patch.as_bytes()).go().ok();
    w.apply(&["s", "--hunks", "f:2"]).ok();
    assert!(w.read("f").starts_with("1\n2\n") && w.read("f").contains("last"), "only the second");
}

/// Without a name, a person is asked about the latest; a script has to name it.
fn what_is_removed_is_named_or_confirmed(w: &World) {
    w.new_sandbox("other");
    w.new_sandbox("latest");
    w.exec("latest", "true").ok();
    w.whatif(["rm"]).go().fails_with_hint(2).says("whatif rm latest");
    w.whatif(["rm", "-y"]).go().fails_with_hint(2).says("whatif rm latest");
    let mut terminal = Terminal::with_whatif(w, &["rm"]);
    terminal.expect("Remove 1 sandbox with all changes (latest)?");
    terminal.type_in("y\n");
    terminal.expect("latest is gone");
    assert_eq!(terminal.ends(), 0);
    w.whatif(["stop", "other"]).go().ok();
    w.new_sandbox("running");
    w.whatif(["rm", "--stopped"]).go().fails_with_hint(2).says("whatif rm --stopped --yes");
    w.whatif(["rm", "running", "--stopped"]).go().fails_with_hint(125).says("running");
    assert_eq!(w.json(["rm", "--stopped", "--yes"])["removed"], json!(["other"]));
    w.whatif(["rm", "--stopped", "-y"]).go().ok().says("no sandbox to remove");
    assert_eq!(w.whatif(["ls", "-q"]).go().ok().stdout, "running\n");
    w.whatif(["rm", "--all"]).go().fails_with_hint(2).says("whatif rm --all --yes");
}

/// What was deleted, committed, or left where it is lost, and what can be done now, a line each.
fn the_report_of_a_run_says_what_there_is_to_know(w: &World) {
    needs!(w, "git");
    w.outside("mkdir -p gone/deep; touch gone/1 gone/2 gone/deep/3 kept; git init -q -b main . && git add kept && git -c user.name=A -c user.email=a@example.org commit -qm first").ok();
    let deleted =
        w.whatif(["run", "--name", "d", "rm", "-rf", "gone"]).go().ok().says("5 paths deleted; reality is untouched. Kept as d");
    assert!(!deleted.stderr.contains("0 B") && !deleted.stderr.contains("changed"), "{}", deleted.stderr);
    for line in ["  look at it:   whatif diff d", "  make it real: whatif apply d", "  drop it:      whatif rm d"] {
        assert!(deleted.stderr.lines().any(|said| said == line), "{line}: {}", deleted.stderr);
    }
    let commit = "git config user.name A; git config user.email a@example.org; echo x > new; git add new; git commit -qm second; echo y > new; git commit -qam third; git commit -q --amend -m 3; git switch -qc topic; git commit -q --allow-empty -m x";
    let committed = w.whatif(["run", "--name", "c", "sh", "-c", commit]).go().ok();
    committed.says("  2 commits on branch main").says("on branch topic");
    let told = w.json(["run", "--rm", "sh", "-c", &format!("rm -r gone; {commit}")]);
    assert_eq!(told["changes"]["commits"][0], json!({ "branch": "main", "count": 2 }));
    assert_eq!(told["changes"]["deleted"], 5, "{told}");
    // Of /tmp, nothing is kept.
    w.whatif(["run", "sh", "-c", "echo x > /tmp/result"]).go().ok().says("gone with the sandbox's private /tmp: result");
    let several = w.whatif(["run", "sh", "-c", "echo x > f; mkdir /tmp/a; echo > /tmp/b"]).go().ok();
    several.says("gone with the sandbox's private /tmp:").says(" and more");
    let told = w.json(["run", "--rm", "touch", "/tmp/result"]);
    assert_eq!(told["left_in_tmp"], json!(["result"]));
    for script in ["touch /tmp/x; rm /tmp/x", "touch f", "touch /tmp/x; sleep 100 > /dev/null 2>&1 &"] {
        let nothing = w.whatif(["run", "sh", "-c", script]).go().ok();
        assert!(!nothing.stderr.contains("private /tmp"), "{}", nothing.stderr);
    }
}

/// A verb always wins; what is neither is a mistake.
fn a_program_can_stand_in_the_place_of_a_verb(w: &World) {
    w.write("build.sh", "#!/bin/sh\necho built > \"$1\"\n");
    w.outside("chmod +x build.sh; echo x > x").ok();
    let run = w.whatif(["touch", "made"]).go().ok().says("running 'touch' in a sandbox, as 'whatif run' does");
    assert!(run.stderr.contains("1 path changed") && !w.project.join("made").exists(), "{}", run.stderr);
    w.whatif(["./build.sh", "out"]).go().ok().says("running './build.sh' in a sandbox");
    assert!(!w.project.join("out").exists());
    assert_eq!(w.json(["echo", "--json", "-n"])["stdout"], "--json -n\n");
    let verb = w.whatif(["rm", "-rf", "x"]).go().exits(2);
    verb.says("to run the program 'rm' in a sandbox: whatif run rm");
    w.whatif(["run", "rm", "-rf", "x"]).go().ok();
    assert!(w.project.join("x").exists());
    w.write("stauts", "no program\n");
    for mistyped in ["stauts", "aply", "./stauts"] {
        let refused = w.whatif([mistyped, "x"]).go().exits(2);
        assert!(!refused.stderr.contains("in a sandbox"), "{}", refused.stderr);
    }
    w.whatif(["stauts"]).go().exits(2).says("'status'");
    assert_eq!(w.whatif(["--json", "stauts"]).go().exits(2).stdout, "");
}

fn errors_name_what_is_wrong(w: &World) {
    w.new_sandbox("s");
    w.whatif(["exec", "s", "--cwd", "/nosuch/place", "--", "true"]).go().exits(125).says("/nosuch/place");
    w.whatif(["run", "--", ""]).go().fails_with_hint(127).says("the name of the command is empty");
    w.whatif(["kill", "s", "abc"]).go().exits(2).says("'whatif ps' shows");
    w.whatif(["run", "--memory", "64", "--", "true"]).go().fails_with_hint(2).says("too small").says("512M");
    w.whatif(["net", "permits", "--forget", "nosuch.test"]).go().fails_with_hint(2).says("not permitted anywhere");
}

/// Each sandbox once and by its name, whatever it was called by.
fn a_person_is_asked_about_what_is_there(w: &World) {
    w.new_sandbox("bye");
    let id = w.json(["show", "bye"])["id"].as_str().expect("an id").to_owned();
    let mut terminal = Terminal::with_whatif(w, &["rm", "nosuch", "bye", "bye", &id]);
    terminal.expect("Remove 1 sandbox with all changes (bye)?");
    terminal.type_in("n\n");
    terminal.expect("nothing was removed");
    assert_eq!(terminal.ends(), 1);
    w.whatif(["rm", "bye", "bye"]).go().ok();
    assert_eq!(w.json(["ls"]), json!([]));
}

/// Without -i, standard input is the caller's: here the rest of a script.
fn a_terminal_alone_takes_no_input(w: &World) {
    w.new_sandbox("s");
    let script = format!("{bin} exec -t s -- sleep 1\necho still here\n", bin = w.bin.display());
    let outcome = w.program("/bin/sh").input(script.as_bytes()).go().ok();
    // A terminal that was given it would have echoed it.
    assert!(outcome.stdout.lines().any(|line| line == "still here"), "{outcome:?}");
    let outcome = w.whatif(["exec", "-i", "-t", "s", "--", "head", "-n", "1"]).input(b"given\n").go().ok();
    assert!(outcome.stdout.contains("given"), "{outcome:?}");
}
