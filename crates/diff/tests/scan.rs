//! What a scan makes of heads: every form in which a layer says something, and those that only look like one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "a skip says why")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use rustix::io::Errno;
use whatif_diff::base::Bases;
use whatif_diff::{Base, Blocked, Change, ChangeKind, Found, Scope, Tree, scan};
use whatif_overlay::Format;

/// A base, some layers, and a place for both.
struct World {
    dir: PathBuf,
    layers: usize,
    marks: Format,
    copied: bool,
    masked: Vec<PathBuf>,
    bases: Bases,
    made_at: (i64, u32),
}

impl World {
    fn new(name: &str, marks: Format) -> Self {
        Self::new_in(&std::env::temp_dir(), name, marks)
    }

    fn new_in(place: &Path, name: &str, marks: Format) -> Self {
        let dir = place.join(format!("whatif-scan-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("base")).unwrap();
        fs::create_dir_all(dir.join("0")).unwrap();
        // In the far future: what is in reality was there before, unless a test says otherwise.
        Self { dir, layers: 1, marks, copied: false, masked: Vec::new(), bases: Bases::default(), made_at: (i64::MAX, 0) }
    }

    /// Times in file systems move in ticks: what is made from here on is later than what was made before.
    fn wait_for_a_tick(&self) {
        let born = |name: &str| {
            let path = self.dir.join(name);
            let _ = fs::remove_file(&path);
            fs::write(&path, "").unwrap();
            fs::metadata(&path).unwrap().created().unwrap()
        };
        let before = born("before");
        while born("after") == before {
            std::thread::yield_now();
        }
    }

    fn base(&self, path: &str, content: &str) {
        write(&self.dir.join("base").join(path), content);
    }

    fn head(&self, path: &str, content: &str) {
        write(&self.dir.join("0").join(path), content);
    }

    fn layer(&mut self, number: usize) -> PathBuf {
        self.layers = self.layers.max(number + 1);
        let path = self.dir.join(number.to_string());
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn whiteout(&self, layer: usize, path: &str) {
        let path = self.dir.join(layer.to_string()).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }

    fn mark(&self, layer: usize, path: &str, name: &str, value: &str) {
        let path = self.dir.join(layer.to_string()).join(path);
        fs::create_dir_all(&path).unwrap();
        setxattr(&path, name, value.as_bytes(), XattrFlags::empty()).unwrap();
    }

    fn found(&self) -> Found {
        let layers = (0..self.layers).map(|l| self.dir.join(l.to_string())).collect();
        let trees = [Tree { path: self.dir.join("base"), layers, marks: self.marks, copied: self.copied }];
        let scope = Scope { masked: &self.masked, ..Scope::whole(&trees, &self.bases, self.made_at) };
        scan(&scope)
    }

    fn changes(&self) -> Vec<Change> {
        let found = self.found();
        assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
        found.changes
    }

    /// `A path`, sorted.
    fn told(&self) -> Vec<String> {
        let relative = |c: &Change| c.path.strip_prefix(self.dir.join("base")).unwrap().display().to_string();
        self.changes().iter().map(|c| format!("{:?} {}", c.kind, relative(c))).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn added_modified_deleted_and_untouched() {
    let w = World::new("kinds", Format::User);
    for path in ["same", "changed", "gone", "d/gone"] {
        w.base(path, "one\n");
    }
    w.head("same", "one\n");
    w.head("changed", "two\n");
    w.head("new/file", "x");
    w.whiteout(0, "gone");
    w.whiteout(0, "d");
    w.whiteout(0, "never-was");
    assert_eq!(w.told(), ["Modify changed", "Delete d", "Delete d/gone", "Delete gone", "Add new", "Add new/file"]);
}

#[test]
fn the_same_size_and_time_do_not_hide_a_change() {
    let w = World::new("times", Format::User);
    w.base("f", "aaaa");
    w.head("f", "bbbb");
    let time = fs::metadata(w.dir.join("base/f")).unwrap().modified().unwrap();
    fs::File::options().write(true).open(w.dir.join("0/f")).unwrap().set_modified(time).unwrap();
    assert_eq!(w.told(), ["Modify f"]);
}

#[test]
fn a_touched_file_is_no_change() {
    let w = World::new("touched", Format::User);
    w.base("f", "same");
    w.head("f", "same");
    fs::File::options().write(true).open(w.dir.join("0/f")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert!(w.told().is_empty());
}

#[test]
fn modes_links_types_and_attributes() {
    let w = World::new("attributes", Format::User);
    for path in ["mode", "xattr", "to-link", "to-directory"] {
        w.base(path, "x");
    }
    for path in ["mode", "xattr"] {
        w.head(path, "x");
    }
    symlink("here", w.dir.join("base/link")).unwrap();
    symlink("there", w.dir.join("0/link")).unwrap();
    fs::set_permissions(w.dir.join("0/mode"), fs::Permissions::from_mode(0o700)).unwrap();
    setxattr(w.dir.join("0/xattr"), "user.note", b"1", XattrFlags::empty()).unwrap();
    symlink("x", w.dir.join("0/to-link")).unwrap();
    fs::create_dir(w.dir.join("0/to-directory")).unwrap();
    assert_eq!(w.told(), ["Symlink link", "Mode mode", "Type to-directory", "Type to-link", "Xattr xattr"]);
}

#[test]
fn an_opaque_directory_hides_what_was_in_it() {
    let w = World::new("opaque", Format::User);
    w.base("d/old", "x");
    w.base("d/sub/older", "x");
    w.base("d/both", "x");
    w.head("d/both", "x");
    w.head("d/new", "x");
    w.mark(0, "d", "user.overlay.opaque", "y");
    assert_eq!(w.told(), ["Add d/new", "Delete d/old", "Delete d/sub", "Delete d/sub/older"]);
}

#[test]
fn only_the_marks_of_the_own_mount_are_believed() {
    let w = World::new("forged", Format::Trusted);
    w.base("d/old", "x");
    w.head("d/.wh.old", "a file like any other");
    w.mark(0, "d", "user.overlay.opaque", "y");
    assert_eq!(w.told(), ["Xattr d", "Add d/.wh.old"]);
}

#[test]
fn fuse_has_its_own_marks() {
    let w = World::new("fuse", Format::Fuse);
    w.base("gone", "x");
    w.base("d/old", "x");
    w.whiteout(0, "gone");
    w.head("d/.wh..wh..opq", "");
    w.whiteout(0, "d/.wh..opq");
    w.mark(0, "d", "user.fuseoverlayfs.opaque", "y");
    assert_eq!(w.told(), ["Delete d/old", "Delete gone"]);
}

#[test]
fn what_a_program_can_make_is_no_mark_of_fuse() {
    let w = World::new("fuse-forged", Format::Fuse);
    w.base(".git/config", "x");
    w.base("d/old", "x");
    w.base("e/old", "x");
    w.base("unseen", "reality has a mark of its own for this one");
    w.base(".wh.unseen", "");
    w.head(".wh..git", "");
    w.head("d/.wh..wh..opq", "");
    w.head("unseen", "so this was made anew");
    w.mark(0, "e", "user.overlay.opaque", "y");
    assert_eq!(w.told(), ["Add .wh..git", "Add d/.wh..wh..opq", "Xattr e", "Add unseen"]);
    assert!(w.changes().iter().any(|c| c.path.ends_with("unseen") && c.blocked == Some(Blocked::Masked)));
}

#[test]
fn a_renamed_directory_is_where_it_came_from_and_where_it_went() {
    let w = World::new("redirect", Format::User);
    w.base("from/deep/file", "x");
    w.base("from/edited", "one\n");
    w.head("to/edited", "two\n");
    w.mark(0, "to", "user.overlay.redirect", "/from");
    w.whiteout(0, "from");
    let told = w.told();
    assert_eq!(
        told,
        [
            "Delete from",
            "Delete from/deep",
            "Delete from/deep/file",
            "Delete from/edited",
            "Add to",
            "Add to/deep",
            "Add to/deep/file",
            "Add to/edited"
        ]
    );
    let kept = w.changes().into_iter().find(|c| c.path.ends_with("to/deep/file")).unwrap();
    assert_eq!(fs::read(&kept.after.unwrap().at).unwrap(), b"x", "its content lies in reality, at its old place");
}

#[test]
fn newer_layers_cover_older_ones() {
    let mut w = World::new("layers", Format::User);
    w.base("a", "base");
    w.base("b", "base");
    w.base("c", "base");
    let older = w.layer(1);
    write(&older.join("a"), "older");
    write(&older.join("d/new"), "older");
    write(&older.join("d/gone-again"), "older");
    w.whiteout(1, "c");
    w.head("a", "newer");
    w.head("c", "back");
    w.whiteout(0, "d/gone-again");
    let told = w.told();
    assert_eq!(told, ["Modify a", "Modify c", "Add d", "Add d/new"]);
    let a = w.changes().into_iter().find(|c| c.path.ends_with("a")).unwrap();
    assert_eq!(fs::read(&a.after.unwrap().at).unwrap(), b"newer");
}

#[test]
fn what_was_hidden_is_not_deleted_and_what_replaced_it_is_never_applied() {
    let mut w = World::new("masked", Format::User);
    w.base("secret/key", "x");
    w.base("other", "x");
    w.masked = vec![w.dir.join("base/secret")];
    w.whiteout(0, "secret");
    assert!(w.told().is_empty());
    fs::remove_file(w.dir.join("0/secret")).unwrap();
    w.head("secret/key", "mine");
    let changes = w.changes();
    assert!(changes.iter().any(|c| c.path.ends_with("secret") && c.blocked == Some(Blocked::Masked)), "{:?}", w.told());
}

#[test]
fn of_a_copy_without_an_inventory_nothing_is_guessed() {
    let mut w = World::new("copied", Format::None);
    w.copied = true;
    w.base("gone", "x");
    w.base("changed", "x");
    w.base("same", "x");
    w.head("changed", "y");
    w.head("same", "x");
    w.head("new", "x");
    assert_eq!(w.told(), ["Modify changed", "Delete gone", "Add new"]);
    assert!(w.changes().iter().all(|c| c.base == Base::Lost), "who did what is not known");
}

#[test]
fn reality_that_moved_is_known_by_its_kept_base() {
    let mut w = World::new("kept", Format::User);
    w.base("f", "one\ntwo\n");
    w.head("f", "one\nTWO\n");
    w.bases = Bases::load(&w.dir.join("kept")).unwrap();
    let first = w.changes();
    let mut bases = Bases::load(&w.dir.join("kept")).unwrap();
    bases.keep(&first).unwrap();
    w.base("f", "ONE\ntwo\n");
    w.bases = Bases::load(&w.dir.join("kept")).unwrap();
    let change = w.changes().pop().unwrap();
    assert_eq!((change.kind, change.base), (ChangeKind::Modify, Base::Kept));
    assert_eq!(fs::read(&change.before.unwrap().at).unwrap(), b"one\ntwo\n");
    // Reality got where the sandbox is.
    w.base("f", "one\nTWO\n");
    assert!(w.told().is_empty());
}

#[test]
fn many_directories_are_found_by_several_threads() {
    let w = World::new("many", Format::User);
    for d in 0..300 {
        w.base(&format!("d{d}/f"), "x");
        w.head(&format!("d{d}/f"), "y");
    }
    let told = w.told();
    assert_eq!(told.len(), 300);
    assert!(told.is_sorted());
}

#[test]
fn a_renamed_directory_of_an_older_layer_is_only_where_it_is_now() {
    let mut w = World::new("moved-layer", Format::User);
    let older = w.layer(1);
    write(&older.join("n/file"), "x");
    w.mark(0, "m", "user.overlay.redirect", "n");
    w.whiteout(0, "n");
    assert_eq!(w.told(), ["Add m", "Add m/file"]);
    let file = w.changes().pop().unwrap().after.unwrap();
    assert_eq!(file.at, older.join("n/file"));
}

#[test]
fn a_name_beside_a_renamed_directory_is_one_of_its_old_place() {
    let w = World::new("nested-redirect", Format::User);
    w.base("a/x/file", "x");
    w.mark(0, "b", "user.overlay.redirect", "a");
    w.mark(0, "b/y", "user.overlay.redirect", "x");
    w.whiteout(0, "a");
    w.whiteout(0, "b/x");
    assert_eq!(w.told(), ["Delete a", "Delete a/x", "Delete a/x/file", "Add b", "Add b/y", "Add b/y/file"]);
}

/// The kernel refuses to look up such a directory. What of it would be seen is not known, and nothing of reality was deleted.
#[test]
fn a_redirect_that_leads_out_is_an_error_and_deletes_nothing() {
    for redirect in ["/../base", "..", ".", "x/../..", "x/y", "//from", "/from/", "/", ""] {
        let w = World::new("escape", Format::User);
        w.base("from/file", "x");
        w.base("to/file", "x");
        w.mark(0, "to", "user.overlay.redirect", redirect);
        let found = w.found();
        assert_eq!(found.changes.iter().map(|c| &c.path).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "{redirect}");
        assert_eq!(found.unreadable.iter().map(|u| u.path.clone()).collect::<Vec<_>>(), [w.dir.join("base/to")], "{redirect}");
    }
}

/// It never renames a directory that lies below, and follows no mark that says so.
#[test]
fn fuse_follows_no_redirect() {
    let w = World::new("fuse-redirect", Format::Fuse);
    w.base("from/file", "x");
    w.mark(0, "to", "user.fuseoverlayfs.redirect", "/from");
    assert_eq!(w.told(), ["Add to"]);
}

/// A merge of layers may write one that is longer than any path.
#[test]
fn no_redirect_is_too_long_to_be_seen() {
    let memory = PathBuf::from("/dev/shm");
    if !memory.is_dir() {
        println!("skipped: no file system in memory, where attributes may be long");
        return;
    }
    let w = World::new_in(&memory, "long-redirect", Format::User);
    let long = format!("/{}", "d".repeat(200)).repeat(25);
    w.base("to/file", "x");
    fs::create_dir_all(w.dir.join("0/to")).unwrap();
    if let Err(errno) = setxattr(w.dir.join("0/to"), "user.overlay.redirect", long.as_bytes(), XattrFlags::empty()) {
        println!("skipped: no attributes in memory: {errno}");
        return;
    }
    assert!(!w.found().unreadable.is_empty(), "what shows through it is not what has its name");
}

/// The kernel looks at no mark of a layer's own root; fuse-overlayfs does.
#[test]
fn a_root_is_opaque_to_fuse_only() {
    for (marks, name, told) in
        [(Format::User, "user.overlay.opaque", &[][..]), (Format::Fuse, "user.fuseoverlayfs.opaque", &["Delete f"][..])]
    {
        let w = World::new("opaque-root", marks);
        w.base("f", "x");
        w.mark(0, "", name, "y");
        assert_eq!(w.told(), told, "{marks:?}");
    }
}

#[test]
fn a_block_device_is_no_whiteout() {
    let w = World::new("block", Format::Trusted);
    w.base("f", "x");
    match mknodat(CWD, w.dir.join("0/f"), FileType::BlockDevice, Mode::empty(), 0) {
        Err(Errno::PERM) => println!("skipped: only root makes devices"),
        made => {
            made.unwrap();
            assert_eq!(w.told(), ["Special f"]);
        }
    }
}

#[test]
fn what_is_hidden_stays_hidden_wherever_its_directory_goes() {
    let mut w = World::new("masked-moved", Format::User);
    w.base("home/secret/key", "x");
    w.base("home/plain", "x");
    w.base("vault/key", "x");
    w.masked = vec![w.dir.join("base/home/secret"), w.dir.join("base/vault")];
    w.mark(0, "moved", "user.overlay.redirect", "home");
    w.mark(0, "forged", "user.overlay.redirect", "/vault");
    w.whiteout(0, "home");
    assert_eq!(w.told(), ["Add forged", "Delete home", "Delete home/plain", "Add moved", "Add moved/plain"]);
}

#[test]
fn an_opaque_directory_hides_older_layers_even_if_reality_has_a_newer_one() {
    let mut w = World::new("opaque-later", Format::User);
    let older = w.layer(1);
    write(&older.join("d/hidden"), "x");
    w.head("d/mine", "x");
    w.mark(0, "d", "user.overlay.opaque", "y");
    w.wait_for_a_tick();
    w.base("d/theirs", "x");
    assert_eq!(w.told(), ["Add d/mine"]);
}

#[test]
fn an_opaque_directory_between_layers_hides_what_is_below_it() {
    let mut w = World::new("opaque-middle", Format::User);
    w.base("d/real", "x");
    let (middle, oldest) = (w.layer(1), w.layer(2));
    write(&oldest.join("d/oldest"), "x");
    write(&middle.join("d/middle"), "x");
    w.mark(1, "d", "user.overlay.opaque", "y");
    w.head("d/newest", "x");
    assert_eq!(w.told(), ["Add d/middle", "Add d/newest", "Delete d/real"]);
}

#[test]
fn fuse_whiteouts_cover_directories_of_older_layers() {
    let mut w = World::new("fuse-layers", Format::Fuse);
    w.base("d/real", "x");
    let oldest = w.layer(2);
    write(&oldest.join("d/oldest"), "x");
    w.whiteout(1, "d");
    w.head("d/newest", "x");
    assert_eq!(w.told(), ["Add d/newest", "Delete d/real"]);
}

#[test]
fn of_copies_only_the_newest_counts() {
    let mut w = World::new("copies", Format::None);
    w.copied = true;
    w.base("f", "one");
    let older = w.layer(1);
    write(&older.join("f"), "two");
    write(&older.join("gone-since"), "two");
    w.head("f", "three");
    // Whatever was there or is there now, the sandbox touched it.
    w.made_at = (0, 0);
    assert_eq!(w.told(), ["Modify f"]);
    let f = w.changes().pop().unwrap();
    assert_eq!(fs::read(f.after.unwrap().at).unwrap(), b"three");
    fs::remove_dir_all(w.dir.join("0")).unwrap();
    assert_eq!(w.told(), ["Modify f", "Add gone-since"], "a head that was never made does not count");
}

#[test]
fn a_directory_made_over_an_older_layer_was_never_in_reality() {
    let mut w = World::new("origin", Format::User);
    let older = w.layer(1);
    write(&older.join("n/f"), "x");
    w.head("n/g", "x");
    w.mark(0, "n", "user.overlay.origin", "");
    let n = w.changes().into_iter().find(|c| c.path.ends_with("n")).unwrap();
    assert_eq!(n.base, Base::Reality);
    w.mark(1, "n", "user.overlay.origin", "");
    let n = w.changes().into_iter().find(|c| c.path.ends_with("n")).unwrap();
    assert_eq!(n.base, Base::Lost, "it was there when the older layer was made");
}

#[test]
fn a_file_is_touched_when_the_oldest_layer_touched_it() {
    let mut w = World::new("touched-first", Format::User);
    w.made_at = (0, 0);
    let older = w.layer(1);
    write(&older.join("f"), "first");
    w.wait_for_a_tick();
    w.base("f", "reality, later");
    w.wait_for_a_tick();
    w.head("f", "second");
    let f = w.changes().pop().unwrap();
    assert_eq!((f.kind, f.base), (ChangeKind::Modify, Base::Lost), "what it started from is gone");
}
