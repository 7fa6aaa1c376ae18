//! The command line: exit codes, JSON, names, streams, hints.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use serde_json::json;
use whatif_e2e::{Terminal, World, as_root_and_user, needs};

as_root_and_user!(
    a_command_ends_with_its_own_exit_code,
    failures_of_whatif_have_their_own_exit_codes_and_a_hint,
    forgotten_dashes_are_pointed_out,
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
    a_terminal_alone_takes_no_input,
    hostile_file_names_are_shown_harmlessly,
    a_project_in_tmp_works,
    the_network_is_none_unless_asked_for,
    a_missing_network_is_hinted_at,
    completions_are_printed,
    colours_are_for_terminals_that_want_them,
    paths_and_working_directory_are_the_same_inside,
    doctor_reports_every_probe,
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
    assert!(w.json(["ps", "second"]).as_array().expect("a list").iter().any(|p| p["pid"] == detached["pid"]));
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
    assert_eq!((&masked["code"], &masked["kind"]), (&json!("usage"), &json!("invalid")));
    assert_eq!(masked["message"], "--mask cannot hide the whole file system or home");
    assert_eq!(
        masked["remedies"],
        json!([["name what is to be hidden: ", { "choice": "mask", "value": { "given": "~/letters" } }]])
    );
    assert_eq!(masked["hints"], json!(["name what is to be hidden: --mask ~/letters"]));
    let unknown = error(&["no-such-verb"], 2);
    assert_eq!((&unknown["kind"], unknown.get("remedies")), (&json!("invalid"), None));
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
    assert_eq!(w.whatif(["exec", &name, "--", "cat"]).input(b"typed").go().ok().stdout, "", "only with -i");
    assert_eq!(w.whatif(["run", "--in", &name, "--", "cat"]).input(b"typed").go().ok().stdout, "typed");
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
    std::fs::remove_dir_all(&project).expect("it is ours");
    assert_eq!(outcome.ok().stdout, "in tmp\nchanged\n");
    assert_eq!(after.ok().as_deref(), Some("in tmp\n"));
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

fn forgotten_dashes_are_pointed_out(w: &World) {
    w.whatif(["run", "--rm", "ls", "-l"]).go().exits(2).says("put '--' before the command: '-- ls'");
    w.whatif(["exec", "-it", "h", "bash"]).go().exits(2).says("put '--' before the command: '-- bash'");
    let others = w.whatif(["apply", "--dry-run", "h", "h", "h2"]).go().exits(2);
    assert!(!others.stderr.contains("tip:"), "{}", others.stderr);
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
