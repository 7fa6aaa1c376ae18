//! What the kernel makes of marks that are written here, and what is read here of marks that the kernel wrote.
//!
//! Needs root and a mount namespace of its own; otherwise it is skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "a skip says why")]

mod ground;

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, XattrFlags, mknodat, open, setxattr, stat};
use rustix::mount::{MountFlags, mount};
use whatif_overlay::{Format, Mark, Redirect, Way, whiteout};
use whatif_sys::file_handle::FileHandle;

use self::ground::Ground;

struct World {
    ground: Ground,
    format: Format,
}

impl World {
    fn new(name: &str, format: Format) -> Option<Self> {
        Some(Self { ground: Ground::new(&format!("{name}-{format:?}"))?, format })
    }

    fn path(&self, path: &str) -> PathBuf {
        self.ground.path(path)
    }

    fn file(&self, path: &str, content: &str) {
        self.ground.file(path, content);
    }

    fn directory(&self, path: &str) -> File {
        self.ground.directory(path)
    }

    /// The name under which the format has a mark, set as it is.
    fn set(&self, path: &str, mark: Mark, value: &[u8]) {
        setxattr(self.path(path), self.format.attribute(mark).unwrap(), value, XattrFlags::empty()).unwrap();
    }

    fn mounted<T>(&self, look: impl FnOnce(&Path) -> T) -> T {
        let kind = if self.format == Format::User { "userxattr" } else { "redirect_dir=on" };
        let options = CString::new(format!("{},{kind}", self.ground.options())).unwrap();
        mount("overlay", self.path("root"), "overlay", MountFlags::empty(), Some(options.as_c_str())).unwrap();
        self.ground.look(look)
    }

    fn is_whiteout(&self, path: &str) -> bool {
        let at = self.path(path);
        let directory = File::open(at.parent().unwrap()).unwrap();
        let found = rustix::fs::lstat(&at).unwrap();
        self.format.is_whiteout(&directory, at.file_name().unwrap(), &found).unwrap()
    }

    fn way(&self, path: &str) -> rustix::io::Result<Way> {
        Ok(self.format.read(&File::open(self.path(path)).unwrap())?.way)
    }
}

fn kernel(name: &str, check: impl Fn(&World)) {
    for format in [Format::Trusted, Format::User] {
        if let Some(world) = World::new(name, format) {
            check(&world);
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_here_the_kernel_reads() {
    kernel("written", |w| {
        for path in ["base/gone", "base/opaque/low", "base/plain/low"] {
            w.file(path, path);
        }
        whiteout::make(CWD, w.path("layer/gone")).unwrap();
        w.format.make_opaque(&w.directory("layer/opaque")).unwrap();
        w.format.write(&w.directory("layer/plain"), &Way::Down).unwrap();
        w.mounted(|root| {
            assert_eq!(names(root), ["opaque", "plain"]);
            assert_eq!((names(&root.join("opaque")), names(&root.join("plain"))), (vec![], vec!["low".to_owned()]));
        });
        w.format.remove(&w.directory("layer/opaque"), Mark::Opaque).unwrap();
        w.mounted(|root| assert_eq!(names(&root.join("opaque")), ["low"]));
    });
}

#[test]
fn what_the_kernel_writes_is_read_here() {
    kernel("read", |w| {
        for path in ["base/gone", "base/again/low", "base/touched/low"] {
            w.file(path, path);
        }
        w.mounted(|root| {
            fs::remove_file(root.join("gone")).unwrap();
            fs::remove_dir_all(root.join("again")).unwrap();
            fs::create_dir(root.join("again")).unwrap();
            fs::write(root.join("touched/low"), "changed").unwrap();
            fs::write(root.join("touched/new"), "new").unwrap();
        });
        assert!(w.is_whiteout("head/gone") && !w.is_whiteout("head/touched/low"));
        assert_eq!((w.way("head/again"), w.way("head/touched")), (Ok(Way::Opaque), Ok(Way::Down)));
        let is_copied_up = |path: &str| w.format.has(&File::open(w.path(path)).unwrap(), Mark::Origin).unwrap();
        assert!(is_copied_up("head/touched/low") && is_copied_up("head/touched") && !is_copied_up("head/touched/new"));
    });
}

#[test]
fn renames_of_root_are_redirects() {
    let Some(w) = World::new("renames", Format::Trusted) else { return };
    w.file("base/a/one", "1");
    w.file("base/b/two", "2");
    w.mounted(|root| {
        fs::rename(root.join("a"), root.join("beside")).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        fs::rename(root.join("b"), root.join("other/moved")).unwrap();
    });
    assert_eq!(w.way("head/beside"), Ok(Way::Redirect(Redirect::Beside("a".into()))));
    assert_eq!(w.way("head/other/moved"), Ok(Way::Redirect(Redirect::FromRoot("b".into()))));
    w.format.set_redirect(&w.directory("layer/here"), &Redirect::FromRoot("a".into())).unwrap();
    w.mounted(|root| assert_eq!(fs::read(root.join("here/one")).unwrap(), b"1"));
}

/// A path may be longer than any that a call takes.
#[test]
fn a_long_redirect_is_read_as_the_kernel_does() {
    let Some(w) = World::new("long", Format::Trusted) else { return };
    let name = "d".repeat(200);
    let mut at = rustix::fs::open(w.path("base"), OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..25 {
        rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, &name, OFlags::PATH, Mode::empty()).unwrap();
    }
    rustix::fs::mkdirat(&at, "deepest", Mode::RWXU).unwrap();
    let redirect = Redirect::FromRoot(std::iter::repeat_n(&name, 25).collect());
    w.format.set_redirect(&w.directory("layer/to"), &redirect).unwrap();
    w.mounted(|root| assert_eq!(names(&root.join("to")), ["deepest"]));
    assert_eq!(w.way("layer/to"), Ok(Way::Redirect(redirect)));
}

#[test]
fn what_the_kernel_refuses_to_follow_is_an_error() {
    let Some(w) = World::new("refused", Format::Trusted) else { return };
    let wrong = [&b""[..], b"/", b".", b"..", b"a/b", b"//a", b"/a/", b"/../a"];
    for (number, redirect) in wrong.iter().enumerate() {
        let path = format!("layer/{number}");
        w.directory(&path);
        w.set(&path, Mark::Redirect, redirect);
        assert!(w.way(&path).is_err(), "{redirect:?}");
    }
    w.mounted(|root| {
        for (number, redirect) in wrong.iter().enumerate() {
            assert!(fs::symlink_metadata(root.join(number.to_string())).is_err(), "{redirect:?}");
        }
    });
    // Nothing shows through an opaque one, so it is not asked where.
    w.format.make_opaque(&w.directory("layer/0")).unwrap();
    assert_eq!(w.way("layer/0"), Ok(Way::Opaque));
    w.mounted(|root| assert!(names(&root.join("0")).is_empty()));
}

#[test]
fn one_letter_makes_a_directory_opaque() {
    kernel("letters", |w| {
        for value in ["y", "x", "n", "yes", ""] {
            w.file(&format!("base/d{value}/low"), "");
            w.directory(&format!("layer/d{value}"));
            w.set(&format!("layer/d{value}"), Mark::Opaque, value.as_bytes());
        }
        w.mounted(|root| {
            for value in ["y", "x", "n", "yes", ""] {
                let shows_nothing = names(&root.join(format!("d{value}"))).is_empty();
                assert_eq!(w.way(&format!("layer/d{value}")) == Ok(Way::Opaque), shows_nothing, "{value}");
            }
        });
    });
}

#[test]
fn marks_of_a_root_mean_nothing_to_the_kernel() {
    kernel("root", |w| {
        w.file("base/low", "");
        w.format.make_opaque(&w.directory("layer")).unwrap();
        w.mounted(|root| assert_eq!(names(root), ["low"]));
        let root = w.directory("layer");
        assert_eq!((w.format.read_root(&root).unwrap().way, w.format.read(&root).unwrap().way), (Way::Down, Way::Opaque));
    });
}

#[test]
fn a_whiteout_is_a_character_device_or_an_empty_file_with_a_mark() {
    kernel("whiteouts", |w| {
        for path in ["base/character", "base/block", "base/marked", "base/full", "base/empty"] {
            w.file(path, "");
        }
        mknodat(CWD, w.path("layer/character"), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        mknodat(CWD, w.path("layer/block"), FileType::BlockDevice, Mode::empty(), 0).unwrap();
        for (path, content) in [("layer/marked", ""), ("layer/full", "x"), ("layer/empty", "")] {
            w.file(path, content);
        }
        for path in ["layer/marked", "layer/full"] {
            w.set(path, Mark::Whiteout, b"y");
        }
        w.mounted(|root| {
            for name in ["character", "block", "marked", "full", "empty"] {
                // Before 6.7 the kernel does not know the mark.
                let is_gone = stat(root.join(name)).is_err();
                assert!(w.is_whiteout(&format!("layer/{name}")) == is_gone || name == "marked", "{name}");
            }
        });
        assert!(w.is_whiteout("layer/marked"));
    });
}

#[test]
fn what_programs_set_inside_is_no_mark() {
    let Some(w) = World::new("escaped", Format::User) else { return };
    w.file("base/d/low", "");
    let is_set = w.mounted(|root| setxattr(root.join("d"), "user.overlay.opaque", b"y", XattrFlags::empty()).is_ok());
    if !is_set {
        println!("skipped: this kernel lets nobody set it");
        return;
    }
    let said = w.format.read(&File::open(w.path("head/d")).unwrap()).unwrap();
    assert_eq!(said.way, Way::Down);
    let theirs: Vec<&[u8]> = said.attributes.iter().filter(|name| w.format.mark(name).is_none()).collect();
    assert_eq!(theirs, [b"user.overlay.overlay.opaque"]);
    assert!(theirs.iter().all(|name| w.format.reserves(name)));
}

#[test]
fn an_origin_is_the_handle_of_the_file_below_until_it_is_forgotten() {
    let Some(w) = World::new("origin", Format::Trusted) else { return };
    w.file("base/f", "1");
    w.mounted(|root| fs::write(root.join("f"), "2").unwrap());
    let held = open(w.path("head/f"), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
    let handle = FileHandle::at(CWD, &w.path("base/f")).unwrap();
    assert_eq!(w.format.origin_handle(&held), Ok(Some(handle)));
    assert_eq!(w.format.names_origin(&held), Ok(true));
    w.format.forget_name_of_origin(&held).unwrap();
    assert_eq!((w.format.names_origin(&held), w.format.origin_handle(&held)), (Ok(false), Ok(None)));
    assert_eq!(w.format.has(&held, Mark::Origin), Ok(true), "it still was copied up");
    w.format.remove(&held, Mark::Origin).unwrap();
    assert_eq!(w.format.has(&held, Mark::Origin), Ok(false));
}

/// A sandbox may close a file to its own user, which must not make it anything else. Whether there is a mark needs no permission.
#[test]
fn a_closed_file_can_be_asked_for_its_marks() {
    let dir = std::env::temp_dir().join(format!("whatif-overlay-{}-closed", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    for (name, mark) in [("marked", Some("user.overlay.whiteout")), ("empty", None)] {
        fs::write(dir.join(name), "").unwrap();
        if let Some(mark) = mark {
            setxattr(dir.join(name), mark, b"y", XattrFlags::empty()).unwrap();
        }
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o0)).unwrap();
    }
    let is_whiteout = |name: &str| {
        let found = rustix::fs::lstat(dir.join(name)).unwrap();
        Format::User.is_whiteout(&File::open(&dir).unwrap(), name.as_ref(), &found)
    };
    let ask = || {
        if rustix::process::geteuid().is_root() {
            // Root is asked for nothing. Of this thread only, which ends.
            rustix::thread::set_thread_res_uid(
                rustix::process::Uid::from_raw(65534),
                rustix::process::Uid::from_raw(65534),
                rustix::process::Uid::from_raw(65534),
            )
            .unwrap();
        }
        assert!(File::open(dir.join("empty")).is_err(), "it is closed");
        (is_whiteout("marked"), is_whiteout("empty"))
    };
    let asked = std::thread::scope(|scope| scope.spawn(ask).join().unwrap());
    assert_eq!(asked, (Ok(true), Ok(false)));
    fs::remove_dir_all(&dir).unwrap();
}
