//! What a stack started from: a chain of directories, joined, copied and gone on with.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use whatif_diff::base::{self, Bases, Made, NewBase};
use whatif_diff::watch::{self, LastLook};
use whatif_diff::{Base, Kind, Node, Reach, scan};

struct World(PathBuf);

impl World {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bases-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes down that a path started from these bytes.
    fn know(&self, chain: &[&str], path: &str, bytes: &str) {
        let node = Node { size: bytes.len() as u64, kind: Kind::File, ..Node::of(&self.0).unwrap().unwrap() };
        let new = NewBase::Content {
            path: path.into(),
            node,
            attributes: None,
            bytes: bytes.into(),
            reconciled: false,
            made: Made::Nothing,
        };
        self.load(chain).replace(vec![new], None).unwrap();
    }

    fn forget(&self, chain: &[&str], path: &str) {
        self.load(chain).replace(vec![NewBase::Forget { path: path.into() }], None).unwrap();
    }

    fn load(&self, chain: &[&str]) -> Bases {
        let chain: Vec<PathBuf> = chain.iter().map(|d| self.at(d)).collect();
        Bases::load_chain(&chain.iter().map(PathBuf::as_path).collect::<Vec<_>>(), None).unwrap()
    }

    /// The bytes that a path started from.
    fn start(&self, chain: &[&str], path: &str) -> Option<String> {
        let (state, base) = self.load(chain).start_of(Path::new(path), None, None, (0, 0)).unwrap();
        assert_eq!(base == Base::Kept, state.is_some());
        Some(fs::read_to_string(state?.at).unwrap())
    }

    fn join(&self, from: &[&str], to: &str) {
        let from: Vec<PathBuf> = from.iter().map(|d| self.at(d)).collect();
        base::join(&from.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &self.at(to)).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `one` was frozen, then `two`; `own` is written.
fn three(name: &str) -> World {
    let w = World::new(name);
    w.know(&["one"], "/r/only-one", "1");
    w.know(&["one"], "/r/all", "1");
    w.know(&["one"], "/r/forgotten", "1");
    w.know(&["one", "two"], "/r/all", "2");
    w.know(&["one", "two"], "/r/only-two", "2");
    w.forget(&["one", "two"], "/r/forgotten");
    w.know(&["one", "two", "own"], "/r/all", "3");
    w
}

const ALL: [&str; 3] = ["one", "two", "own"];
const PATHS: [&str; 4] = ["/r/all", "/r/forgotten", "/r/only-one", "/r/only-two"];

#[test]
fn later_directories_replace_what_earlier_ones_say() {
    let w = three("chain");
    let starts = |chain: &[&str]| PATHS.map(|p| w.start(chain, p));
    let some = |s: &str| Some(s.to_owned());
    assert_eq!(starts(&ALL), [some("3"), None, some("1"), some("2")]);
    assert_eq!(starts(&["one", "two"]), [some("2"), None, some("1"), some("2")]);
    assert_eq!(starts(&["one", "never-made"]), [some("1"), some("1"), some("1"), None]);
}

#[test]
fn only_the_last_directory_is_written() {
    let w = World::new("own");
    w.know(&["one", "own"], "/r/f", "x");
    assert!(!w.at("one").exists());
    assert_eq!(w.start(&["own"], "/r/f").as_deref(), Some("x"));
}

#[test]
fn a_joined_chain_says_the_same() {
    let w = three("join");
    w.join(&ALL, "joined");
    assert_eq!(PATHS.map(|p| w.start(&["joined"], p)), PATHS.map(|p| w.start(&ALL, p)));
    // Of what lies below it too.
    w.join(&["two", "own"], "upper");
    assert_eq!(PATHS.map(|p| w.start(&["one", "upper"], p)), PATHS.map(|p| w.start(&ALL, p)));
    let links = fs::read_dir(w.at("joined")).unwrap().map(|e| e.unwrap().metadata().unwrap().nlink());
    assert!(links.filter(|n| *n > 1).count() >= 3, "bytes are shared, not copied");
    // It can be written like any other.
    w.know(&["joined"], "/r/all", "4");
    assert_eq!(w.start(&["joined"], "/r/all").as_deref(), Some("4"));
    assert_eq!(w.start(&["joined"], "/r/only-two").as_deref(), Some("2"));
    w.join(&["never-made"], "nothing");
    assert!(!w.at("nothing").exists());
}

#[test]
fn a_copy_goes_its_own_way() {
    let w = three("copy");
    base::copy(&w.at("one"), &w.at("copied")).unwrap();
    w.know(&["copied"], "/r/all", "other");
    assert_eq!(w.start(&["copied"], "/r/all").as_deref(), Some("other"));
    assert_eq!(w.start(&["copied"], "/r/only-one").as_deref(), Some("1"));
    assert_eq!(w.start(&["one"], "/r/all").as_deref(), Some("1"));
    base::copy(&w.at("never-made"), &w.at("nothing")).unwrap();
    assert!(!w.at("nothing").exists());
}

#[test]
fn a_record_that_comes_back_brings_its_own_bytes() {
    let w = three("again");
    let path = Path::new("/r/all");
    // Its number means other bytes in the directory it is written to.
    let earlier = w.load(&["one", "two"]).get(path).unwrap().clone();
    w.load(&ALL).replace(vec![NewBase::Again { record: earlier, there: None }], None).unwrap();
    assert_eq!(w.start(&ALL, "/r/all").as_deref(), Some("2"));
    // From nowhere: this one never started from it.
    let w2 = World::new("again-elsewhere");
    w2.know(&["own"], "/r/all", "mine");
    let foreign = w.load(&["one"]).get(path).unwrap().clone();
    w2.load(&["own"]).replace(vec![NewBase::Again { record: foreign, there: None }], None).unwrap();
    assert_eq!(w2.start(&["own"], "/r/all").as_deref(), Some("mine"));
}

#[test]
fn what_follows_a_line_cut_short_is_read() {
    let w = World::new("torn");
    w.know(&["own"], "/r/f", "1");
    w.know(&["own"], "/r/g", "2");
    let index = w.at("own/index");
    let bytes = fs::read(&index).unwrap();
    fs::write(&index, &bytes[..bytes.len() - 3]).unwrap();
    w.know(&["own"], "/r/h", "3");
    assert_eq!(["/r/f", "/r/g", "/r/h"].map(|p| w.start(&["own"], p)), [Some("1".into()), None, Some("3".into())]);
}

#[test]
fn what_an_older_layer_kept_is_not_kept_again() {
    let w = World::new("again-kept");
    for directory in ["reality", "head"] {
        fs::create_dir(w.at(directory)).unwrap();
    }
    fs::write(w.at("reality/f"), "before").unwrap();
    fs::write(w.at("head/f"), "after").unwrap();
    let look = |chain: &[&str]| {
        let mut bases = w.load(chain);
        let marks = whatif_overlay::Format::User;
        let trees = [whatif_diff::Tree { path: w.at("reality"), layers: vec![w.at("head")], marks, copied: false }];
        let made_at = (i64::MAX, 0);
        let found = scan(&whatif_diff::Scope::whole(&trees, &bases, made_at));
        bases.keep(&found.changes).unwrap();
        found.changes
    };
    look(&["one"]);
    look(&["one", "own"]);
    assert!(!w.at("own").exists());
    fs::write(w.at("reality/f"), "moved on").unwrap();
    let change = look(&["one", "own"]).pop().unwrap();
    assert_eq!(change.base, Base::Kept);
    assert_eq!(fs::read(change.before.unwrap().at).unwrap(), b"before");
}

#[test]
fn a_later_look_finds_what_came_since_and_nothing_else() {
    let w = World::new("since");
    for directory in ["reality/old/deep", "head/old/deep", "head/made/below"] {
        fs::create_dir_all(w.at(directory)).unwrap();
    }
    for file in ["reality/old/f", "reality/old/deep/f", "reality/old/deep/g", "head/old/f", "head/made/below/f"] {
        fs::write(w.at(file), file).unwrap();
    }
    let look = |reach: Reach<'_>| {
        let mut bases = w.load(&["own"]);
        let marks = whatif_overlay::Format::User;
        let trees = [whatif_diff::Tree { path: w.at("reality"), layers: vec![w.at("head")], marks, copied: false }];
        let made_at = (i64::MAX, 0);
        let scope = whatif_diff::Scope { reach, ..whatif_diff::Scope::whole(&trees, &bases, made_at) };
        let found = scan(&scope);
        bases.keep(&found.changes).unwrap();
        watch::remember(&w.at("own"), &found.directories).unwrap();
        let names: Vec<String> =
            found.changes.iter().map(|c| c.path.strip_prefix(w.at("reality")).unwrap().display().to_string()).collect();
        names.into_iter().filter(|n| !n.is_empty()).collect::<Vec<_>>()
    };
    let again = || look(Reach::News(&LastLook::remembered(&w.at("own"))));
    let in_heads = || watch::has_news(&w.at("own"), &[w.at("head")]);
    assert!(in_heads());
    assert_eq!(look(Reach::Whole), ["made", "made/below", "made/below/f", "old/f"]);
    assert!(!in_heads());
    assert_eq!(again(), ["made", "made/below"]);

    // A file in a directory that was looked at, one in a directory that came since, and one in what the sandbox made.
    fs::write(w.at("head/old/deep/g"), "changed").unwrap();
    fs::create_dir_all(w.at("head/old/new")).unwrap();
    fs::write(w.at("head/old/new/h"), "new").unwrap();
    fs::write(w.at("head/made/i"), "new").unwrap();
    assert!(in_heads());
    assert_eq!(again(), ["made", "made/below", "made/i", "old/deep/g", "old/f", "old/new", "old/new/h"]);
    assert!(!in_heads());
    let known = w.load(&["own"]);
    let is_known = |path: &str| known.get(&w.at("reality").join(path)).is_some();
    assert_eq!(["old/deep/g", "old/new", "made"].map(is_known), [true; 3]);
    // What lies in a directory that the sandbox made has no records of its own.
    assert_eq!(["made/i", "made/below", "old/new/h"].map(is_known), [false; 3]);

    // Everything is known again at the next look, whatever it left out.
    fs::remove_file(w.at("head/old/f")).unwrap();
    assert_eq!(again(), ["made", "made/below", "old/new"]);
    assert_eq!(look(Reach::Whole), ["made", "made/below", "made/below/f", "made/i", "old/deep/g", "old/new", "old/new/h"]);
}
