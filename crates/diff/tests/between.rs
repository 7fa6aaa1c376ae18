//! What leads from one position to another, as a patch and in the cases that chance does not make.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod overlay;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use overlay::acts::{Act, furnish, layers};
use overlay::{Stack, View, Who, apart, cases, is_apart, view};
use proptest::prelude::*;
use whatif_diff::digest::Form;
use whatif_diff::set::Options;
use whatif_diff::{Account, Bases, Blocked, Change, ChangeKind, ChangeSet, Depth, Found, Kind, Scope, State, Tree, between, scan};
use whatif_overlay::Format;
use whatif_patch::{Side, write_patch};

#[test]
fn a_patch_from_one_position_to_another_applies_to_a_checkout_of_the_first() {
    apart(Who::Root, "patches");
}

#[test]
#[ignore = "run by another test"]
fn patches() {
    assert!(is_apart());
    proptest!(cases(16), |(layers in layers())| check_patches(&layers));
}

fn check_patches(layers: &[Vec<Act>]) {
    let mut stack = Stack::new("patch", Format::Trusted);
    furnish(&stack.base());
    let mut positions: Vec<(Found, View)> = vec![(Found::default(), view(&stack.base()))];
    for acts in layers {
        stack.push_layer();
        acts.iter().for_each(|act| act.perform(&stack.mounted()));
        positions.push((stack.scan(stack.layers), view(&stack.mounted())));
    }
    let last = positions.len() - 1;
    for (from, to) in (1..=last).flat_map(|n| [(n - 1, n), (n, n - 1)]).chain([(0, last), (last, 0)]) {
        let found = between(&positions[from].0, &positions[to].0, true);
        let patch = patch(found, &stack.base());
        let checkout = stack.directory.join("checkout");
        check_out(&positions[from].1, &checkout);
        apply(&patch, &checkout);
        let (got, wanted) = (in_git(view(&checkout)), in_git(positions[to].1.clone()));
        assert_eq!(got, wanted, "{}", String::from_utf8_lossy(&patch));
        fs::remove_dir_all(&checkout).unwrap();
    }
}

/// With renames, as it is shown.
fn patch(found: Found, project: &Path) -> Vec<u8> {
    let (account, depth, form) = (Account::default(), Depth::Names, Form::Times);
    let options = Options {
        project,
        trees: &[],
        ignore: &[],
        account: &account,
        depth,
        form,
        seals: false,
        tracked: &HashSet::new,
        hidden: &Vec::new,
        written: &|_| None,
    };
    let set = ChangeSet::of(found, &options);
    let mut patch = Vec::new();
    for change in &set.changes {
        let path = change.path.strip_prefix(project).unwrap();
        let old_path = change.old_path().map_or(path, |p| p.strip_prefix(project).unwrap());
        let (before, after) = (content(change.before.as_ref()), content(change.after.as_ref()));
        if before == after && old_path == path {
            continue;
        }
        write_patch(&mut patch, side(old_path, &before), side(path, &after), change.similarity).unwrap();
    }
    patch
}

/// Git's mode and the bytes of a file or link; directories have neither.
fn content(state: Option<&State>) -> Option<(u32, Vec<u8>)> {
    let state = state?;
    match state.node.kind {
        Kind::File => Some((if state.node.mode & 0o100 != 0 { 0o100_755 } else { 0o100_644 }, fs::read(&state.at).unwrap())),
        Kind::Link => Some((0o120_000, state.target().unwrap().as_os_str().as_bytes().to_vec())),
        _ => None,
    }
}

fn side<'a>(path: &'a Path, content: &'a Option<(u32, Vec<u8>)>) -> Option<Side<'a>> {
    content.as_ref().map(|(mode, content)| Side { path: path.as_os_str().as_bytes(), mode: *mode, content })
}

/// As git would: an empty directory is none.
fn check_out(view: &View, to: &Path) {
    fs::create_dir(to).unwrap();
    for (path, shown) in view.iter().filter(|(_, s)| s.kind != Kind::Directory) {
        let at = to.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        if shown.kind == Kind::Link {
            symlink(OsStr::from_bytes(&shown.content), &at).unwrap();
        } else {
            fs::write(&at, &shown.content).unwrap();
            fs::set_permissions(&at, fs::Permissions::from_mode(shown.mode)).unwrap();
        }
    }
}

fn apply(patch: &[u8], checkout: &Path) {
    if patch.is_empty() {
        return;
    }
    let mut git = Command::new("git");
    git.args(["apply", "--binary", "-"]).current_dir(checkout).env("GIT_CEILING_DIRECTORIES", checkout.parent().unwrap());
    let mut git = git.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(patch).unwrap();
    let output = git.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(patch));
}

/// What git knows of a view: no directories, and one bit of the mode.
fn in_git(view: View) -> BTreeMap<PathBuf, (Kind, bool, Vec<u8>)> {
    let known = view.into_iter().filter(|(_, s)| s.kind != Kind::Directory);
    known.map(|(path, s)| (path, (s.kind, s.mode & 0o100 != 0, s.content))).collect()
}

/// Two heads over one reality, neither of them mounted.
struct Pair(PathBuf);

impl Pair {
    fn new(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("between-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        for name in ["base", "one", "two"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        Self(directory)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn scan(&self, head: &str, masked: &[PathBuf]) -> Found {
        let trees = [Tree { path: self.0.join("base"), layers: vec![self.0.join(head)], marks: Format::User, copied: false }];
        let (bases, made_at) = (Bases::default(), (i64::MAX, 0));
        scan(&Scope { masked, ..Scope::whole(&trees, &bases, made_at) })
    }

    /// `kind path`, from the first to the second.
    fn told(&self, masked: &[PathBuf], owners_matter: bool) -> Vec<String> {
        let changes = self.changes(masked, owners_matter);
        let relative = |c: &Change| c.path.strip_prefix(self.0.join("base")).unwrap().display().to_string();
        changes.iter().map(|c| format!("{:?} {}", c.kind, relative(c))).collect()
    }

    fn changes(&self, masked: &[PathBuf], owners_matter: bool) -> Vec<Change> {
        between(&self.scan("one", masked), &self.scan("two", masked), owners_matter).changes
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_both_did_and_what_neither_did_is_no_change() {
    let p = Pair::new("same");
    p.write("base/f", "reality");
    for head in ["one", "two"] {
        p.write(&format!("{head}/f"), "the same");
        p.write(&format!("{head}/new/g"), "the same");
    }
    assert!(p.told(&[], true).is_empty());
    p.write("two/f", "another");
    p.write("one/h", "only one");
    p.write("base/untouched", "x");
    p.write("two/untouched", "x");
    assert_eq!(p.told(&[], true), ["Modify f", "Delete h"]);
    let f = p.changes(&[], true).remove(0);
    assert_eq!(fs::read(f.before.unwrap().at).unwrap(), b"the same");
    assert_eq!(fs::read(f.after.unwrap().at).unwrap(), b"another");
}

#[test]
fn what_was_hidden_from_both_is_not_told_by_the_difference() {
    let p = Pair::new("hidden");
    p.write("base/secret", "of reality");
    p.write("two/secret", "made inside");
    let changes = p.changes(&[p.0.join("base/secret")], true);
    let [secret] = changes.as_slice() else { panic!("{changes:?}") };
    assert!(secret.before.is_none(), "the first was not shown reality's");
    assert_eq!((secret.kind, secret.blocked), (ChangeKind::Add, Some(Blocked::Masked)));
}

#[test]
fn pipes_are_shown_and_never_applied() {
    let p = Pair::new("special");
    rustix::fs::mknodat(rustix::fs::CWD, p.0.join("two/pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let changes = p.changes(&[], true);
    assert_eq!((changes[0].kind, changes[0].blocked), (ChangeKind::Special, Some(Blocked::Special)));
}

#[test]
fn owners_matter_to_whom_they_are_told_to() {
    if !rustix::process::geteuid().is_root() {
        return overlay::skip("only root can give a file away");
    }
    let p = Pair::new("owners");
    for head in ["one", "two"] {
        p.write(&format!("{head}/f"), "x");
    }
    chown(p.0.join("two/f"), Some(7), Some(7)).unwrap();
    assert_eq!(p.told(&[], true), ["Owner f"]);
    assert!(p.told(&[], false).is_empty());
}
