//! What fuse-overlayfs writes, and what it takes for marks although programs can make it.
//!
//! Needs root, fuse-overlayfs and a mount namespace of its own; otherwise it is skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "a skip says why")]

mod ground;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{XattrFlags, lstat, setxattr};
use whatif_overlay::{Format, Mark, Redirect, Way, fuse, whiteout};

use self::ground::Ground;

struct World(Ground);

impl World {
    fn new(name: &str) -> Option<Self> {
        if Command::new("fuse-overlayfs").arg("--version").output().is_err() || !Path::new("/dev/fuse").exists() {
            println!("skipped: there is no fuse-overlayfs here");
            return None;
        }
        Ground::new(&format!("fuse-{name}")).map(Self)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path(path)
    }

    fn file(&self, path: &str) {
        self.0.file(path, path);
    }

    fn directory(&self, path: &str) -> File {
        self.0.directory(path)
    }

    fn mounted<T>(&self, look: impl FnOnce(&Path) -> T) -> T {
        let served = Command::new("fuse-overlayfs").arg("-o").arg(self.0.options()).arg(self.path("root")).output().unwrap();
        assert!(served.status.success(), "{served:?}");
        self.0.look(look)
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_it_writes_is_read_here() {
    let Some(w) = World::new("writes") else { return };
    for path in ["base/gone", "base/again/low", "base/touched/low"] {
        w.file(path);
    }
    w.mounted(|root| {
        fs::remove_file(root.join("gone")).unwrap();
        fs::remove_dir_all(root.join("again")).unwrap();
        fs::create_dir(root.join("again")).unwrap();
        fs::write(root.join("touched/low"), "changed").unwrap();
    });
    let head = w.directory("head");
    let found = lstat(w.path("head/gone")).unwrap();
    assert!(Format::Fuse.is_whiteout(&head, "gone".as_ref(), &found).unwrap());
    let again = w.directory("head/again");
    let said = Format::Fuse.read(&again).unwrap();
    assert_eq!((said.way, said.is_copied_up), (Way::Opaque, false));
    for name in names(&w.path("head/again")) {
        let found = lstat(w.path("head/again").join(&name)).unwrap();
        assert!(Format::Fuse.is_bookkeeping(&again, name.as_ref(), &found).unwrap(), "{name}");
    }
    let said = Format::Fuse.read(&w.directory("head/touched")).unwrap();
    assert_eq!((said.way, said.is_copied_up), (Way::Down, true));
    assert!(Format::Fuse.names_origin(&File::open(w.path("head/touched/low")).unwrap()).unwrap());
}

#[test]
fn what_is_written_here_it_reads() {
    let Some(w) = World::new("reads") else { return };
    for path in ["base/gone", "base/opaque/low"] {
        w.file(path);
    }
    whiteout::make(w.directory("layer"), "gone").unwrap();
    Format::Fuse.make_opaque(&w.directory("layer/opaque")).unwrap();
    w.mounted(|root| {
        assert_eq!(names(root), ["opaque"]);
        assert!(names(&root.join("opaque")).is_empty());
    });
    assert!(fuse::try_whiteout(&w.directory("work")).is_ok() && fuse::try_attribute(&w.directory("work")).is_ok());
    assert!(Format::Fuse.set_redirect(&w.directory("layer/opaque"), &Redirect::Beside("a".into())).is_err());
}

#[test]
fn what_it_reads_of_files_of_programs_is_known() {
    let Some(w) = World::new("forged") else { return };
    for path in ["base/hidden", "base/d/low", "base/e/low", "base/f", "layer/.wh.hidden", "layer/d/.wh..wh..opq"] {
        w.file(path);
    }
    let (layer, d, e) = (w.directory("layer"), w.directory("layer/d"), w.directory("layer/e"));
    setxattr(w.path("layer/e"), "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    w.mounted(|root| {
        assert_eq!(names(root), ["d", "e", "f"], "it hides what was never deleted");
        assert!(names(&root.join("d")).is_empty() && names(&root.join("e")).is_empty());
    });
    assert!(fuse::is_whiteout_name(".wh.hidden".as_ref()) && fuse::is_hidden(&layer, "hidden".as_ref()).unwrap());
    assert!(!fuse::is_hidden(&layer, "f".as_ref()).unwrap());
    assert!(fuse::has_forged_opaque(&e).unwrap() && !fuse::has_forged_opaque(&d).unwrap());
    // None of it is believed.
    assert_eq!((Format::Fuse.read(&d).unwrap().way, Format::Fuse.read(&e).unwrap().way), (Way::Down, Way::Down));
    let found = lstat(w.path("layer/d/.wh..wh..opq")).unwrap();
    assert!(!Format::Fuse.is_bookkeeping(&d, ".wh..wh..opq".as_ref(), &found).unwrap());
}

/// The kernel's other marks are none of its own.
#[test]
fn it_follows_no_redirect_and_takes_no_file_for_a_whiteout() {
    let Some(w) = World::new("others") else { return };
    w.file("base/from/low");
    let to = w.directory("layer/to");
    fs::write(w.path("layer/empty"), "").unwrap();
    for prefix in ["trusted.overlay.", "user.fuseoverlayfs."] {
        setxattr(w.path("layer/to"), format!("{prefix}redirect"), b"/from", XattrFlags::empty()).unwrap();
        setxattr(w.path("layer/empty"), format!("{prefix}whiteout"), b"y", XattrFlags::empty()).unwrap();
    }
    w.mounted(|root| {
        assert_eq!(names(root), ["empty", "from", "to"]);
        assert!(names(&root.join("to")).is_empty());
    });
    assert_eq!(Format::Fuse.read(&to).unwrap().way, Way::Down);
    assert!(Format::Fuse.has(&to, Mark::Redirect).unwrap(), "a mark it is, which means nothing");
    let found = lstat(w.path("layer/empty")).unwrap();
    assert!(!Format::Fuse.is_whiteout(&w.directory("layer"), "empty".as_ref(), &found).unwrap());
}
