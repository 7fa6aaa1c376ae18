//! What a sandbox is not shown as it is, its own version of it notwithstanding: no rebase brings the real bytes in, and no export
//! carries them away.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use whatif_archive::{ArchiveError, Limits, Manifest, Options};
use whatif_e2e::{World, as_root, as_root_and_user, on_other_backends};
use whatif_overlay::Format;

as_root_and_user!(a_rebase_brings_no_real_bytes_in, an_export_carries_no_real_bytes_away, no_real_bytes_are_kept,);
on_other_backends!(a_rebase_brings_no_real_bytes_in, an_export_carries_no_real_bytes_away,);
as_root!(no_hash_of_a_password_comes_in_or_leaves, another_name_of_the_home_makes_no_difference,);

/// Settings with credentials, one of them behind a link; one without any; and a file that is masked by name.
fn prepare(w: &World) {
    w.write("../.npmrc", "registry=https://mirror.example/\n//mirror.example/:_authToken=canary\n");
    w.write("../dotfiles/gitconfig", "[user]\n\tname = Ann\n[http]\n\textraheader = canary\n");
    symlink("dotfiles/gitconfig", w.home.join(".gitconfig")).expect("the home is writable");
    w.write("../.pip/pip.conf", "[global]\nindex-url = https://mirror.example/simple\n");
    w.write("masked.txt", "one\ncanary\n");
    w.write("edited.txt", "1\n2\n3\n4\n5\n");
    let edit = "cd ~; for f in .npmrc dotfiles/gitconfig; do echo '# mine' >> $f; done; touch .pip/pip.conf; \
        cd project; echo mine > masked.txt; sed -i s/1/one/ edited.txt";
    let masked = w.project.join("masked.txt").display().to_string();
    let run = ["run", "--keep", "--quiet", "--name", "s", "--mask", &masked, "--", "/bin/sh", "-euc", edit];
    w.whatif(run).cwd(project(w)).go().ok();
}

/// Where only the project is copied, everything else is shown read-only: there the home has to be the project.
fn project(w: &World) -> &Path {
    let is_home_writable = w.inside("touch ~/probe").code == 0;
    if is_home_writable { &w.project } else { &w.home }
}

/// The user goes on working: signs in elsewhere, changes a setting.
fn go_on_outside(w: &World) {
    let script = "cd ~; echo '//other.example/:_authToken=canary' >> .npmrc; printf '[core]\\n\\teditor = canary\\n' >> .gitconfig; \
        printf 'extra-index-url = https://me:canary@other.example/simple\\n' >> .pip/pip.conf; \
        cd project; echo canary >> masked.txt; sed -i s/5/five/ edited.txt";
    w.outside(script).ok();
}

fn a_rebase_brings_no_real_bytes_in(w: &World) {
    prepare(w);
    go_on_outside(w);
    let said = w.whatif(["--json", "rebase", "s"]).go().json();
    let seen = w.exec("s", "cd ~; cat .npmrc .gitconfig dotfiles/gitconfig .pip/pip.conf project/*.txt").ok().stdout;
    assert!(!seen.contains("canary"), "{seen}\n{said:#}");
    assert_eq!(seen.matches("# mine").count(), 3, "the sandbox keeps what it wrote: {seen}");
    assert!(seen.contains("one\n2\n3\n4\nfive\n"), "everything else is merged: {seen}");
    let kept = said["kept"].to_string();
    assert!([".npmrc", "pip.conf", "dotfiles/gitconfig"].iter().all(|name| kept.contains(name)), "{said:#}");
}

fn an_export_carries_no_real_bytes_away(w: &World) {
    prepare(w);
    // What was touched in an earlier layer is in the archive as well.
    w.snapshot("s", "first");
    w.exec("s", "echo '# more' >> ~/.npmrc").ok();
    go_on_outside(w);
    w.json(["export", "s", "-o", "../s.whatif"]);
    assert_eq!(in_archive(w, "canary"), [] as [PathBuf; 0]);
    assert!(!in_archive(w, "# mine").is_empty(), "what the sandbox wrote is in it");
    // What was hidden is hidden where it arrives, and everything else is merged.
    w.whatif(["import", "../s.whatif", "--name", "t"]).args(["--project"]).args([project(w)]).go().ok();
    let seen = w.exec("t", "cat ~/.npmrc ~/.pip/pip.conf ~/project/masked.txt").ok().stdout;
    assert!(!seen.contains("canary"), "{seen}");
    w.whatif(["--json", "rebase", "t"]).go();
    let seen = w.exec("t", "cat ~/.npmrc ~/dotfiles/gitconfig ~/.pip/pip.conf ~/project/masked.txt").ok().stdout;
    assert!(!seen.contains("canary"), "{seen}");
    assert_eq!(w.exec("t", "cat ~/project/edited.txt").ok().stdout, "one\n2\n3\n4\nfive\n");
}

/// Unpacks the archive, and tells which of its files hold something.
fn in_archive(w: &World, wanted: &str) -> Vec<PathBuf> {
    let directory = w.dir.join("unpacked");
    w.mkdir(&directory);
    let marks = if w.is_root() { Format::Trusted } else { Format::User };
    let options = Options { marks, keep_owners: w.is_root(), limits: Limits::default() };
    let archive = File::open(w.home.join("s.whatif")).expect("it was written");
    let judge = |_: &Manifest| Ok::<_, ArchiveError>(());
    whatif_archive::read(archive, &directory, &options, judge, &mut |_| {}).expect("it is genuine");
    let found = holding(&directory, wanted);
    fs::remove_dir_all(&directory).expect("it is ours");
    found
}

/// The files below a directory that hold something. By the test itself, to which nothing is closed.
fn holding(directory: &Path, wanted: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("it can be listed").map(|entry| entry.expect("it can be listed")) {
        let (path, kind) = (entry.path(), entry.file_type().expect("it can be examined"));
        if kind.is_dir() {
            found.extend(holding(&path, wanted));
        } else if kind.is_file() {
            let bytes = fs::read(&path).expect("it can be read");
            found.extend(bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes()).then_some(path));
        }
    }
    found
}

/// Beside a sandbox they would wait for the next way out.
fn no_real_bytes_are_kept(w: &World) {
    prepare(w);
    w.whatif(["diff", "s"]).go().ok();
    w.snapshot("s", "first");
    w.exec("s", "rm ~/.npmrc; echo again > ~/project/masked.txt").ok();
    go_on_outside(w);
    w.whatif(["status", "s"]).go();
    assert_eq!(holding(&w.state, "canary"), [] as [PathBuf; 0]);
}

/// In a mount namespace of the test's own, /etc has some. Over fuse and in a copy, /etc is read-only.
fn no_hash_of_a_password_comes_in_or_leaves(w: &World) {
    let script = "set -e; mount -t tmpfs -o mode=755 none /mnt; cp -a /etc/. /mnt/; mount --move /mnt /etc
        echo 'somebody:$y$j9T$canary:19000:0:99999:7:::' >> /etc/shadow
        \"$0\" run -q --keep --name s --backend overlay -- sh -c 'echo \"eve:!:19000:0:99999:7:::\" >> /etc/shadow'
        sed -i s/19000/19001/ /etc/shadow
        \"$0\" export s -o ../s.whatif
        \"$0\" rebase s || true
        \"$0\" exec s -- cat /etc/shadow
        \"$0\" rm -y s";
    let unshare = ["--mount", "--propagation", "private", "/bin/sh", "-c", script];
    let outcome = w.program("/usr/bin/unshare").args(unshare).args([&w.bin]).go().ok();
    assert!(outcome.stdout.contains("eve:!:"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("canary"), "{}", outcome.stdout);
    assert_eq!(in_archive(w, "canary"), [] as [PathBuf; 0]);
}

/// A bind mount shows the home a second time. What is written there is written to another tree.
fn another_name_of_the_home_makes_no_difference(w: &World) {
    w.write("../.npmrc", "registry=https://mirror.example/\n//mirror.example/:_authToken=canary\n");
    let alias = w.dir.join("alias");
    w.mkdir(&alias);
    let script = "set -e; mount --bind ~ \"$1\"
        \"$0\" run -q --keep --name s --backend overlay -- sh -c 'echo \"# mine\" >> \"$0/.npmrc\"' \"$1\"
        echo '//other.example/:_authToken=canary' >> ~/.npmrc
        \"$0\" export s -o ../s.whatif
        \"$0\" rebase s || true
        \"$0\" exec s -- cat \"$1/.npmrc\"
        \"$0\" apply s --outside --yes || true
        \"$0\" rm -y s";
    let unshare = ["--mount", "--propagation", "private", "/bin/sh", "-c", script];
    let outcome = w.program("/usr/bin/unshare").args(unshare).args([&w.bin, &alias]).go().ok();
    assert!(outcome.stdout.contains("# mine") && !outcome.stdout.contains("canary"), "{}", outcome.stdout);
    assert_eq!(in_archive(w, "canary"), [] as [PathBuf; 0]);
    assert_eq!(w.read("../.npmrc").matches("canary").count(), 2, "reality's is not replaced by what was shown");
}
