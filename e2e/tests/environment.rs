//! What of the environment is carried inside, what is masked, and who may change that.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    secrets_are_dropped_listed_and_given_back_on_request,
    secrets_are_recognised_by_the_shape_of_their_value,
    further_paths_can_be_masked,
    a_path_to_be_hidden_counts_from_here,
    masked_paths_can_be_exposed,
    the_users_configuration_masks_and_exposes,
    a_project_may_tighten,
    what_a_project_hides_counts_from_the_project,
    a_project_may_not_loosen,
    git_knows_who_commits_and_nothing_else,
    any_umask_is_carried_and_hinders_nothing,
    inside_a_sandbox_no_state_directory_is_made,
);

const SECRET: &str = "canary-feed-0815";

fn secrets_are_dropped_listed_and_given_back_on_request(w: &World) {
    let keep = ["run", "--keep", "--name", "env", "--", "/bin/sh", "-c", "echo \"[$MY_TOKEN][$PLAIN]\""];
    let outcome = w.whatif(keep).env("MY_TOKEN", SECRET).env("PLAIN", "p").go().ok();
    assert_eq!(outcome.text(), "[][p]");
    let dropped = w.json(["show", "env"])["details"]["dropped_env"].clone();
    assert!(dropped.as_array().expect("a list").iter().any(|n| n == "MY_TOKEN"), "{dropped}");
    assert!(w.whatif(["show", "env"]).go().ok().stdout.contains("MY_TOKEN"), "a person sees it as well");

    let given =
        ["run", "--rm", "-q", "--env", "MY_TOKEN", "--env", "SET=value", "--", "/bin/sh", "-c", "echo \"[$MY_TOKEN][$SET]\""];
    assert_eq!(w.whatif(given).env("MY_TOKEN", SECRET).go().ok().text(), format!("[{SECRET}][value]"));
}

fn secrets_are_recognised_by_the_shape_of_their_value(w: &World) {
    let values = ["ghp_0123456789abcdefghijABCDEFGHIJ", "postgres://app:hunter2@db/prod", "-----BEGIN OPENSSH PRIVATE KEY-----"];
    for value in values {
        let outcome = w.whatif(["run", "--rm", "-q", "--", "/usr/bin/env"]).env("HARMLESS", value).go().ok();
        assert!(!outcome.stdout.contains("HARMLESS"), "{value} was carried");
    }
}

fn further_paths_can_be_masked(w: &World) {
    w.write(w.home.join("diary/today"), SECRET);
    w.write("private.txt", SECRET);
    let project_file = w.project.join("private.txt").display().to_string();
    let script = "cat ~/diary/today private.txt 2>/dev/null; echo end";
    let outcome =
        w.whatif(["run", "--rm", "-q", "--mask", "~/diary", "--mask", &project_file, "--", "/bin/sh", "-c", script]).go().ok();
    assert_eq!(outcome.text(), "end");
    assert_eq!(w.inside("cat ~/diary/today").ok().text(), SECRET, "without a mask it is seen");
}

fn masked_paths_can_be_exposed(w: &World) {
    w.write(w.home.join(".ssh/config"), "Host x");
    w.write(w.home.join(".aws/credentials"), SECRET);
    let script = "cat ~/.ssh/config; cat ~/.aws/credentials 2>/dev/null; true";
    let outcome = w.whatif(["run", "--rm", "-q", "--expose", "~/.ssh", "--", "/bin/sh", "-c", script]).go().ok();
    assert_eq!(outcome.stdout, "Host x", "what was named, and nothing else");
}

fn the_users_configuration_masks_and_exposes(w: &World) {
    w.configure("[files]\nmask = [\"~/diary\"]\nexpose = [\"~/.ssh\"]\n[environment]\nkeep = [\"MY_TOKEN\"]\ndrop = [\"PLAIN\"]\n");
    w.write(w.home.join("diary/today"), SECRET);
    w.write(w.home.join(".ssh/config"), "Host x");
    let script = "cat ~/diary/today 2>/dev/null; cat ~/.ssh/config; echo \"[$MY_TOKEN][$PLAIN]\"";
    let outcome = w.whatif(["run", "--rm", "-q", "--", "/bin/sh", "-c", script]).env("MY_TOKEN", "t").env("PLAIN", "p").go().ok();
    assert_eq!(outcome.text(), "Host x[t][]");
}

fn a_project_may_tighten(w: &World) {
    w.write(".whatif.toml", "[files]\nmask = [\"~/diary\"]\n[environment]\ndrop = [\"PLAIN\"]\n[network]\nmode = \"none\"\n");
    w.write(w.home.join("diary/today"), SECRET);
    let outcome = w
        .whatif(["run", "--rm", "-q", "--", "/bin/sh", "-c", "cat ~/diary/today 2>/dev/null; echo \"[$PLAIN]\""])
        .env("PLAIN", "p")
        .go()
        .ok();
    assert_eq!(outcome.text(), "[]");
}

fn what_a_project_hides_counts_from_the_project(w: &World) {
    w.write(".whatif.toml", "[files]\nmask = [\".env\", \"config/keys\"]\n");
    w.write(".env", SECRET);
    w.write("config/keys/one", SECRET);
    w.write("config/plain", "plain");
    w.write(w.home.join(".env"), "home's");
    let script = "cat .env config/keys/one 2>/dev/null; cat config/plain ~/.env";
    let run = |directory: &str| w.whatif(["run", "--rm", "-q", "--cwd", directory, "--", "/bin/sh", "-c"]);
    assert_eq!(run(".").args([script]).go().ok().text(), "plainhome's");
    assert_eq!(run("config").args([&format!("cd ..; {script}")]).go().ok().text(), "plainhome's");
    for nothing in ["*.pem", "~", "..", "."] {
        w.write(".whatif.toml", format!("[files]\nmask = [\"{nothing}\"]\n"));
        w.whatif(["run", "--rm", "-q", "--", "true"]).go().exits(125).says("files.mask");
    }
}

/// HX-10: what runs in a project can write this file, so it must not open anything.
fn a_project_may_not_loosen(w: &World) {
    w.write(w.home.join(".ssh/id"), SECRET);
    let loosening = [
        "[files]\nexpose = [\"~/.ssh\"]\n",
        "[environment]\nkeep = [\"MY_TOKEN\"]\n",
        "[network]\nmode = \"host\"\n",
        "[files]\nwritable = [\"/etc\"]\n",
        "[layers]\nbackend = \"copy\"\n",
    ];
    for text in loosening {
        w.write(".whatif.toml", text);
        let outcome = w
            .whatif(["run", "--rm", "--", "/bin/sh", "-c", "cat ~/.ssh/id; echo $MY_TOKEN; echo ran"])
            .env("MY_TOKEN", SECRET)
            .go();
        let outcome = outcome.fails_with_hint(125).says(".whatif.toml");
        assert!(!outcome.stdout.contains("ran") && !outcome.stdout.contains(SECRET), "{text}");
    }
}

fn git_knows_who_commits_and_nothing_else(w: &World) {
    needs!(w, "git");
    let config = format!(
        "[user]\n\tname = Ann Example\n\temail = ann@example.org\n[credential]\n\thelper = store\n[http]\n\textraHeader = \"Authorization: {SECRET}\"\n\
         [url \"https://x:{SECRET}@github.com/\"]\n\tinsteadOf = gh:\n"
    );
    w.write(w.home.join(".gitconfig"), config);
    w.write(w.home.join(".git-credentials"), format!("https://ann:{SECRET}@github.com\n"));
    w.outside("git init -q .").ok();
    let script = "echo x > f && git add f && git commit -qm m && git log -1 --format='%an <%ae>'; git config --list --global; cat ~/.gitconfig ~/.git-credentials 2>/dev/null; true";
    let outcome = w.inside(script).ok();
    assert!(outcome.stdout.starts_with("Ann Example <ann@example.org>\n"), "{} {}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stdout.contains(SECRET), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("helper"), "{}", outcome.stdout);
}

/// A path on the command line counts from where one stands, as everywhere else.
fn a_path_to_be_hidden_counts_from_here(w: &World) {
    w.write("deep/.env", "SECRET=1");
    w.write("token", "t0ken");
    let show = ["--", "/bin/sh", "-c", "cat deep/.env token 2>&1; true"];
    let run = |options: &[&str]| w.whatif(["run", "--rm", "-q"]).args(options).args(show).go().ok().stdout;
    for mask in ["deep/.env", "./deep/.env", "../project/deep/.env"] {
        let seen = run(&["--mask", mask]);
        assert!(!seen.contains("SECRET") && seen.contains("t0ken"), "{mask}: {seen}");
    }
    let seen = run(&["--secret", "T=@../project/token", "--for", "api.example.com"]);
    assert!(seen.contains("SECRET") && !seen.contains("t0ken"), "{seen}");
    w.whatif(["run", "--mask", ".", "--", "true"]).go().fails_with_hint(2);
}

/// A umask may take away what the owner needs of the files that whatif makes for itself.
fn any_umask_is_carried_and_hinders_nothing(w: &World) {
    for umask in ["0777", "0700", "0402", "0022"] {
        w.outside("rm -rf .[!.]* *; echo old > f; rm -rf \"$WHATIF_HOME\"; mkdir \"$WHATIF_HOME\"").ok();
        let under = |arguments: &[&str]| {
            let call = w.program("/bin/sh").args(["-c", "umask $0; exec \"$@\"", umask]).args([&w.bin]);
            call.args(arguments).go()
        };
        let script = "umask; umask 022; echo new > f; mkdir -p d/e; echo g > d/e/g";
        assert_eq!(under(&["run", "-q", "--name", "s", "--", "/bin/sh", "-c", script]).ok().text(), umask);
        under(&["new", "t"]).ok();
        assert_eq!(under(&["exec", "t", "--", "/bin/sh", "-c", "umask"]).ok().text(), umask);
        under(&["snapshot", "s"]).ok();
        assert!(under(&["diff", "s"]).ok().stdout.contains("d/e/g"));
        under(&["apply", "s", "--yes"]).ok();
        assert_eq!((w.read("f"), w.read("d/e/g")), ("new\n".to_owned(), "g\n".to_owned()));
        under(&["undo", "--yes"]).ok();
        assert_eq!(w.read("f"), "old\n");
        under(&["rm", "--all", "--yes"]).ok();
        w.assert_nothing_left();
    }
}

fn inside_a_sandbox_no_state_directory_is_made(w: &World) {
    let bin = w.bin.display();
    for script in
        ["{} ls", "{} run -- true", "{} new x", "WHATIF_HOME=$PWD/.state {} gc", "mkdir .state; WHATIF_HOME=$PWD/.state {} ls"]
    {
        let script = script.replace("{}", &bin.to_string());
        let outcome = w.whatif(["run", "--quiet", "--keep", "--name", "outer", "--", "/bin/sh", "-c", &script]).go();
        assert!(!outcome.stderr.contains("sandboxes are kept in"), "{}", outcome.stderr);
        outcome.fails_with_hint(2).says("this already is the sandbox 'outer'");
        let changes = w.json(["diff", "outer"]);
        let changed = changes["changes"].as_array().expect("a list").iter().filter(|change| change["kind"] != "directory");
        assert!(changed.clone().all(|change| change["path"] == ".state"), "{script}: {changes:#}");
        w.whatif(["rm", "outer"]).go().ok();
    }
}
