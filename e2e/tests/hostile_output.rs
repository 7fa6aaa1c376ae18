//! What a sandbox writes and how it calls its files reaches no terminal as it is, and no program of the project is run outside.

use whatif_e2e::{Terminal, World, as_root_and_user, on_other_backends};

as_root_and_user!(
    names_of_special_files_are_escaped,
    a_terminal_without_colours_gets_no_raw_content,
    a_git_of_the_project_is_not_run,
    a_pager_of_the_project_is_not_run,
);
on_other_backends!(names_of_special_files_are_escaped, a_git_of_the_project_is_not_run);

/// Sets the title, clears the screen, and a control character of one byte in Latin-1.
const NAME: &str = "$(printf 'esc\\033]0;owned\\007\\033[2J\\302\\233x')";

fn assert_harmless(text: &str, whose: &str) {
    let found = ["\x1b]0", "\x1b[2J", "\x07", "\u{9b}"].into_iter().find(|code| text.contains(code));
    assert!(found.is_none(), "{whose}: {text:?}");
}

fn names_of_special_files_are_escaped(w: &World) {
    w.sandbox_with(
        "s",
        &format!("mkfifo \"{NAME}.fifo\"; truncate -s 40M \"{NAME}.big\"; ln -s x \"{NAME}.link\"; mkdir \"{NAME}.dir\""),
    );
    for arguments in [&["diff", "s"][..], &["diff", "s", "--patch"], &["diff", "s", "--name-only"], &["apply", "s", "--dry-run"]] {
        let outcome = w.whatif(arguments.iter().copied()).go().ok();
        assert_harmless(&outcome.stderr, &format!("{arguments:?}"));
        assert_harmless(&outcome.stdout, &format!("{arguments:?}"));
    }
}

fn a_terminal_without_colours_gets_no_raw_content(w: &World) {
    w.sandbox_with("s", &format!("echo \"{NAME}\" > f; mkfifo \"{NAME}.fifo\"; echo end > z"));
    let bin = w.bin.display();
    for plain in ["NO_COLOR=1", "TERM=dumb"] {
        for options in ["--patch --no-pager", "--no-pager", "--patch --no-pager --all --outside"] {
            let mut terminal = Terminal::with(w, &["/bin/sh", "-c", &format!("{plain} exec {bin} diff s {options}")]);
            terminal.expect("+end");
            // Everything is there: names come before the content, and this is the last line of it.
            assert_harmless(&terminal.screen(), &format!("{plain} {options}"));
            assert_eq!(terminal.ends(), 0);
        }
    }
}

fn plant(w: &World, program: &str) -> std::path::PathBuf {
    let ran = w.project.join("ran-outside");
    let script =
        format!("printf '#!/bin/sh\\ntouch {}\\n/usr/bin/{program} \"$@\"\\n' > {program}; chmod 755 {program}", ran.display());
    w.outside(&script).ok();
    ran
}

fn a_git_of_the_project_is_not_run(w: &World) {
    w.outside("git init -q .; echo '*.o' > .gitignore; echo x > x.o; git add -f x.o .gitignore; git -c user.name=n -c user.email=e commit -qm c")
        .ok();
    let ran = plant(w, "git");
    w.outside("mkdir bin; cp git bin/git").ok();
    w.sandbox_with("s", "echo y > x.o; echo y > y");
    for path in [".:/usr/bin:/bin".to_owned(), format!("{}/bin::/usr/bin:/bin", w.project.display())] {
        for arguments in [&["diff", "s"][..], &["status", "s"], &["apply", "s", "--yes", "--dry-run"]] {
            w.whatif(arguments.iter().copied()).env("PATH", &path).go().ok();
            assert!(!ran.exists(), "{path} {arguments:?}");
        }
    }
    let commit = w.whatif(["apply", "s", "--yes", "--commit", "-m", "c"]).env("PATH", ".:/usr/bin:/bin");
    commit.env("GIT_AUTHOR_NAME", "n").env("GIT_AUTHOR_EMAIL", "e").go();
    assert!(!ran.exists(), "--commit");
}

fn a_pager_of_the_project_is_not_run(w: &World) {
    let ran = plant(w, "less");
    w.sandbox_with("s", "echo end > z");
    let mut terminal = Terminal::with(w, &["/bin/sh", "-c", &format!("PATH=.:/usr/bin:/bin exec {} diff s", w.bin.display())]);
    terminal.expect("hunk 1 of 1");
    terminal.type_in("q");
    terminal.ends();
    assert!(!ran.exists());
}
