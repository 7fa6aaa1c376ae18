//! What a sandbox makes of reality that was taken away and put back, and of directories whose place in reality has changed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use whatif_diff::base::{Bases, Made, NewBase};
use whatif_diff::{Base, Change, Node, Scope, Tree, scan};
use whatif_overlay::Format;

/// Reality, a head, and what is kept of the one for the other.
struct World(PathBuf);

impl World {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("whatif-again-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for part in ["reality", "head"] {
            fs::create_dir_all(dir.join(part)).unwrap();
        }
        Self(dir)
    }

    fn real(&self, path: &str) -> PathBuf {
        self.0.join("reality").join(path)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn whiteout(&self, path: &str) {
        mknodat(CWD, self.0.join("head").join(path), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }

    /// `from` was moved to `to` in the sandbox.
    fn rename(&self, from: &str, to: &str) {
        self.whiteout(from);
        fs::create_dir_all(self.0.join("head").join(to)).unwrap();
        for (mark, value) in [("redirect", from), ("origin", "")] {
            let name = format!("user.overlay.{mark}");
            setxattr(self.0.join("head").join(to), name, value.as_bytes(), XattrFlags::empty()).unwrap();
        }
    }

    fn bases(&self) -> Bases {
        Bases::load(&self.0.join("base")).unwrap()
    }

    fn scan(&self) -> Vec<Change> {
        let bases = self.bases();
        let trees = [Tree { path: self.0.join("reality"), layers: vec![self.0.join("head")], marks: Format::User, copied: false }];
        let made_at = (0, 0);
        scan(&Scope::whole(&trees, &bases, made_at)).changes
    }

    /// Looks, and keeps what was there.
    fn look(&self) {
        self.bases().keep(&self.scan()).unwrap();
    }

    /// `Delete path Reality`.
    fn told(&self) -> Vec<String> {
        let relative = |c: &Change| c.path.strip_prefix(self.0.join("reality")).unwrap().display().to_string();
        self.scan().iter().map(|c| format!("{:?} {} {:?}", c.kind, relative(c), c.base)).collect()
    }

    /// As an undo does: everything is there again, with the times of its files, under new inodes.
    fn take_away_and_put_back(&self, path: &str) {
        let (is, was) = (self.real(path), self.0.join("was"));
        fs::rename(&is, &was).unwrap();
        copy(&was, &is);
        remove(&was);
    }

    fn set_bases(&self, new: Vec<NewBase>) {
        self.bases().replace(new, None).unwrap();
    }
}

fn copy(from: &PathBuf, to: &PathBuf) {
    let metadata = from.symlink_metadata().unwrap();
    if metadata.is_symlink() {
        symlink(fs::read_link(from).unwrap(), to).unwrap();
    } else if metadata.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::copy(from, to).unwrap();
        File::options().write(true).open(to).unwrap().set_modified(metadata.modified().unwrap()).unwrap();
    }
}

fn remove(path: &PathBuf) {
    if path.symlink_metadata().unwrap().is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_was_put_back_is_what_the_sandbox_started_from() {
    let w = World::new("files");
    for path in ["text", "binary", "gone"] {
        w.write(&format!("reality/{path}"), if path == "text" { "t\n" } else { "a\0b" });
    }
    symlink("here", w.real("link")).unwrap();
    symlink("here", w.real("gone-link")).unwrap();
    w.write("head/text", "T\n");
    w.write("head/binary", "a\0c");
    symlink("there", w.0.join("head/link")).unwrap();
    w.whiteout("gone");
    w.whiteout("gone-link");
    w.look();
    for path in ["text", "binary", "gone", "link", "gone-link"] {
        w.take_away_and_put_back(path);
    }
    let expected = ["Modify binary", "Delete gone", "Delete gone-link", "Symlink link", "Modify text"];
    assert_eq!(w.told(), expected.map(|e| format!("{e} Reality")));
    // And what is other than before is not.
    for path in ["link", "gone-link"] {
        fs::remove_file(w.real(path)).unwrap();
        symlink("else", w.real(path)).unwrap();
    }
    for path in ["binary", "gone"] {
        w.write(&format!("reality/{path}"), "b\0a");
    }
    let expected = ["Modify binary Lost", "Delete gone Lost", "Delete gone-link Kept", "Symlink link Kept", "Modify text Reality"];
    assert_eq!(w.told(), expected);
}

#[test]
fn a_time_in_whole_seconds_proves_nothing() {
    let w = World::new("seconds");
    w.write("reality/f", "a\0b");
    let set = || File::options().write(true).open(w.real("f")).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(9)).unwrap();
    set();
    w.whiteout("f");
    w.look();
    // Another inode for certain.
    w.write("reality/other", "b\0a");
    fs::rename(w.real("other"), w.real("f")).unwrap();
    set();
    assert_eq!(w.told(), ["Delete f Lost"]);
}

#[test]
fn a_deleted_directory_that_was_put_back_is_the_same_only_with_all_that_was_in_it() {
    let w = World::new("directory");
    for path in ["x", "e/y", "e/f/z"] {
        w.write(&format!("reality/d/{path}"), path);
    }
    symlink("x", w.real("d/link")).unwrap();
    w.whiteout("d");
    w.look();
    w.take_away_and_put_back("d");
    let told = w.told();
    assert_eq!(told.len(), 7);
    assert!(told.iter().all(|t| t.ends_with(" Reality")), "{told:?}");
    fs::remove_file(w.real("d/link")).unwrap();
    symlink("y", w.real("d/link")).unwrap();
    let told = w.told();
    assert!(told.contains(&"Delete d/e/y Lost".to_owned()), "{told:?}");
}

#[test]
fn a_name_that_sorts_between_a_directory_and_its_content_belongs_to_neither() {
    let w = World::new("sorting");
    w.write("reality/d/x", "x");
    w.write("reality/d-x/y", "y");
    for path in ["d", "d-x"] {
        w.whiteout(path);
    }
    w.look();
    for path in ["d", "d-x"] {
        w.take_away_and_put_back(path);
    }
    assert_eq!(w.told(), ["Delete d", "Delete d-x", "Delete d-x/y", "Delete d/x"].map(|t| format!("{t} Reality")));
    w.write("reality/d/later", "l");
    let told = w.told();
    assert!(told.contains(&"Delete d/later Lost".to_owned()) && told.contains(&"Delete d-x/y Reality".to_owned()), "{told:?}");
}

#[test]
fn what_cannot_be_seen_through_a_renamed_directory_was_not_deleted() {
    let w = World::new("unseen");
    w.write("reality/d/x", "x");
    w.rename("d", "m");
    w.look();
    // As an apply does, before the sandbox is told.
    fs::rename(w.real("d"), w.real("m")).unwrap();
    assert!(!w.told().iter().any(|t| t.starts_with("Delete")), "{:?}", w.told());
    let made = NewBase::InPlace {
        path: w.real("m"),
        node: Node::of(&w.real("m")).unwrap().unwrap(),
        attributes: None,
        source: "d".into(),
    };
    w.set_bases(vec![made]);
    assert!(w.told().is_empty(), "{:?}", w.told());
    // Whatever is made at the old place, it is not what was renamed. The sandbox deleted the name, not this.
    w.write("reality/d/new", "n");
    assert_eq!(w.told(), ["Delete d Reality", "Delete d/new Lost"]);
    // What was renamed from elsewhere was never in place.
    w.write("reality/b/b", "b");
    fs::remove_dir(w.0.join("head/m")).unwrap();
    w.rename("b", "m");
    assert!(w.told().contains(&"Add m/b Reality".to_owned()), "{:?}", w.told());
}

#[test]
fn what_a_part_of_an_apply_took_out_of_a_renamed_directory_was_not_deleted() {
    let w = World::new("part");
    w.write("reality/d/x", "x");
    w.write("reality/d/y", "y");
    w.rename("d", "m");
    w.look();
    fs::create_dir(w.real("m")).unwrap();
    fs::rename(w.real("d/x"), w.real("m/x")).unwrap();
    let node = Node::of(&w.real("m/x")).unwrap().unwrap();
    w.set_bases(vec![NewBase::Identity {
        path: w.real("m/x"),
        node,
        attributes: None,
        hash: None,
        reconciled: false,
        equal_to: None,
        made: Made::Real,
    }]);
    assert_eq!(w.told(), ["Delete d Reality", "Delete d/y Reality", "Add m/y Reality"]);
}

#[test]
fn a_renamed_directory_whose_source_is_gone_is_not_silently_empty() {
    let w = World::new("lost");
    w.write("reality/d/x", "x");
    w.rename("d", "m");
    w.look();
    fs::remove_dir_all(w.real("d")).unwrap();
    for _ in 0..2 {
        let changes = w.scan();
        let change = changes.iter().find(|c| c.path == w.real("m")).unwrap();
        assert!(change.has_lost_its_source() && change.base == Base::Lost, "{change:?}");
        assert_eq!(change.old_path(), Some(w.real("d").as_path()));
        assert_eq!(changes.len(), 1);
        w.look();
        // Whatever else is there now.
        w.write("reality/m/other", "o");
    }
}
