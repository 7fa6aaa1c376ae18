//! A sandbox that wants its changes overlooked, or whoever looks at them deceived or worn out.

use serde_json::{Value, json};
use whatif_e2e::{Terminal, World, as_root, as_root_and_user, change, needs, not_on};

as_root_and_user!(
    control_characters_in_names_are_escaped,
    names_that_are_not_utf8_are_shown_and_listed,
    control_characters_in_content_do_not_reach_a_terminal,
    a_file_named_like_a_whiteout_is_an_ordinary_file,
    a_forged_attribute_deletes_nothing_in_the_view,
    a_huge_sparse_file_costs_neither_time_nor_memory,
    a_link_to_an_endless_device_is_not_followed,
    a_directory_closed_by_the_sandbox_hides_nothing,
    a_deep_tree_is_walked,
    thousands_of_files_do_not_hide_a_hook,
);

as_root!(an_attribute_of_overlayfs_set_inside_is_an_ordinary_attribute);

const MODES: [&[&str]; 3] = [&[], &["--name-only"], &["--stat"]];

fn control_characters_in_names_are_escaped(w: &World) {
    w.sandbox_with(
        "s",
        "echo x > \"$(printf 'red\\033[31m')\"; echo x > \"$(printf 'two\\nlines')\"; echo x > \"$(printf 'back\\010\\rward')\"; \
         echo x > \"$(printf 'rtl\\342\\200\\256gpj.exe')\"; echo x > \"$(printf 'c1\\302\\233x')\"; echo x > \"$(printf 'zero\\342\\200\\213width')\"",
    );
    for mode in MODES {
        let shown = w.whatif(["diff", "s"]).args(mode).go().ok().stdout;
        let hidden = |c: &char| c.is_control() && *c != '\n' && *c != '\t' || "\u{202e}\u{200b}".contains(*c);
        assert_eq!(shown.chars().find(hidden), None, "{mode:?}: {shown:?}");
        assert!(shown.contains("rtl") && shown.contains("two"), "{mode:?}: {shown}");
    }
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout.lines().count(), 6, "a newline in a name is no new line");
    assert_eq!(change(&w.json(["diff", "s"]), "two\nlines")["kind"], "add", "for programs the name is as it is");
}

fn names_that_are_not_utf8_are_shown_and_listed(w: &World) {
    w.outside("echo old > \"$(printf 'caf\\351')\"").ok();
    w.sandbox_with("s", "echo new > \"$(printf 'caf\\351')\"");
    for mode in MODES {
        assert!(w.whatif(["diff", "s"]).args(mode).go().ok().stdout.contains("caf"), "{mode:?}");
    }
    let document = w.json(["diff", "s"]);
    assert_eq!(document["changes"][0]["path"], json!([99, 97, 102, 233]), "{document}");
}

fn control_characters_in_content_do_not_reach_a_terminal(w: &World) {
    w.outside("echo harmless > f").ok();
    w.sandbox_with("s", "printf 'evil\\033]0;owned\\007\\033[2J\\342\\200\\256\\n' > f");
    let terminal = Terminal::with_whatif(w, &["diff", "s", "--no-pager"]);
    let screen = wait_for_end(terminal);
    assert!(screen.contains("evil"), "{screen:?}");
    assert!(!screen.contains("\u{1b}]0;") && !screen.contains("\u{1b}[2J") && !screen.contains('\u{202e}'), "{screen:?}");
    let document = w.json(["diff", "s"]);
    assert!(change(&document, "f")["flags"].as_array().is_some_and(|f| f.contains(&json!("hidden_characters"))), "{document}");
}

fn wait_for_end(mut terminal: Terminal) -> String {
    terminal.expect("evil");
    let screen = terminal.screen();
    assert_eq!(terminal.ends(), 0);
    screen
}

fn a_file_named_like_a_whiteout_is_an_ordinary_file(w: &World) {
    not_on!(w, "fuse", "fuse-overlayfs has no such names");
    w.outside("echo foo > foo; mkdir d; echo x > d/x").ok();
    w.sandbox_with("s", "echo x > .wh.foo; : > .wh.empty; echo x > d/.wh..wh..opq");
    let mut names: Vec<String> = w.whatif(["diff", "s", "--name-only"]).go().ok().stdout.lines().map(str::to_owned).collect();
    names.sort();
    assert_eq!(names, [".wh.empty", ".wh.foo", "d/.wh..wh..opq"]);
    w.apply(&["s"]).ok();
    assert_eq!((w.read("foo"), w.read("d/x"), w.read(".wh.foo")), ("foo\n".into(), "x\n".into(), "x\n".into()));
}

/// Whatever of it the kernel allows: what is still there inside is not shown as deleted.
fn a_forged_attribute_deletes_nothing_in_the_view(w: &World) {
    needs!(w, "setfattr");
    w.outside("mkdir d; echo x > d/x; echo f > f").ok();
    w.sandbox_with(
        "s",
        "for a in user.overlay user.fuseoverlayfs user.containers trusted.overlay; do \
         setfattr -n $a.opaque -v y d || true; setfattr -n $a.whiteout -v y f || true; \
         : > empty; setfattr -n $a.whiteout -v y empty || true; done 2>/dev/null; touch d/new; test -e d/x; cat f",
    );
    let document = w.json(["diff", "s"]);
    let deleted: Vec<&Value> = document["changes"].as_array().expect("a list").iter().filter(|c| c["kind"] == "delete").collect();
    assert!(deleted.is_empty(), "{deleted:?}");
    w.apply(&["s", "--all"]).ok();
    assert_eq!((w.read("d/x"), w.read("f"), w.read("empty")), ("x\n".into(), "f\n".into(), String::new()));
}

/// Root's overlays keep their marks elsewhere; a user attribute of that name is content like any other.
fn an_attribute_of_overlayfs_set_inside_is_an_ordinary_attribute(w: &World) {
    needs!(w, "setfattr", "getfattr");
    w.outside("mkdir d; echo x > d/x").ok();
    w.sandbox_with("s", "setfattr -n user.overlay.opaque -v y d");
    let document = w.json(["diff", "s"]);
    assert_eq!(change(&document, "d")["kind"], "xattr", "{document}");
    assert_eq!(document["changes"].as_array().map(Vec::len), Some(1), "{document}");
}

fn a_huge_sparse_file_costs_neither_time_nor_memory(w: &World) {
    not_on!(w, "fuse", "fuse-overlayfs copies a file, holes and all, before it removes it");
    w.outside("truncate -s 9G old").ok();
    w.sandbox_with(
        "s",
        "truncate -s 16G huge; printf x | dd of=huge bs=1 seek=8G conv=notrunc status=none; rm old; echo s > small",
    );
    let bin = w.bin.display();
    for mode in ["", "--name-only", "--stat", "--json", "--patch"] {
        let outcome = w.outside(&format!("ulimit -v 1000000; exec {bin} diff s {mode}")).ok();
        assert!(outcome.stdout.contains("huge") || mode == "--patch", "{mode}: {}", outcome.stdout);
        assert!(outcome.stdout.len() < 1 << 20, "{mode}: {} bytes", outcome.stdout.len());
    }
}

fn a_link_to_an_endless_device_is_not_followed(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "ln -sfn /dev/zero f; ln -s /proc/self/mem mem; mkfifo pipe");
    let document = w.json(["diff", "s"]);
    assert_eq!(change(&document, "f")["type"], "symlink");
    assert_eq!(change(&document, "pipe")["type"], "fifo");
    w.whatif(["diff", "s", "--patch"]).go().ok();
}

/// What cannot be looked into is said to be so.
fn a_directory_closed_by_the_sandbox_hides_nothing(w: &World) {
    w.sandbox_with("s", "mkdir d; echo x > d/x; chmod 000 d; echo f > f; echo g > g; chmod 000 g");
    let outcome = w.whatif(["diff", "s", "--name-only"]).go().ok();
    let shown = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(["d", "f", "g"].iter().all(|name| shown.lines().any(|line| line.contains(name))), "{shown}");
}

fn a_deep_tree_is_walked(w: &World) {
    w.sandbox_with("s", "i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done; echo deep > f");
    let shown = w.whatif(["diff", "s", "--name-only"]).go().ok().stdout;
    assert!(shown.lines().any(|line| line.ends_with("/d/f")), "{}", shown.len());
}

fn thousands_of_files_do_not_hide_a_hook(w: &World) {
    w.outside("git init -q .; echo /node_modules/ > .gitignore").ok();
    w.sandbox_with(
        "s",
        "mkdir -p node_modules/.bin; i=0; while [ $i -lt 3000 ]; do : > node_modules/$i; i=$((i+1)); done; \
         echo x > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit",
    );
    let shown = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(shown.lines().take(6).any(|line| line.contains("pre-commit")), "{shown}");
    assert!(shown.lines().count() < 30, "{shown}");
    w.apply(&["s", "--ignored"]).ok();
    assert!(!w.project.join(".git/hooks/pre-commit").exists() && w.project.join("node_modules/2999").exists());
}
