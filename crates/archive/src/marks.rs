//! What a layer's directories and files tell overlayfs, in a form that belongs to nobody.

use std::os::unix::ffi::OsStrExt;

use whatif_overlay::{Mark, Redirect};

use crate::entry::Kind;
use crate::names;

/// What a mark is to an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Carried,
    /// Bookkeeping of one machine, which the kernel makes anew.
    Bookkeeping,
    /// The file is without its content.
    Partial,
}

pub(crate) fn meaning(mark: Mark) -> Meaning {
    match mark {
        Mark::Opaque | Mark::Origin | Mark::Protected | Mark::Redirect | Mark::Whiteout => Meaning::Carried,
        Mark::Impure | Mark::Nlink | Mark::Upper | Mark::Uuid => Meaning::Bookkeeping,
        Mark::Metacopy => Meaning::Partial,
    }
}

/// The mark that an archive may have under this name.
pub(crate) fn carried(name: &[u8]) -> Option<Mark> {
    Mark::of(name).filter(|mark| meaning(*mark) == Meaning::Carried)
}

/// The value in an archive. An origin is a file handle of one file system; elsewhere only that there is one means something.
pub(crate) fn neutral(mark: Mark, value: Vec<u8>) -> Vec<u8> {
    match mark {
        Mark::Origin | Mark::Whiteout => b"y".to_vec(),
        _ => value,
    }
}

/// The value on disk. An empty origin is overlayfs's "copied up from something unknown".
pub(crate) fn real(mark: Mark, value: &[u8]) -> &[u8] {
    if mark == Mark::Origin { b"" } else { value }
}

/// Words that follow "which", if a mark means nothing there or leads astray.
pub(crate) fn objection(mark: Mark, value: &[u8], kind: &Kind) -> Option<&'static str> {
    let (fits, is_known) = match mark {
        Mark::Opaque => (*kind == Kind::Directory, matches!(value, b"y" | b"x")),
        Mark::Origin => (matches!(kind, Kind::Directory | Kind::File { .. }), value == b"y"),
        Mark::Protected => (matches!(kind, Kind::Directory | Kind::File { .. }), matches!(value, b"a" | b"i" | b"ai" | b"ia")),
        Mark::Whiteout => (*kind == Kind::File { size: 0 }, value == b"y"),
        Mark::Redirect if *kind == Kind::Directory => return (!is_plain_redirect(value)).then_some("leads astray"),
        Mark::Redirect | Mark::Impure | Mark::Metacopy | Mark::Nlink | Mark::Upper | Mark::Uuid => (false, false),
    };
    match (fits, is_known) {
        (false, _) => Some("nothing of its kind can have"),
        (true, false) => Some("has a value that means nothing"),
        (true, true) => None,
    }
}

/// A name beside it, or a path from the root of the tree, of which the kernel takes all.
fn is_plain_redirect(value: &[u8]) -> bool {
    let is_plain = |path: &[u8]| value.len() <= names::LONGEST && names::objection(path).is_none();
    Redirect::parse(value).is_ok_and(|redirect| match redirect {
        Redirect::Beside(name) => is_plain(name.as_bytes()),
        Redirect::FromRoot(path) => is_plain(path.as_os_str().as_bytes()),
    })
}
