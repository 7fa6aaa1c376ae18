//! Names as they are found on a file system that does not tell them apart: without case (HFS+, APFS, NTFS, FAT, ext4 with
//! `casefold`), without characters it ignores, by a short name. A project may be copied, checked out or synchronised to one.
//!
//! The same tricks that git refuses in a tree (`is_hfs_dotgit`, `is_ntfs_dotgit`).

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The parts of a path, folded. Windows takes `\` for a separator too.
pub(super) fn parts(path: &Path) -> Vec<String> {
    path.components().flat_map(|part| part.as_os_str().as_bytes().split(|b| *b == b'\\')).map(fold).collect()
}

/// Whether a name can mean this one, which is written folded.
pub(crate) fn is(name: &OsStr, meant: &str) -> bool {
    let folded = fold(name.as_bytes());
    folded == meant || is_short_for(&folded, meant)
}

/// Without case, without characters that file systems ignore, without what NTFS cuts off: `:stream`, and dots and spaces at the end.
fn fold(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let plain: Cow<'_, str> = if text.is_ascii() {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        let kept = text.chars().filter(|c| !is_ignorable(*c));
        // Upper case first: several letters have the same one, such as 's' and the long 's'.
        Cow::Owned(kept.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect())
    };
    let named = plain.split_once(':').map_or(&*plain, |(name, _)| name);
    named.trim_end_matches(['.', ' ']).to_owned()
}

/// What Unicode calls "default ignorable", HFS+ skips a part of it.
fn is_ignorable(c: char) -> bool {
    matches!(
        u32::from(c),
        0xad | 0x34f
            | 0x61c
            | 0x115f..=0x1160
            | 0x17b4..=0x17b5
            | 0x180b..=0x180f
            | 0x200b..=0x200f
            | 0x202a..=0x202e
            | 0x2060..=0x206f
            | 0x3164
            | 0xfe00..=0xfe0f
            | 0xfeff
            | 0xffa0
            | 0xfff0..=0xfff8
            | 0x1bca0..=0x1bca3
            | 0x1d173..=0x1d17a
            | 0xe0000..=0xe0fff
    )
}

/// Whether it has the form of a name that NTFS and FAT make up for a longer one, such as `GIT~1`.
pub(super) fn has_short_form(folded: &str) -> bool {
    folded.split_once('~').is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `git~1` is `.git`, `gitmod~1` is `.gitmodules`, and so may be `gi7eba~1`: after four of a kind the rest is a hash.
pub(super) fn is_short_for(folded: &str, long: &str) -> bool {
    let Some((base, rest)) = folded.split_once('~') else { return false };
    let (number, ending) = rest.split_once('.').unwrap_or((rest, ""));
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let long = long.trim_start_matches('.');
    let (stem, long_ending) = long.rsplit_once('.').unwrap_or((long, ""));
    let stem: String = stem.chars().filter(|c| !matches!(c, '.' | ' ')).collect();
    let begins = |text: &str, most: usize| text.get(..most.min(text.len())).unwrap_or_default().to_owned();
    let is_hashed = base.len() == 6 && base.get(2..).is_some_and(|hash| hash.bytes().all(|b| b.is_ascii_hexdigit()));
    let is_cut = base == begins(&stem, 6);
    (is_cut || is_hashed && base.get(..2) == Some(&begins(&stem, 2))) && ending == begins(long_ending, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_file_system_does_not_tell_apart_are_one() {
        let git = [
            ".git",
            ".GIT",
            ".gIt",
            ".git.",
            ".git. . ",
            ".git ",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{ad}t",
            "git~1",
            "GIT~4",
        ];
        for name in git {
            assert!(is(OsStr::new(name), ".git"), "{name:?}");
        }
        for name in [".gitx", "git", "xgit~1", "git~", "git~x", "g.it", ".git~1"] {
            assert!(!is(OsStr::new(name), ".git"), "{name:?}");
        }
        assert!(is(OsStr::new("GITMOD~1"), ".gitmodules") && is(OsStr::new("gi7eba~1"), ".gitmodules"));
        assert!(is(OsStr::new("PACKAG~1.JSO"), "package.json") && !is(OsStr::new("PACKAG~1.LOC"), "package.json"));
        assert!(is(OsStr::new("CLAUDE.MD"), "claude.md") && is(OsStr::new("conﬁg"), "config"));
        assert!(is(OsStr::new("ma\u{212a}efile"), "makefile") && is(OsStr::new("\u{17f}etup.py"), "setup.py"));
    }

    #[test]
    fn a_backslash_separates() {
        assert_eq!(parts(Path::new("a\\.GIT\\hooks/x")), ["a", ".git", "hooks", "x"]);
        assert_eq!(parts(Path::new("/a")), ["/", "a"]);
    }

    #[test]
    fn what_is_no_text_is_still_a_name() {
        assert_eq!(parts(Path::new(OsStr::from_bytes(b".vscode/\xff"))).len(), 2);
    }
}
