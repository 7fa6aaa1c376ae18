//! Patches against the real `git apply` and `git diff`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod scratch;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;

use proptest::prelude::*;
use scratch::Scratch;
use whatif_patch::{Side, similarity, write_patch};

const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_000;

#[derive(Clone, PartialEq, Eq)]
struct Entry {
    mode: u32,
    content: Vec<u8>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:o} {:?}", self.mode, self.content.escape_ascii().to_string())
    }
}

/// Paths and what is there.
type Tree = BTreeMap<Vec<u8>, Entry>;

/// One file of a random change: where it is before and after, if it is.
#[derive(Debug, Clone)]
struct Change {
    before: Option<(Vec<u8>, Entry)>,
    after: Option<(Vec<u8>, Entry)>,
}

impl Change {
    fn write(&self, out: &mut Vec<u8>) {
        let rename = match (&self.before, &self.after) {
            (Some((from, old)), Some((to, new))) if from != to => Some(similarity(&old.content, &new.content)),
            _ => None,
        };
        write_patch(out, self.before.as_ref().map(side), self.after.as_ref().map(side), rename).unwrap();
    }
}

fn side((path, entry): &(Vec<u8>, Entry)) -> Side<'_> {
    Side { path, mode: entry.mode, content: &entry.content }
}

fn write_tree(root: &Path, tree: &Tree) {
    for (path, entry) in tree {
        let path = root.join(OsStr::from_bytes(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if entry.mode == LINK {
            symlink(OsStr::from_bytes(&entry.content), &path).unwrap();
        } else {
            fs::write(&path, &entry.content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode & 0o777)).unwrap();
        }
    }
}

fn read_tree(root: &Path, below: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(below).unwrap().map(Result::unwrap).filter(|entry| entry.file_name() != ".git") {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            read_tree(root, &path, tree);
            continue;
        }
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let found = if kind.is_symlink() {
            Entry { mode: LINK, content: fs::read_link(&path).unwrap().into_os_string().into_vec() }
        } else {
            let mode = if entry.metadata().unwrap().permissions().mode() & 0o100 != 0 { PROGRAM } else { FILE };
            Entry { mode, content: fs::read(&path).unwrap() }
        };
        tree.insert(name, found);
    }
}

fn apply(dir: &Scratch, patch: &[u8], extra: &[&str]) -> Tree {
    let mut git = dir.git();
    git.args(["apply", "--binary", "--whitespace=nowarn"]).args(extra).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = git.spawn().unwrap();
    child.stdin.take().unwrap().write_all(patch).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(patch));
    let mut tree = Tree::new();
    read_tree(dir.path(), dir.path(), &mut tree);
    tree
}

fn without_modes(tree: Tree) -> Tree {
    tree.into_iter().map(|(path, entry)| (path, Entry { mode: 0, ..entry })).collect()
}

fn differences(found: &Tree, wanted: &Tree) -> String {
    let paths: BTreeSet<_> = found.keys().chain(wanted.keys()).filter(|path| found.get(*path) != wanted.get(*path)).collect();
    paths.iter().map(|path| format!("{}: {:?}, not {:?}\n", path.escape_ascii(), found.get(*path), wanted.get(*path))).collect()
}

const NAMES: &[&[u8]] = &[
    b"plain",
    b"a b",
    b" lead",
    b"trail ",
    b"two  blanks ",
    b"tab\there",
    b"line\nend",
    b"cr\r",
    b"quote\"d",
    b"back\\slash",
    "größe".as_bytes(),
    b"\xff\xfe",
    b"bell\x07 and \x1b",
    b"del\x7f",
    b"-dash",
    b"a/b",
    b"b/ b/b",
    b"deep/er/f",
    b"dev/null",
    b"'single' $(x)",
    "変更 \u{202e}".as_bytes(),
];

fn text() -> impl Strategy<Value = Vec<u8>> {
    "(a\n|b\n|c\r\n|\n|--- x\n|\\+\\+\\+ y\n|@@ -1 \\+1 @@\n|diff --git a/x b/x\n|\\\\ No\n| z \t\n|é\r){0,30}(end|end\r)?"
        .prop_map(String::into_bytes)
}

/// A longer text and a version of it with a few places changed.
fn edited() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    (10usize..60, prop::collection::vec(0usize..60, 0..4), any::<bool>()).prop_map(|(count, places, ended)| {
        let mut lines: Vec<String> = (0..count).map(|n| format!("line {n}\n")).collect();
        let before = lines.concat().into_bytes();
        places.iter().filter(|&&at| at < count).for_each(|&at| lines[at] = format!("changed {at}\n\n"));
        let mut after = lines.concat().into_bytes();
        if !ended {
            after.pop();
        }
        (before, after)
    })
}

fn binary() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300).prop_map(|mut bytes| {
        bytes.insert(bytes.len() / 2, 0);
        bytes
    })
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => text(), 1 => Just(Vec::new()), 2 => binary()]
}

fn contents() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    prop_oneof![3 => edited(), 3 => (content(), content()), 1 => content().prop_map(|same| (same.clone(), same))]
}

fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(FILE), 2 => Just(PROGRAM), 1 => Just(LINK)]
}

fn entry(mode: u32, content: Vec<u8>) -> Entry {
    if mode != LINK {
        return Entry { mode, content };
    }
    // A link cannot hold a NUL, nor nothing.
    let mut target: Vec<u8> = content.into_iter().filter(|&byte| byte != 0).take(200).collect();
    target.push(b'x');
    Entry { mode, content: target }
}

/// Some of the names, each with its own change; what moves goes to a name no other change uses.
fn changes() -> impl Strategy<Value = Vec<Change>> {
    let one = (contents(), mode(), mode(), any::<bool>(), 0u8..10);
    prop::collection::vec(prop::option::of(one), NAMES.len()).prop_map(|all| {
        let named = NAMES.iter().zip(all).enumerate().filter_map(|(index, (name, one))| Some((index, name, one?)));
        named
            .map(|(index, name, ((old, new), old_mode, new_mode, keeps_mode, what))| {
                let before = entry(old_mode, old);
                let after = entry(if keeps_mode { old_mode } else { new_mode }, new);
                let moved = [format!("moved {index}/").as_bytes(), NAMES[(index + 7) % NAMES.len()]].concat();
                match what {
                    0 | 1 => Change { before: None, after: Some((name.to_vec(), after)) },
                    2 | 3 => Change { before: Some((name.to_vec(), before)), after: None },
                    4 | 5 => Change { before: Some((name.to_vec(), before)), after: Some((moved, after)) },
                    _ => Change { before: Some((name.to_vec(), before)), after: Some((name.to_vec(), after)) },
                }
            })
            .collect()
    })
}

fn trees(changes: &[Change]) -> (Tree, Tree) {
    (changes.iter().filter_map(|one| one.before.clone()).collect(), changes.iter().filter_map(|one| one.after.clone()).collect())
}

fn patch(changes: &[Change]) -> Vec<u8> {
    let mut out = Vec::new();
    changes.iter().for_each(|change| change.write(&mut out));
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn git_apply_gives_the_tree_after_and_back(changes in changes()) {
        let patch = patch(&changes);
        let (before, after) = trees(&changes);
        if !patch.is_empty() {
            let dir = Scratch::new();
            write_tree(dir.path(), &before);
            prop_assert_eq!(differences(&apply(&dir, &patch, &[]), &after), "");
            // Backwards, git forgets the mode of its own "deleted file mode" lines.
            let back = apply(&dir, &patch, &["--reverse"]);
            prop_assert_eq!(differences(&without_modes(back), &without_modes(before)), "");
        }
    }
}

fn at(path: &[u8], mode: u32, content: &[u8]) -> Option<(Vec<u8>, Entry)> {
    Some((path.to_vec(), Entry { mode, content: content.to_vec() }))
}

/// Byte by byte what git itself writes, for one change of every kind. The lines are numbers, in which git sees no function
/// to name in a hunk's header.
#[test]
fn patches_are_spelled_as_git_spells_them() {
    let lines: String = (0..40).map(|n| format!("{n}\n")).collect();
    let edited = lines.replace("\n7\n", "\n70\n71\n").replace("\n30\n", "\n");
    let mut kinds = vec![
        (at(b"f", FILE, b"1\n2\n"), None),
        (None, at(b"f", PROGRAM, b"1\n2")),
        (None, at(b"f", FILE, b"")),
        (at(b"f", FILE, b""), None),
        (at(b"f", FILE, b""), at(b"f", FILE, b"1\n")),
        (at(b"f", FILE, b"1\n"), at(b"f", PROGRAM, b"1\n")),
        (at(b"f", FILE, b"1\n"), at(b"f", PROGRAM, b"1\r\n")),
        (at(b"f", FILE, lines.as_bytes()), at(b"f", FILE, edited.as_bytes())),
        (at(b"f", FILE, lines.as_bytes()), at(b"g h", FILE, lines.as_bytes())),
        (at(b"f", FILE, b"1\n2\n"), at(b"f", LINK, b"to")),
        (at(b"f", LINK, b"to"), at(b"f", PROGRAM, b"1\n")),
        (at(b"f", LINK, b"to"), at(b"f", LINK, b"elsewhere")),
    ];
    // Git marks even an unusual end of name; every odd name gets a text and an empty file.
    for name in NAMES {
        kinds.push((at(name, FILE, b"1\n"), at(name, FILE, b"2\n")));
        kinds.push((at(name, FILE, b"1\n"), at(&[b"z/", *name].concat(), PROGRAM, b"1\n")));
        kinds.push((None, at(name, FILE, b"")));
    }
    for (before, after) in kinds {
        let change = Change { before, after };
        let mut mine = Vec::new();
        change.write(&mut mine);
        let git = git_diff(&change);
        assert_eq!(without_numbers(&mine), String::from_utf8_lossy(&git));
    }
}

/// Where git says in which function a hunk is, we say which number it has.
fn without_numbers(patch: &[u8]) -> String {
    let patch = String::from_utf8_lossy(patch);
    let lines = patch.split_inclusive('\n').map(|line| match line.split_once(" @@ hunk ") {
        Some((position, _)) if position.starts_with("@@ -") => format!("{position} @@\n"),
        _ => line.to_owned(),
    });
    lines.collect()
}

fn git_diff(change: &Change) -> Vec<u8> {
    let (before, after) = trees(std::slice::from_ref(change));
    let dir = Scratch::new();
    run(&dir, &["init", "-q"]);
    let ids = [before, after].map(|tree| {
        for old in fs::read_dir(dir.path()).unwrap().map(Result::unwrap).filter(|entry| entry.file_name() != ".git") {
            let path = old.path();
            if old.file_type().unwrap().is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        write_tree(dir.path(), &tree);
        run(&dir, &["add", "-A", "."]);
        String::from_utf8(run(&dir, &["write-tree"])).unwrap().trim().to_owned()
    });
    run(&dir, &["diff", "--binary", "--full-index", "--histogram", "-M", &ids[0], &ids[1]])
}

fn run(dir: &Scratch, arguments: &[&str]) -> Vec<u8> {
    let output = dir.git().args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}
