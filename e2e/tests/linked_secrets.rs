//! A mask holds at the real place of what it names, whatever links lie on the way, and by the name that was given.

use whatif_e2e::{World, as_root_and_user, on_other_backends};

as_root_and_user!(
    a_mask_across_a_linked_directory_holds_at_every_level,
    the_file_of_a_secret_is_hidden_across_links,
    a_project_masks_across_links,
    credentials_in_a_linked_directory_are_hidden,
    credentials_that_are_links_to_elsewhere_are_hidden,
    settings_across_links_are_shown_rewritten_and_never_applied,
    what_was_exposed_across_links_is_hidden_again,
    links_that_lead_in_circles_or_nowhere_are_no_obstacle,
    a_step_up_from_a_link_is_one_from_where_it_leads,
);
on_other_backends!(
    a_mask_across_a_linked_directory_holds_at_every_level,
    the_file_of_a_secret_is_hidden_across_links,
    a_project_masks_across_links,
    credentials_in_a_linked_directory_are_hidden,
    credentials_that_are_links_to_elsewhere_are_hidden,
    settings_across_links_are_shown_rewritten_and_never_applied,
    what_was_exposed_across_links_is_hidden_again,
    links_that_lead_in_circles_or_nowhere_are_no_obstacle,
    a_step_up_from_a_link_is_one_from_where_it_leads,
);

/// `real/a/b/deep` in the project, and ways to it: a link, a link to a link, one from within, and one at the end.
fn linked_project(w: &World) {
    for path in ["real/top", "real/a/middle", "real/a/b/deep", "beside"] {
        w.write(path, format!("canary of {path}\n"));
    }
    w.outside("set -e; ln -s real link; ln -s ./link/../link chain; ln -s b real/a/inner; ln -s a/b/deep real/last").ok();
}

/// Every file below the project, by every name.
const READ: &str = "find -L . -name .whatif.toml -o -type f -exec cat {} + 2> /dev/null | sort -u";

fn a_mask_across_a_linked_directory_holds_at_every_level(w: &World) {
    linked_project(w);
    let [top, middle, deep, beside] =
        ["real/top", "real/a/middle", "real/a/b/deep", "beside"].map(|path| format!("canary of {path}\n"));
    for (masked, hidden) in [
        ("link/top", vec![&top]),
        ("link/a/middle", vec![&middle]),
        ("link/a/b/deep", vec![&deep]),
        ("link/a/inner/deep", vec![&deep]),
        ("link/last", vec![&deep]),
        ("chain/a/b/deep", vec![&deep]),
        ("chain/a", vec![&deep, &middle]),
        ("link", vec![&deep, &middle, &top]),
    ] {
        let script = format!("{READ}; cat {masked}");
        let read = w.whatif(["run", "--rm", "--quiet", "--mask", masked, "--", "/bin/sh", "-c", &script]).go();
        let expected: String =
            [&beside, &deep, &middle, &top].into_iter().filter(|c| !hidden.contains(c)).map(String::as_str).collect();
        assert_eq!(read.stdout, expected, "{masked}: {}", read.stderr);
        assert_ne!(read.code, 0, "{masked} cannot be read by that name");
    }
}

fn the_file_of_a_secret_is_hidden_across_links(w: &World) {
    let keys = w.dir.join("keys");
    w.write(keys.join("a/b/token"), "canary\n");
    w.outside(&format!("ln -s {} ~/keys; ln -s a/b/token ~/keys/last", keys.display())).ok();
    for named in ["keys/a/b/token", "keys/last"] {
        let secret = format!("TOKEN=@{}", w.home.join(named).display());
        let script = format!("cat ~/{named} ~/keys/a/b/token {}/a/b/token 2> /dev/null; echo read", keys.display());
        let run = ["run", "--rm", "--quiet", "--secret", &secret, "--for", "http://host.example", "--", "/bin/sh", "-c", &script];
        assert_eq!(w.whatif(run).go().ok().stdout, "read\n", "{named}");
    }
}

fn a_project_masks_across_links(w: &World) {
    linked_project(w);
    w.write(".whatif.toml", "[files]\nmask = [\"link/a/b/deep\"]\n");
    assert_eq!(w.inside(READ).ok().stdout, "canary of beside\ncanary of real/a/middle\ncanary of real/top\n");
    // Nothing of it can be changed either.
    let name = w.new_sandbox("s");
    w.exec(&name, "set -e; mkdir -p real/a/b; echo other > real/a/b/deep; echo new > beside").ok();
    w.whatif(["apply", &name, "--all", "--yes"]).go();
    assert_eq!(w.read("real/a/b/deep"), "canary of real/a/b/deep\n");
}

/// As those have it who keep their settings in a repository.
fn credentials_in_a_linked_directory_are_hidden(w: &World) {
    for path in [
        "config/git/credentials",
        "config/git/config",
        "config/gh/hosts.yml",
        "config/containers/auth.json",
        "local/share/keyrings/login.keyring",
        "local/share/other",
    ] {
        w.write(w.home.join("dot").join(path), format!("canary of {path}\n"));
    }
    w.outside("set -e; rm -rf ~/.config ~/.local; ln -s dot/config ~/.config; ln -s dot/local ~/.local").ok();
    w.configure("");
    let read = "grep -rhs canary ~/dot ~/.config/ ~/.local/ | sort -u; readlink ~/.config";
    assert_eq!(w.inside(read).ok().stdout, "canary of local/share/other\ndot/config\n");
}

/// In neither the home nor the project.
fn credentials_that_are_links_to_elsewhere_are_hidden(w: &World) {
    let keys = w.dir.join("keys");
    for path in ["netrc", "ssh/id_ed25519", "other"] {
        w.write(keys.join(path), format!("canary of {path}\n"));
    }
    let keys = keys.display();
    w.outside(&format!("ln -s {keys}/netrc ~/.netrc; ln -s {keys}/ssh ~/.ssh")).ok();
    let read = format!("cat ~/.netrc ~/.ssh/id_ed25519 2> /dev/null; grep -rhs canary {keys}");
    assert_eq!(w.inside(&read).ok().stdout, "canary of other\n");
}

fn settings_across_links_are_shown_rewritten_and_never_applied(w: &World) {
    let real = "registry=https://mirror.example/\n//mirror.example/:_authToken=canary\n";
    w.write("dot/home/npmrc", real);
    w.outside(&format!("ln -s {}/dot ~/dot; ln -s dot/home/npmrc ~/.npmrc", w.project.display())).ok();
    let name = w.new_sandbox("s");
    let read = w.exec(&name, "cat ~/.npmrc dot/home/npmrc").ok().stdout;
    assert!(read.contains("mirror.example") && !read.contains("canary"), "{read}");
    w.exec(&name, "echo more >> dot/home/npmrc; echo new > beside").ok();
    w.whatif(["apply", &name, "--all", "--yes"]).go();
    assert_eq!(w.read("dot/home/npmrc"), real);
    // A mask by its real name hides it altogether.
    let masked = ["run", "--rm", "--quiet", "--mask", "dot/home/npmrc", "--", "/bin/sh", "-c", "cat ~/.npmrc dot/home/npmrc"];
    assert_eq!(w.whatif(masked).go().stdout, "");
}

fn what_was_exposed_across_links_is_hidden_again(w: &World) {
    linked_project(w);
    w.configure(format!("[files]\nmask = [\"{}/link/a/b/deep\"]\n", w.project.display()));
    let read = "cat real/a/b/deep 2> /dev/null; echo read";
    for exposed in ["link/a/b/deep", "."] {
        let exposed = if exposed == "." { w.project.display().to_string() } else { exposed.to_owned() };
        w.whatif(["new", "s", "--expose", &exposed]).go().ok();
        w.exec("s", "echo more >> real/a/b/deep").ok();
        assert_eq!(w.exec("s", read).ok().stdout, "canary of real/a/b/deep\nmore\nread\n", "{exposed}");
        w.whatif(["fork", "s", "fork"]).go().ok();
        assert_eq!(w.exec("fork", read).ok().stdout, "read\n", "{exposed}");
        w.whatif(["rm", "--all", "--yes"]).go().ok();
    }
}

fn links_that_lead_in_circles_or_nowhere_are_no_obstacle(w: &World) {
    w.outside("set -e; rm -rf ~/.local; ln -s .local ~/.local; ln -s nowhere/at/all ~/.docker; ln -s ../../absent ~/.netrc; echo > ~/.cargo").ok();
    assert_eq!(w.inside("echo ran").ok().stdout, "ran\n");
}

fn a_step_up_from_a_link_is_one_from_where_it_leads(w: &World) {
    w.write("other/token", "canary\n");
    w.outside("mkdir other/directory; ln -s other/directory link").ok();
    let options: [&[&str]; 2] = [&["--mask", "link/../token"], &["--secret", "T=@link/../token", "--for", "http://host.example"]];
    for named in options {
        let run = w.whatif(["run", "--rm", "--quiet"]).args(named).args(["--", "/bin/sh", "-c", "cat link/../token other/token"]);
        assert_eq!(run.go().stdout, "", "{named:?}");
    }
}
