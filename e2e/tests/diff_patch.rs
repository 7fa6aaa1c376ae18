//! `whatif diff --patch` through the real `git apply` gives the sandbox's files, whatever they are called and contain.

use std::path::PathBuf;

use whatif_e2e::{Detail, Tree, World, as_root_and_user, needs};

as_root_and_user!(
    text_goes_through_git_apply,
    binary_goes_through_git_apply,
    renames_modes_and_links_go_through_git_apply,
    odd_names_go_through_git_apply,
    empty_files_and_missing_newlines_go_through_git_apply,
    directories_that_became_files_go_through_git_apply,
    git_settings_do_not_change_the_patch,
    what_lies_outside_is_said_to_be_missing,
    large_files_go_through_git_apply_in_little_memory,
);

/// The same script in a copy of the project, and in a sandbox whose patch is given to git: both must have the same files.
fn round_trip(w: &World, base: &str, change: &str) {
    needs!(w, "git");
    let (base, change) = (format!("umask 022\n{base}"), format!("umask 022\n{change}"));
    w.program("/bin/sh").args(["-euc", &base]).go().ok();
    let (model, patched) = (copy(w, "model"), copy(w, "patched"));
    w.program("/bin/sh").args(["-euc", &change]).cwd(&model).go().ok();
    w.sandbox_with("s", &change);
    let patch = w.dir.join("patch");
    w.outside(&format!("{} diff s --patch > {}", w.bin.display(), patch.display())).ok();
    let apply = "umask 022; exec git apply --binary --whitespace=nowarn \"$0\"";
    w.program("/bin/sh").args(["-c", apply]).args([&patch]).cwd(&patched).go().ok();
    let files = |directory| Tree::of(directory, Detail::Patch).files();
    files(&patched).assert_is(
        &files(&model),
        &format!("the patch:\n{}", String::from_utf8_lossy(&std::fs::read(&patch).expect("it was written"))),
    );
}

fn copy(w: &World, name: &str) -> PathBuf {
    let copy = w.dir.join(name);
    w.program("/bin/cp").args(["-a", "--"]).args([&w.project, &copy]).go().ok();
    copy
}

fn text_goes_through_git_apply(w: &World) {
    round_trip(
        w,
        "seq 200 > long; seq 30 > other; printf 'one\\r\\ntwo\\r\\n' > crlf; echo gone > gone; printf '\\357\\273\\277bom\\n' > bom
         printf 'caf\\351\\n' > latin1; printf -- '--- a\\n+++ b\\n@@ -1 +1 @@\\n' > like-a-patch",
        "sed -i 's/^2$/two/; 100,110d; s/^199$/last/' long; sed -i '1i first' other; printf 'one\\r\\n2\\r\\n' > crlf; rm gone
         echo more >> bom; printf 'th\\351\\n' > latin1; echo '-- more' >> like-a-patch; mkdir -p a/b; seq 5 > a/b/new",
    );
}

fn binary_goes_through_git_apply(w: &World) {
    round_trip(
        w,
        "head -c 5000 /dev/zero > zeros; printf 'a\\0b' > small; printf 'x\\0y' > gone; seq 9 > text; printf '\\0' > to-text",
        "printf x | dd of=zeros bs=1 seek=2500 conv=notrunc status=none; printf 'a\\0c' > small; rm gone
         seq 5000 | tr '12' '\\0\\377' > new; printf 'now\\0binary' > text; echo text > to-text",
    );
}

fn renames_modes_and_links_go_through_git_apply(w: &World) {
    round_trip(
        w,
        "seq 50 > old; seq 60 > edited; mkdir d; seq 5 > d/a; seq 6 > d/b; echo t > tool; chmod 755 tool; echo p > plain
         ln -s a link; ln -s a gone; echo x > to-link; ln -s a to-file",
        "mv old new; mv edited moved; sed -i 's/^30$/thirty/' moved; mv d e; chmod 644 tool; chmod 755 plain; ln -sfn b link; rm gone
         ln -s '../with space' added; rm to-link; ln -s y to-link; rm to-file; echo z > to-file",
    );
}

fn odd_names_go_through_git_apply(w: &World) {
    let names = "for n in \"it's\" 'a \"b\"' ' lead' 'trail ' '-dash' 'back\\\\slash' 'star*' \"$(printf 'new\\nline')\" \
                 \"$(printf 'tab\\there')\" \"$(printf 'caf\\351')\" \"$(printf 'esc\\033x')\" 'ü' '.wh.x' 'a/b c'; do";
    round_trip(
        w,
        &format!("mkdir a; {names} echo old > \"./$n\"; echo gone > \"./$n.gone\"; done"),
        &format!("{names} echo new > \"./$n\"; rm \"./$n.gone\"; echo added > \"./$n.added\"; done"),
    );
}

fn empty_files_and_missing_newlines_go_through_git_apply(w: &World) {
    round_trip(
        w,
        ": > filled; echo x > emptied; : > gone; printf 'a\\nb' > gains; printf 'a\\nb\\n' > loses; printf 'a\\nb' > neither; printf a > one",
        "echo x > filled; : > emptied; rm gone; : > new; printf 'a\\nb\\n' > gains; printf 'a\\nb' > loses; printf 'a\\nc' > neither
         printf b > one; printf 'no newline' > added; printf '\\n' > only-a-newline",
    );
}

fn directories_that_became_files_go_through_git_apply(w: &World) {
    round_trip(
        w,
        "mkdir -p d/e f; echo x > d/e/x; echo y > d/y; echo t > t; echo o > f/o; echo p > f/p",
        "rm -r d; echo file > d; rm t; mkdir t; echo in > t/in; rm -r f; mkdir f; echo n > f/n; echo P > f/p",
    );
}

/// A repository can tell git how to show a file. Nobody asks it.
fn git_settings_do_not_change_the_patch(w: &World) {
    needs!(w, "git");
    let mark = w.dir.join("mark");
    let evil = format!(
        "git init -q .; echo '* -diff diff=evil filter=evil' > .gitattributes; git config diff.external 'touch {m}; true'
         git config diff.evil.textconv 'touch {m}; true'; git config filter.evil.clean 'touch {m}; cat'
         git config core.fsmonitor 'touch {m}; false'; git config core.pager 'touch {m}; cat'; git config diff.noprefix true; seq 9 > f",
        m = mark.display()
    );
    w.outside(&evil).ok();
    w.sandbox_with("s", "sed -i 's/^5$/five/' f");
    for mode in [&[][..], &["--json"], &["--stat"], &["--patch"]] {
        w.whatif(["diff", "s"]).args(mode).go().ok();
        assert!(!mark.exists(), "{mode:?}: a program of the repository's settings was run");
    }
    let patch = w.whatif(["diff", "s", "--patch"]).go().ok().stdout;
    assert!(patch.contains("--- a/f\n+++ b/f\n") && patch.contains("\n-5\n+five\n"), "{patch}");
}

/// The most that a command had in memory, in mebibytes.
fn memory_of(w: &World, arguments: &str) -> u64 {
    let measure = "import resource, subprocess, sys
with open(sys.argv[1], 'wb') as out:
    assert subprocess.run(sys.argv[2:], stdout=out).returncode == 0
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)";
    let call = w.program("python3").args(["-c", measure]).args([&w.dir.join("patch"), &w.bin]);
    call.args(arguments.split(' ')).go().ok().text().parse().expect("a number")
}

fn large_files_go_through_git_apply_in_little_memory(w: &World) {
    needs!(w, "git", "python3");
    // Many short lines, few long ones, nothing but line ends, and no text.
    w.outside(
        "seq 3000000 > short; seq 1000000 | tr '\\n' ' ' | fold -w 5000 > long; head -c 9000000 /dev/zero | tr '\\0' '\\n' > ends
         head -c 20000000 /dev/urandom > noise; printf '\\0' >> noise",
    )
    .ok();
    let patched = copy(w, "patched");
    w.sandbox_with("s", "sed -i 's/7$/seven/' short long; echo more >> ends; head -c 20000000 /dev/urandom > noise; seq 9 > small");
    for arguments in ["diff s", "--json diff s", "--json diff s --patch", "diff s --patch"] {
        let memory = memory_of(w, arguments);
        assert!(memory < 150, "{arguments} took {memory} MiB");
    }
    let patch = w.dir.join("patch");
    w.program("git").args(["apply", "--binary"]).args([&patch]).cwd(&patched).go().ok();
    w.whatif(["apply", "s", "--yes", "--all"]).go().ok();
    let files = |directory| Tree::of(directory, Detail::Patch).files();
    files(&patched).assert_is(&files(&w.project), "the patch is all of it");
}

/// A patch has no names for it.
fn what_lies_outside_is_said_to_be_missing(w: &World) {
    w.sandbox_with("s", "echo x > f; mkdir ../made; echo x > ../made/a; echo x > ../b");
    let (a, b) = (w.home.join("made/a"), w.home.join("b"));
    let said = w.whatif(["diff", "s", "--patch"]).go().ok().says("not in the patch: 2 changes outside the project");
    assert!(!said.stderr.contains("made/a") && said.stdout.contains("b/f"), "{said:?}");
    let named = w.whatif(["diff", "s", "--patch", "--outside"]).go().ok();
    let named = named.says(&a.display().to_string()).says(&b.display().to_string());
    assert_eq!(named.stderr.lines().count(), 2, "{named:?}");
    let one = w.whatif(["diff", "s", &b.display().to_string(), "--patch"]).go().ok().says(&b.display().to_string());
    assert_eq!((one.stderr.lines().count(), one.stdout.as_str()), (1, ""), "{one:?}");
}
