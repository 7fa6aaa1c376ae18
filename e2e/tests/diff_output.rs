//! What `whatif diff` shows: to people, to programs, and to git.

use serde_json::{Value, json};
use whatif_e2e::{Terminal, World, as_root_and_user, change, needs};

as_root_and_user!(
    name_only_is_one_path_a_line,
    a_path_limits_what_is_shown,
    a_path_without_changes_is_told_from_no_changes,
    without_its_pager_a_diff_is_shown_all_the_same,
    stat_counts_lines,
    the_exit_code_tells_whether_there_are_changes,
    nothing_changed_is_nothing_shown,
    the_json_document_has_every_change_with_its_kind,
    the_json_document_has_hunks_of_text,
    flags_say_what_needs_a_closer_look,
    what_needs_a_closer_look_comes_first,
    what_needs_a_closer_look_is_in_every_form,
    ignored_directories_are_one_line_with_their_count,
    ignored_files_that_were_deleted_are_called_that,
    changes_outside_the_project_are_counted,
    drift_is_listed,
    who_gets_access_is_said,
    the_files_of_a_renamed_directory_are_paired_in_their_places,
    a_path_that_is_nowhere_is_a_mistake,
    two_sandboxes_are_compared,
    a_living_sandbox_has_a_diff,
    the_latest_sandbox_of_the_project_is_meant,
    a_sandbox_that_is_not_there_is_a_mistake,
);

fn lines(w: &World, arguments: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = w.whatif(["diff"]).args(arguments).go().ok().stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn name_only_is_one_path_a_line(w: &World) {
    w.outside("mkdir d; echo f > f; echo gone > gone; seq 20 > old; echo same > same; echo g > d/g").ok();
    w.sandbox_with("s", "echo F > f; rm gone; mv old new; echo x > d/x; echo more >> d/g; touch same");
    assert_eq!(lines(w, &["s", "--name-only"]), ["d/g", "d/x", "f", "gone", "new"]);
}

fn a_path_limits_what_is_shown(w: &World) {
    w.outside("mkdir -p src doc; echo a > src/a; echo b > doc/b; echo c > c").ok();
    w.sandbox_with("s", "echo A > src/a; echo B > doc/b; echo C > c");
    assert_eq!(lines(w, &["s", "src", "--name-only"]), ["src/a"]);
    assert_eq!(lines(w, &["s", "--name-only", "--", "src", "c"]), ["c", "src/a"]);
    assert_eq!(lines(w, &["--name-only", "--", "doc"]), ["doc/b"]);
    let patch = w.whatif(["diff", "s", "doc", "--patch"]).go().ok().stdout;
    assert!(patch.contains("doc/b") && !patch.contains("src/a"), "{patch}");
}

fn stat_counts_lines(w: &World) {
    w.outside("seq 10 > f; seq 5 > gone").ok();
    w.sandbox_with("s", "sed -i 's/^3$/three/; s/^7$/seven/' f; rm gone; seq 91 94 > new");
    let stat = w.whatif(["diff", "s", "--stat"]).go().ok().stdout;
    assert!(["f", "gone", "new"].iter().all(|name| stat.lines().any(|line| line.contains(name))), "{stat}");
    let stats = &w.json(["diff", "s"])["stats"];
    assert_eq!(stats["files"], 3, "{stats}");
    assert_eq!((&stats["added"], &stats["modified"], &stats["deleted"]), (&json!(1), &json!(1), &json!(1)), "{stats}");
    assert_eq!((&stats["added_lines"], &stats["deleted_lines"]), (&json!(6), &json!(7)), "{stats}");
}

fn the_exit_code_tells_whether_there_are_changes(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("changed", "echo F > f");
    w.sandbox_with("unchanged", "touch f");
    w.whatif(["diff", "changed", "--exit-code"]).go().exits(1);
    w.whatif(["diff", "changed", "--exit-code", "--json"]).go().exits(1);
    w.whatif(["diff", "changed"]).go().ok();
    w.whatif(["diff", "unchanged", "--exit-code"]).go().ok();
}

fn nothing_changed_is_nothing_shown(w: &World) {
    w.outside("echo f > f; mkdir d; echo g > d/g; ln -s f link").ok();
    // Each of these makes overlayfs copy something up.
    w.sandbox_with("s", "touch f; chmod 644 f; : >> d/g; echo g > d/g; mv f t; mv t f; chmod 755 d; ln -sfn f link");
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "");
    assert_eq!(w.whatif(["diff", "s", "--patch"]).go().ok().stdout, "");
    assert_eq!(w.json(["diff", "s"])["changes"], json!([]));
}

fn the_json_document_has_every_change_with_its_kind(w: &World) {
    w.outside("echo f > f; echo gone > gone; seq 20 > old; echo m > m; ln -s a link; printf 'a\\0b' > binary; echo t > t").ok();
    w.sandbox_with(
        "s",
        "echo F > f; rm gone; mv old new; chmod 755 m; ln -sfn b link; printf 'a\\0c' > binary; rm t; mkdir t; \
         echo added > added; mkdir directory; ln -s f new-link; mkfifo pipe",
    );
    let document = w.json(["diff", "s"]);
    let sandbox = &document["sandbox"];
    assert_eq!((&sandbox["name"], &sandbox["project"]), (&json!("s"), &json!(w.project)), "{sandbox}");
    assert!(sandbox["id"].is_string() && sandbox["status"].is_string(), "{sandbox}");
    assert!(document["digest"].as_str().is_some_and(|d| d.len() >= 32), "{}", document["digest"]);
    for (path, kind, file_type) in [
        ("f", "modify", "file"),
        ("gone", "delete", "file"),
        ("new", "rename", "file"),
        ("m", "mode", "file"),
        ("link", "symlink", "symlink"),
        ("binary", "modify", "file"),
        ("t", "type", "directory"),
        ("added", "add", "file"),
        ("directory", "add", "directory"),
        ("new-link", "add", "symlink"),
        ("pipe", "special", "fifo"),
    ] {
        let change = change(&document, path);
        assert_eq!((&change["kind"], &change["type"]), (&json!(kind), &json!(file_type)), "{path}: {change}");
        assert!(change["flags"].is_array() && change["id"] != Value::Null, "{path}: {change}");
        assert_eq!((&change["outside"], &change["ignored"]), (&json!(false), &json!(false)), "{path}: {change}");
    }
    assert_eq!(change(&document, "new")["old_path"], "old");
    assert_eq!(change(&document, "binary")["binary"], true);
    assert_ne!(change(&document, "m")["old_mode"], change(&document, "m")["new_mode"]);
    assert_eq!(document["drift"], json!([]));
}

fn the_json_document_has_hunks_of_text(w: &World) {
    w.outside("seq 40 > f").ok();
    w.sandbox_with("s", "sed -i 's/^2$/two/; s/^38$/thirty-eight/' f");
    let document = w.json(["diff", "s"]);
    let f = change(&document, "f");
    assert_eq!((&f["added_lines"], &f["deleted_lines"]), (&json!(2), &json!(2)), "{f}");
    if let Some(hunks) = f["hunks"].as_array() {
        assert_eq!(hunks.len(), 2, "{f}");
    }
    w.apply(&["s", "--hunks", "f:2"]).ok();
    assert!(w.read("f").contains("\nthirty-eight\n") && !w.read("f").contains("two"), "the second one is the one shown second");
}

fn flags_say_what_needs_a_closer_look(w: &World) {
    w.outside("git init -q .; echo gone > gone; echo all: > Makefile").ok();
    w.sandbox_with(
        "s",
        "rm gone; echo evil >> Makefile; echo t > tool; chmod 755 tool; echo s > setuid; chmod 4755 setuid; \
         ln -s /etc/passwd out; echo '{}' > package-lock.json; git init -q nested; \
         echo x > .git/hooks/post-checkout; printf 'a \\342\\200\\256 b\\n' > bidi.c; echo h > harmless",
    );
    let document = w.json(["diff", "s", "--all"]);
    let flags = |path: &str| change(&document, path)["flags"].as_array().expect("a list").clone();
    for (path, flag) in [
        ("gone", "deletion"),
        ("Makefile", "host_executed"),
        (".git/hooks/post-checkout", "host_executed"),
        ("tool", "executable"),
        ("setuid", "setuid"),
        ("out", "link_outside"),
        ("package-lock.json", "lockfile"),
        ("bidi.c", "hidden_characters"),
    ] {
        assert!(flags(path).contains(&json!(flag)), "{path} is not flagged {flag}: {:?}", flags(path));
    }
    assert_eq!(flags("harmless"), Vec::<Value>::new());
    let everything = document["changes"].to_string();
    assert!(everything.contains("nested_repository"), "{everything}");
}

fn what_needs_a_closer_look_comes_first(w: &World) {
    w.sandbox_with("s", "for n in $(seq 50); do echo x > a$n; done; echo x > .envrc; mkdir z; echo x > z/Makefile");
    let shown = w.whatif(["diff", "s"]).go().ok().stdout;
    let at = |name: &str| shown.find(name).unwrap_or_else(|| panic!("{name} is not shown:\n{shown}"));
    assert!(at(".envrc") < at("a1") && at("z/Makefile") < at("a1"), "{shown}");
}

fn ignored_directories_are_one_line_with_their_count(w: &World) {
    w.outside("git init -q .; echo /target/ > .gitignore; echo f > f").ok();
    w.sandbox_with("s", "mkdir -p target/deep; for n in $(seq 20); do echo x > target/deep/f$n; done; echo F > f");
    let shown = w.whatif(["diff", "s"]).go().ok().stdout;
    let line = shown.lines().find(|line| line.contains("target/")).unwrap_or_else(|| panic!("not shown:\n{shown}"));
    assert!(line.contains("20 files") && line.contains("ignored"), "{line}");
    assert!(!shown.contains("f20"), "{shown}");
    assert_eq!(lines(w, &["s", "--name-only"]).iter().filter(|path| path.starts_with("target/deep/")).count(), 0);
    assert_eq!(lines(w, &["s", "--name-only", "--all"]).iter().filter(|path| path.starts_with("target/deep/")).count(), 20);
    let collapsed = &w.json(["diff", "s"])["collapsed"][0];
    assert_eq!(collapsed["path"].as_str().map(|p| p.trim_end_matches('/')), Some("target"), "{collapsed}");
    assert_eq!((&collapsed["files"], &collapsed["bytes"]), (&json!(20), &json!(40)), "{collapsed}");
    // A patch takes what an apply takes.
    let patch = |more: &[&str]| w.whatif([&["diff", "s", "--patch"], more].concat()).go().ok();
    assert!(!patch(&[]).says("20 changes that the project ignores").stdout.contains("target/"));
    assert!(patch(&["--all"]).stdout.contains("target/deep/f20") && patch(&["target"]).stdout.contains("target/deep/f20"));
}

fn ignored_files_that_were_deleted_are_called_that(w: &World) {
    w.outside(
        "git init -q .; printf '/data/\n/both/\n' > .gitignore; mkdir data both; echo 1 > data/1; echo 2 > data/2; echo 3 > both/3",
    )
    .ok();
    w.sandbox_with("s", "rm -r data both/3; echo x > both/4");
    let shown = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(shown.contains("data/  2 files deleted (ignored)"), "{shown}");
    assert!(shown.contains("both/  2 files, 2 B, 1 of them deleted (ignored)"), "{shown}");
}

fn changes_outside_the_project_are_counted(w: &World) {
    w.sandbox_with("s", "echo x > f; echo x > ../outside-1; echo x > ../outside-2");
    assert_eq!(lines(w, &["s", "--name-only"]), ["f"]);
    assert_eq!(w.json(["diff", "s"])["stats"]["outside"], 2);
    let shown = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(shown.lines().any(|line| line.contains('2') && line.contains("outside")), "{shown}");
    assert!(shown.contains("(whatif diff s --outside lists them)") && !shown.contains("more"), "{shown}");
    w.sandbox_with("many", "for n in 1 2 3 4 5 6 7; do echo x > ../many-$n; done");
    let shown = w.whatif(["diff", "many"]).go().ok().stdout;
    assert!(shown.trim_end().ends_with("… and 2 more"), "{shown}");
}

fn drift_is_listed(w: &World) {
    w.outside("echo f > f; echo g > g; echo h > h").ok();
    w.sandbox_with("s", "echo F > f; echo G > g; echo H > h");
    w.outside("echo mine > f; rm g").ok();
    let document = w.json(["diff", "s"]);
    let mut paths: Vec<&str> = document["drift"].as_array().expect("a list").iter().filter_map(|d| d["path"].as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["f", "g"], "{}", document["drift"]);
}

fn two_sandboxes_are_compared(w: &World) {
    w.outside("echo f > f; echo same > same").ok();
    w.sandbox_with("a", "echo a > f; echo both > both; echo a > only-a; echo changed > same");
    w.sandbox_with("b", "echo b > f; echo both > both; echo other > only-b; echo changed > same");
    assert_eq!(lines(w, &["a..b", "--name-only"]), ["f", "only-a", "only-b"]);
    let patch = w.whatif(["diff", "a..b", "--patch"]).go().ok().stdout;
    assert!(patch.contains("\n-a\n+b\n"), "{patch}");
    assert_eq!(lines(w, &["a..", "--name-only"]).len(), 4, "an empty side is reality");
    assert_eq!(lines(w, &["a..a", "--name-only"]), Vec::<String>::new());
}

fn a_living_sandbox_has_a_diff(w: &World) {
    w.outside("echo f > f; seq 20 > old").ok();
    let name = w.new_sandbox("alive");
    w.exec(&name, "echo F > f; mv old new").ok();
    w.whatif(["exec", &name, "-d", "--", "/bin/sh", "-c", "while :; do echo x > busy; rm -f busy; done"]).go().ok();
    for _ in 0..10 {
        let mut paths = lines(w, &[&name, "--name-only"]);
        paths.retain(|path| path != "busy");
        assert_eq!(paths, ["f", "new"], "what comes and goes does not disturb the rest");
    }
    w.exec(&name, "echo later > later").ok();
    assert!(lines(w, &[&name, "--name-only"]).contains(&"later".to_owned()));
}

fn the_latest_sandbox_of_the_project_is_meant(w: &World) {
    let other = w.home.join("other");
    w.mkdir(&other);
    w.sandbox_with("first", "echo 1 > first");
    w.sandbox_with("second", "echo 2 > second");
    w.sandbox_in(&other, "elsewhere", "echo 3 > third");
    assert_eq!(lines(w, &["--name-only"]), ["second"]);
}

fn a_sandbox_that_is_not_there_is_a_mistake(w: &World) {
    let nothing = w.whatif(["diff"]).go();
    assert!(nothing.code != 0 && !nothing.stderr.is_empty(), "{nothing:?}");
    w.sandbox_with("s", "echo x > f");
    let unknown = w.whatif(["diff", "nobody..s"]).go();
    assert!(unknown.code != 0 && unknown.stderr.contains("nobody"), "{unknown:?}");
}

/// Whatever else is done to a file, and in a patch beside it.
fn who_gets_access_is_said(w: &World) {
    needs!(w, "setfacl", "setfattr");
    w.outside("echo k > keep; seq 9 > a.txt").ok();
    // A sandbox of an ordinary user knows no ids but its own.
    let id = if w.is_root() { 12 } else { w.uid() };
    let script = format!("setfacl -m u:{id}:rwx keep; echo x >> a.txt; setfacl -m g:{id}:r a.txt; setfattr -n user.q -v w a.txt");
    w.sandbox_with("s", &script);
    let shown = w.whatif(["diff", "s", "--stat"]).go().ok().stdout;
    let line = |path: &str| shown.lines().find(|l| l.contains(path)).unwrap_or_else(|| panic!("{path}:\n{shown}")).to_owned();
    assert!(line("keep").contains(&format!("access for user {id}: rwx")), "{shown}");
    assert!(line("a.txt").contains(&format!("access for group {id}: r--; attribute user.q set")), "{shown}");
    let document = w.json(["diff", "s"]);
    let attributes = |path: &str| change(&document, path)["attributes"].clone();
    assert_eq!(attributes("keep")[0]["name"], "system.posix_acl_access", "{document:#}");
    assert!(attributes("keep")[0]["new"].as_str().is_some_and(|list| list.contains(&format!("u:{id}:rwx"))), "{document:#}");
    assert_eq!(attributes("a.txt")[1], json!({ "name": "user.q", "old": null, "new": "w" }), "{document:#}");
    w.whatif(["diff", "s", "--patch"]).go().ok().says(&format!("access for user {id}: rwx"));
    if w.is_root() {
        w.sandbox_with("owned", "echo new > new; echo given > given; chown 7:7 given");
        let shown = w.whatif(["diff", "owned", "--stat"]).go().ok().stdout;
        assert_eq!(shown.matches("owner 7:7").count(), 1, "{shown}");
    }
}

fn the_files_of_a_renamed_directory_are_paired_in_their_places(w: &World) {
    w.outside("mkdir -p d/e; for i in 1 2; do seq 40 > d/$i; seq 40 > d/e/$i; done").ok();
    w.sandbox_with("s", "mv d dd; sed -i s/^5$/x/ dd/1");
    let document = w.json(["diff", "s"]);
    for path in ["1", "2", "e/1", "e/2"] {
        assert_eq!(change(&document, &format!("dd/{path}"))["old_path"], format!("d/{path}"), "{document:#}");
    }
}

fn a_path_that_is_nowhere_is_a_mistake(w: &World) {
    w.outside("echo f > f; echo g > g").ok();
    w.sandbox_with("s", "echo F > f; rm g; echo new > new");
    w.whatif(["diff", "s", "nosuch"]).go().fails_with_hint(2).says("nosuch");
    for path in ["f", "g", "new"] {
        w.whatif(["diff", "s", path]).go().ok();
    }
    w.outside("echo unchanged > unchanged").ok();
    w.whatif(["diff", "s", "unchanged"]).go().ok();
}

/// Also if the project ignores it, and once.
fn what_needs_a_closer_look_is_in_every_form(w: &World) {
    w.outside("git init -q .; echo .env > .gitignore; printf 'all:\\n' > Makefile").ok();
    w.sandbox_with("s", "echo A=42 > .env; echo x >> Makefile; echo h > .git/hooks/post-checkout");
    let flagged = [".env", ".git/hooks/post-checkout", "Makefile"];
    assert_eq!(lines(w, &["s", "--name-only"]), flagged);
    assert_eq!(lines(w, &["s", "--name-only", ".env"]), [".env"]);
    let piped = w.whatif(["diff", "s", "--patch"]).go().ok().says(".git/hooks/post-checkout");
    assert!(piped.stdout.contains("+A=42") && !piped.stdout.contains("post-checkout"), "{}", piped.stdout);
    for form in [&["--patch"][..], &[]] {
        let mut terminal = Terminal::with_whatif(w, &[&["diff", "s", "--no-pager"], form].concat());
        for text in ["3 files changed", "needs your approval", ".env", "tools on the host execute it", "post-checkout", "A=42"] {
            terminal.expect(text);
        }
        let screen = terminal.screen();
        assert!(!screen.contains("(ignored)"), "{form:?}: {screen}");
        assert_eq!(terminal.ends(), 0);
    }
}

fn a_path_without_changes_is_told_from_no_changes(w: &World) {
    w.outside("echo a > a; echo b > b; echo c > c").ok();
    w.sandbox_with("s", "echo A > a; echo B > b");
    let shown = w.whatif(["diff", "s", "c"]).go().ok();
    assert_eq!(shown.text(), "s changed nothing there (2 files changed elsewhere)");
}

fn without_its_pager_a_diff_is_shown_all_the_same(w: &World) {
    w.sandbox_with("s", "echo content > a");
    let bin = w.bin.display().to_string();
    let mut terminal = Terminal::with(w, &["/usr/bin/env", "WHATIF_PAGER=no-such-pager", &bin, "diff", "s"]);
    terminal.expect("not found");
    terminal.expect("1 file changed");
    assert_eq!(terminal.ends(), 0);
}
