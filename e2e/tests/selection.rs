//! Only what was asked for is taken: patterns that choose, patterns that protect, and the halves of renames.

use serde_json::{Value, json};
use whatif_e2e::{Terminal, World, as_root_and_user};

as_root_and_user!(
    a_rename_is_taken_apart_by_the_half_that_is_named,
    hunks_of_a_rename_are_the_hunks_that_were_named,
    a_rename_is_taken_apart_by_what_protects_one_half,
    a_renamed_directory_is_taken_apart,
    a_merge_takes_the_named_half,
    where_realitys_version_stays_the_source_of_a_rename_stays,
    where_a_directory_stays_away_the_sources_of_what_is_in_it_stay,
    a_rename_reviewed_in_part_is_taken_in_part,
    a_leading_slash_is_the_top_of_the_project,
    a_bare_name_protects_at_any_depth,
    a_path_from_here_is_not_one_from_the_top,
    a_pattern_that_fits_nothing_is_a_mistake,
    a_side_for_nothing_is_a_mistake,
    a_name_after_the_patterns_is_pointed_out,
    what_is_neither_a_pattern_nor_a_name_is_a_mistake,
    a_name_with_wildcards_in_it_is_that_name,
    a_policy_that_can_never_fit_is_a_mistake,
    a_pattern_of_the_users_own_that_is_none_is_told_with_its_place,
    a_policy_about_lines_approves_nothing_without_lines,
    nothing_is_applied_into_a_masked_directory,
    a_digest_is_of_what_is_left_to_apply,
    all_options_that_are_needed_are_named,
);

/// `a.txt` goes and a similar `b.txt` comes: a rename, as far as can be guessed. They differ in two hunks.
fn with_a_rename(w: &World, sandbox: &str) {
    w.outside("rm -f *; seq 60 > a.txt; echo other > other").ok();
    let edit = "sed 's/^5$/five/; s/^55$/fiftyfive/' a.txt > b.txt; rm a.txt; echo more >> other";
    w.sandbox_with(sandbox, edit);
    let kinds =
        w.json(["diff", sandbox])["changes"].as_array().map(|all| all.iter().map(|c| c["kind"].clone()).collect::<Vec<_>>());
    assert_eq!(kinds, Some(vec![json!("rename"), json!("modify")]));
}

fn exist<const N: usize>(w: &World, names: [&str; N]) -> [bool; N] {
    names.map(|name| w.project.join(name).exists())
}

fn why(document: &Value, path: &str) -> Value {
    let left_out = document["left_out"].as_array().unwrap_or_else(|| panic!("nothing about what is left out: {document}"));
    left_out.iter().find(|l| l["path"] == path).map_or(Value::Null, |l| l["reason"].clone())
}

fn a_rename_is_taken_apart_by_the_half_that_is_named(w: &World) {
    with_a_rename(w, "new");
    let plan = w.json(["apply", "new", "--files", "b.txt", "--dry-run"]);
    assert_eq!((plan["steps"].as_array().map(Vec::len), why(&plan, "a.txt")), (Some(1), json!("other_half")), "{plan}");
    w.apply(&["new", "--files", "b.txt"]).ok().says("half of a rename").says("a.txt");
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [true, true], "only b.txt was named");
    // The other half is a change like any other now.
    w.apply(&["new", "--files", "a.txt"]).ok();
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [false, true]);
    with_a_rename(w, "old");
    w.apply(&["old", "--files", "a.txt"]).ok().says("half of a rename").says("b.txt");
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [false, false], "only a.txt was named");
    with_a_rename(w, "both");
    w.apply(&["both", "--files", "a.txt", "--files", "b.txt"]).ok();
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [false, true]);
    assert_eq!(w.read("other"), "other\n");
}

fn hunks_of_a_rename_are_the_hunks_that_were_named(w: &World) {
    with_a_rename(w, "s");
    w.apply(&["s", "--hunks", "b.txt:1"]).ok().says("half of a rename").says("a.txt");
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [true, true], "only b.txt was named");
    assert!(w.read("b.txt").contains("\nfive\n") && !w.read("b.txt").contains("fiftyfive"), "{}", w.read("b.txt"));
    w.apply(&["s"]).ok();
    assert!(w.read("b.txt").contains("\nfive\n") && w.read("b.txt").contains("\nfiftyfive\n"), "{}", w.read("b.txt"));
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [false, true]);
}

fn a_rename_is_taken_apart_by_what_protects_one_half(w: &World) {
    with_a_rename(w, "keeps");
    w.apply(&["keeps", "--exclude", "a.txt"]).ok().says("half of a rename").says("a.txt");
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [true, true], "everything but the deletion");
    with_a_rename(w, "leaves");
    w.apply(&["leaves", "--exclude", "b.txt"]).ok().says("half of a rename").says("b.txt");
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [false, false], "everything but the addition");
    with_a_rename(w, "skips");
    w.apply(&["skips", "--skip", "a.txt"]).ok().says("left for later: a.txt");
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [true, true]);
    with_a_rename(w, "denies");
    w.outside(r#"printf '[policy]\ndeny = ["a.txt"]\n' > .whatif.toml"#).ok();
    w.apply(&["denies"]).ok().says("denied by the policy: a.txt");
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [true, true]);
}

fn a_renamed_directory_is_taken_apart(w: &World) {
    w.outside("mkdir d; seq 20 > d/1; seq 30 > d/2").ok();
    w.sandbox_with("s", "mv d e");
    w.apply(&["s", "--files", "e"]).ok().says("half of a rename").says("d/1, d/2");
    assert_eq!(w.outside("ls d e").ok().text(), "d:\n1\n2\n\ne:\n1\n2");
}

fn a_merge_takes_the_named_half(w: &World) {
    w.outside("seq 20 > a; echo g > g").ok();
    let attempts = ["--attempt=one=mv a b", "--attempt=two=echo G > g"];
    w.race([&["--check", "true", "--name", "r"], attempts.as_slice()].concat()).exits(0);
    w.whatif(["race", "merge", "one", "two", "--files", "one=b", "--as", "both"]).go().ok();
    w.whatif(["race", "apply", "both", "--yes"]).go().ok();
    assert_eq!((exist(w, ["a", "b"]), w.read("g")), ([true, true], "G\n".to_owned()));
}

/// Otherwise nobody has its content.
fn where_realitys_version_stays_the_source_of_a_rename_stays(w: &World) {
    for ours in ["--ours=**", "--ours=b.txt"] {
        with_a_rename(w, "s");
        w.outside("echo mine > b.txt").ok();
        w.apply(&["s"]).exits(1);
        w.apply(&["s", ours]).ok();
        assert_eq!((exist(w, ["a.txt", "b.txt"]), w.read("b.txt").as_str()), ([true, true], "mine\n"), "{ours}");
        assert_eq!(w.read("other"), "other\nmore\n");
        w.apply(&["s"]).ok();
        assert_eq!(exist(w, ["a.txt", "b.txt"]), [true, true], "{ours}: it is settled");
        w.whatif(["rm", "s", "--yes"]).go().ok();
    }
}

/// The same where only the directory around the new name is in conflict.
fn where_a_directory_stays_away_the_sources_of_what_is_in_it_stay(w: &World) {
    // The directory may not have been chosen itself.
    for (backend, chosen) in [("overlay", "--files=**"), ("copy", "--files=**"), ("copy", "--files=*.txt")] {
        w.outside("rm -rf *; mkdir -p d/e f; echo a > a.txt; echo b > b.txt; echo c > f/c.txt").ok();
        w.whatif(["new", "s", "--backend", backend]).go().ok();
        w.exec("s", "chmod 750 d/e; mv a.txt d/e/new.txt; mv b.txt new.txt; mv f/c.txt d/e; rmdir f").ok();
        w.whatif(["diff", "s"]).go().ok();
        w.outside("rm -r d").ok();
        w.apply(&["s", "--all"]).exits(1);
        w.apply(&["s", chosen, "--ours=**"]).ok();
        let there = exist(w, ["a.txt", "f/c.txt", "b.txt", "new.txt", "d/e"]);
        assert_eq!(there, [true, true, false, true, false], "{backend} {chosen}");
        w.whatif(["rm", "s", "--yes"]).go().ok();
    }
}

fn a_rename_reviewed_in_part_is_taken_in_part(w: &World) {
    with_a_rename(w, "s");
    let mut terminal = Terminal::with_whatif(w, &["review", "s"]);
    terminal.expect("undecided");
    terminal.type_in("\raq");
    terminal.expect("1 in part");
    assert_eq!(terminal.ends(), 0);
    w.apply(&["s"]).ok();
    assert!(w.read("b.txt").contains("\nfive\n") && !w.read("b.txt").contains("fiftyfive"), "{}", w.read("b.txt"));
    assert_eq!(exist(w, ["a.txt", "b.txt"]), [false, true], "the rename was looked at as one");
}

/// `s` at the top and in `d`, both changed inside.
fn with_two_of_a_name(w: &World, sandbox: &str) {
    w.outside("rm -rf .whatif.toml d; mkdir d; echo s > s; echo s > d/s; echo n > n").ok();
    w.sandbox_with(sandbox, "echo S > s; echo S > d/s; echo N > n");
}

fn read(w: &World) -> [String; 3] {
    ["s", "d/s", "n"].map(|path| w.read(path).trim().to_owned())
}

fn a_leading_slash_is_the_top_of_the_project(w: &World) {
    for (number, pattern) in ["/s", "/s*"].into_iter().enumerate() {
        for option in ["--exclude", "--skip"] {
            let name = format!("by{option}{number}").replace("--", "-");
            with_two_of_a_name(w, &name);
            w.apply(&[&name, "--all", option, pattern]).ok();
            assert_eq!(read(w), ["s", "S", "N"], "{option} {pattern}");
        }
        let name = format!("by-policy{number}");
        with_two_of_a_name(w, &name);
        w.write(".whatif.toml", format!("[policy]\ndeny = ['{pattern}']\n"));
        w.apply(&[&name, "--all"]).ok().says("denied by the policy: s");
        assert_eq!(read(w), ["s", "S", "N"], "deny {pattern}");
        let name = format!("chosen{number}");
        with_two_of_a_name(w, &name);
        w.apply(&[&name, "--files", pattern]).ok();
        assert_eq!(read(w), ["S", "s", "n"], "--files {pattern}");
    }
    // An absolute path is one still.
    with_two_of_a_name(w, "absolute");
    w.apply(&["absolute", "--exclude", &w.project.join("d").display().to_string()]).ok();
    assert_eq!(read(w), ["S", "s", "N"]);
}

fn a_bare_name_protects_at_any_depth(w: &World) {
    for option in ["--exclude", "--skip"] {
        let name = format!("by{option}").replace("--", "-");
        with_two_of_a_name(w, &name);
        w.apply(&[&name, option, "s"]).ok();
        assert_eq!(read(w), ["s", "s", "N"], "{option}");
    }
    with_two_of_a_name(w, "by-policy");
    w.write(".whatif.toml", "[policy]\ndeny = ['s']\n");
    w.apply(&["by-policy", "--all"]).ok();
    assert_eq!(read(w), ["s", "s", "N"]);
    // What is chosen is the path that is named.
    with_two_of_a_name(w, "chosen");
    w.apply(&["chosen", "--files", "s"]).ok();
    assert_eq!(read(w), ["S", "s", "n"]);
    w.whatif(["undo", "--yes"]).go().ok();
    w.apply(&["chosen"]).ok();
    w.whatif(["undo", "--yes", "--skip", "s"]).go().ok();
    assert_eq!(read(w), ["S", "S", "n"], "an undo leaves both");
    w.race(["--check", "true", "--protect", "s", "--name", "r", "--attempt=deep=echo x > d/s"]).exits(1);
}

fn a_pattern_that_fits_nothing_is_a_mistake(w: &World) {
    with_two_of_a_name(w, "s");
    for wrong in [["--exclude", "typo"], ["--skip", "d/typo"], ["--exclude", "/typo"], ["--files", "typo"]] {
        w.apply(&[["s"].as_slice(), &wrong].concat()).fails_with_hint(2).says(wrong[1]);
        // One that fits does not make up for one that does not.
        w.apply(&["s", wrong[0], "n", wrong[0], wrong[1]]).fails_with_hint(2).says(wrong[1]);
    }
    assert_eq!(read(w), ["s", "s", "n"], "nothing was applied");
    // What is there and was not changed is as it was to be.
    w.outside("echo u > unchanged").ok();
    w.apply(&["s", "--exclude", "unchanged", "--exclude", "*.lock"]).ok();
    w.whatif(["undo", "--yes", "--skip", "n", "--skip", "typo"]).go().fails_with_hint(2).says("typo");
    assert_eq!(read(w), ["S", "S", "N"]);
}

fn what_is_neither_a_pattern_nor_a_name_is_a_mistake(w: &World) {
    with_two_of_a_name(w, "s");
    for wrong in ["[s", "d/[s", "[z-a]", "s\\"] {
        for option in ["--exclude", "--skip", "--files", "--ours", "--theirs"] {
            w.apply(&["s", option, wrong]).fails_with_hint(2).says(wrong).says("is not a pattern");
        }
    }
    assert_eq!(read(w), ["s", "s", "n"], "nothing was applied");
    w.apply(&["s"]).ok();
    w.whatif(["undo", "--yes", "--skip", "n", "--skip", "[s"]).go().fails_with_hint(2).says("'[s' is not a pattern");
    assert_eq!(read(w), ["S", "S", "N"]);
}

fn a_name_with_wildcards_in_it_is_that_name(w: &World) {
    let all = r"'a1' 'a[1]' '[b' 'c\'";
    let changed = || w.outside(&format!("grep -l new {all} || true")).ok().text().to_owned();
    w.outside(&format!("for f in {all}; do echo old > \"$f\"; done")).ok();
    w.sandbox_with("s", &format!("for f in {all}; do echo new > \"$f\"; done"));
    w.apply(&["s", "--files", "a[1]"]).ok();
    assert_eq!(changed(), "a[1]");
    w.apply(&["s", "--files", r"c\", "--exclude", "[b"]).ok();
    assert_eq!(changed(), "a[1]\nc\\");
    w.apply(&["s", "--files", "[b", "--files", "a[0-9]"]).ok();
    assert_eq!(changed(), "a1\na[1]\n[b\nc\\");
    // What protects keeps its wildcards, whatever names there are.
    w.sandbox_with("t", "echo newer > a1; echo newer > 'a[1]'; echo n > n");
    w.apply(&["t", "--exclude", "a[1]"]).ok();
    assert_eq!(w.outside("cat a1 'a[1]' n").ok().text(), "new\nnew\nn");
}

fn a_policy_that_can_never_fit_is_a_mistake(w: &World) {
    with_two_of_a_name(w, "s");
    for rule in ["deny = ['!s']", "ask = ['**/../s']"] {
        w.write(".whatif.toml", format!("[policy]\n{rule}\n"));
        w.apply(&["s", "--all"]).fails_with_hint(125).says("line 2: policy.");
    }
    assert_eq!(read(w), ["s", "s", "n"], "nothing was applied");
}

fn a_pattern_of_the_users_own_that_is_none_is_told_with_its_place(w: &World) {
    with_two_of_a_name(w, "s");
    let config = w.home.join(".config/whatif/config.toml");
    for (text, told) in [
        ("[policy]\nask = ['ok',\n'[s']\n", "line 3: policy.ask: '[s'"),
        ("[policy]\ndeny = ['[z-a]']\n", "line 2: policy.deny: '[z-a]'"),
        ("[policy.auto_approve]\npaths = ['x\\']\n", "line 2: policy.auto_approve.paths: 'x\\'"),
        ("[diff]\nignore = ['[n']\n", "line 2: diff.ignore: '[n'"),
    ] {
        w.write(&config, text);
        w.apply(&["s"]).fails_with_hint(125).says(&config.display().to_string()).says(told);
    }
    w.write(&config, "");
    assert_eq!(read(w), ["s", "s", "n"], "nothing was applied");
}

fn a_policy_about_lines_approves_nothing_without_lines(w: &World) {
    w.write(w.home.join(".config/whatif/config.toml"), "[policy.auto_approve]\nmax_files = 5\nmax_lines = 10\n");
    let texts = ["seq 12 > f", "printf 'a\\0' > f", "seq 5000 | tr '\\n' '\\r' > f", "head -c 5000 /dev/zero | tr '\\0' x > f"];
    for (n, script) in texts.iter().enumerate() {
        let name = format!("s{n}");
        w.sandbox_with(&name, script);
        let refused = w.whatif(["apply", &name]).go();
        assert!(refused.code != 0 && !w.project.join("f").exists(), "{script}: {refused:?}");
    }
    w.sandbox_with("few", "seq 9 > f; mkdir d; ln -s f d/l");
    w.whatif(["apply", "few"]).go().ok();
}

fn nothing_is_applied_into_a_masked_directory(w: &World) {
    w.outside("mkdir -p ~/.ssh; echo REAL > ~/.ssh/id_ed25519; seq 9 > a").ok();
    let inside =
        "mkdir -p ~/.ssh/d; echo evil > ~/.ssh/authorized_keys; echo evil > ~/.ssh/id_ed25519; echo evil > ~/.ssh/d/x; echo q >> a";
    w.sandbox_with("s", inside);
    let key = w.home.join(".ssh/authorized_keys");
    let named = key.display().to_string();
    for choice in [["--outside", "--risky"], ["--files", &named]] {
        w.apply(&[["s"].as_slice(), &choice].concat()).ok().says("hidden from the sandbox");
        assert!(!key.exists(), "{choice:?}");
    }
    assert_eq!(w.outside("cat ~/.ssh/id_ed25519; ls -A ~/.ssh; tail -n 1 a").ok().text(), "REAL\nid_ed25519\nq");
    // Where reality has nothing, there is nothing to protect: it needs its own approval, as ever.
    w.outside("rm -r ~/.ssh").ok();
    w.sandbox_with("t", "mkdir -p ~/.ssh; echo new > ~/.ssh/config");
    w.apply(&["t", "--outside", "--risky"]).ok();
    assert_eq!(w.outside("cat ~/.ssh/config").ok().text(), "new");
}

fn a_digest_is_of_what_is_left_to_apply(w: &World) {
    let digest = || w.json(["diff", "s"])["digest"].as_str().unwrap_or_default().to_owned();
    w.outside("seq 40 > a").ok();
    w.sandbox_with("s", "sed -i 's/^5$/X/; s/^35$/XX/' a");
    let all = digest();
    assert_eq!(digest(), all, "it is the same as long as the change is");
    w.apply(&["s", "--hunks", "a:1"]).ok();
    assert_ne!(digest(), all);
    let outcome = w.apply(&["s", "--digest", &all]);
    assert!(outcome.code != 0, "{outcome:?}");
    // What reality does meanwhile is merged, and the change stays what it is.
    let rest = digest();
    w.outside("sed -i s/^20$/mine/ a").ok();
    assert_eq!(digest(), rest);
    w.apply(&["s", "--digest", &rest]).ok();
    assert_eq!(w.outside("grep -c -e X -e mine a").ok().text(), "3");
}

fn a_path_from_here_is_not_one_from_the_top(w: &World) {
    with_two_of_a_name(w, "s");
    w.outside("echo real > s; echo real > d/s").ok();
    let bin = w.bin.display();
    w.outside(&format!("cd d; {bin} apply s --yes --files ./s --theirs ./s")).ok();
    assert_eq!((w.read("s"), w.read("d/s")), ("real\n".to_owned(), "S\n".to_owned()));
}

/// One option must not lead to the next refusal.
fn all_options_that_are_needed_are_named(w: &World) {
    w.outside("git init -q . && echo build > .gitignore && echo 1 > a").ok();
    w.sandbox_with("s", "echo evil >> ~/.bashrc; echo plain > ~/plain; mkdir build; echo x > build/x; echo all: > build/Makefile");
    let refused = w.apply(&["s"]);
    let said = format!("{refused:?}");
    assert!(said.contains(".bashrc; to take: --outside --risky"), "{said}");
    assert!(said.contains("plain; to take: --outside\\n"), "{said}");
    // A directory that is made for something in it is not left out.
    let plan = w.json(["apply", "s", "--risky", "--dry-run"]);
    assert_eq!((why(&plan, "build"), why(&plan, "build/x")), (Value::Null, json!("ignored")), "{plan}");
    w.apply(&["s", "--outside", "--risky"]).ok();
    assert_eq!(w.outside("cat ~/plain; tail -n 1 ~/.bashrc").ok().text(), "plain\nevil");
}

fn a_side_for_nothing_is_a_mistake(w: &World) {
    w.outside("echo a > a; echo b > b").ok();
    w.sandbox_with("s", "echo A > a");
    for side in ["--ours", "--theirs"] {
        w.apply(&["s", side, "misspelt"]).fails_with_hint(2).says("nothing that fits 'misspelt'");
        // A rule for whatever may come, and what is there but did not change.
        for pattern in ["*.lock", "b", "a"] {
            w.json(["apply", "s", side, pattern, "--dry-run"]);
        }
    }
}

fn a_name_after_the_patterns_is_pointed_out(w: &World) {
    w.outside("echo a > a; echo s > s").ok();
    w.sandbox_with("s", "echo A > a");
    w.sandbox_with("another", "echo other > a");
    // Also where a path is called that.
    for option in ["--files", "--exclude"] {
        let hint = format!("write the sandbox before {option}");
        w.apply(&[option, "a", "s"]).fails_with_hint(2).says(&hint);
        w.apply(&[option, "a", "s", "--dry-run"]).fails_with_hint(2).says(&hint);
    }
    assert_eq!(w.read("a"), "a\n");
    w.apply(&["--exclude", "./s"]).ok();
    assert_eq!(w.read("a"), "other\n");
}
