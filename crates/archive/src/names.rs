//! Which names may be in an archive, and in which order.

use crate::error::{ArchiveError, shown};

/// What the kernel takes as a path, without its NUL.
pub(crate) const LONGEST: usize = 4095;
const LONGEST_COMPONENT: usize = 255;
const LONGEST_ID: usize = 64;

/// Words that follow the name, if it is no plain path: components, separated by single slashes, that lead downwards.
pub(crate) fn objection(path: &[u8]) -> Option<&'static str> {
    if path.contains(&0) {
        return Some("contains a NUL");
    }
    path.split(|b| *b == b'/').find_map(|component| match component {
        b"" => Some("is absolute or has an empty component"),
        b"." | b".." => Some("leads elsewhere"),
        long if long.len() > LONGEST_COMPONENT => Some("is too long"),
        _ => None,
    })
}

pub(crate) fn check(path: &[u8]) -> Result<(), ArchiveError> {
    objection(path).map_or(Ok(()), |why| Err(ArchiveError::Name { name: shown(path), why }))
}

/// An id is a directory's name in the archive and in the state directory, and it is printed.
pub(crate) fn check_layer_id(id: &str) -> Result<(), ArchiveError> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(is_plain) {
        return Err(ArchiveError::LayerId { id: shown(id.as_bytes()) });
    }
    Ok(())
}

/// Parents before what is in them, siblings by their bytes.
pub(crate) fn comes_before(a: &[u8], b: &[u8]) -> bool {
    a.split(|b| *b == b'/').lt(b.split(|b| *b == b'/'))
}

/// The directory of a path, and its last component. A path of one component lies in the empty path.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// The layer that a path of the archive lies in.
pub(crate) fn layer(path: &[u8]) -> &[u8] {
    path.split(|b| *b == b'/').next().unwrap_or_default()
}

/// What is left of a path without its layer; nothing for the layer itself.
pub(crate) fn within_layer(path: &[u8]) -> &[u8] {
    path.get(layer(path).len() + 1..).unwrap_or_default()
}

pub(crate) fn depth(path: &[u8]) -> usize {
    path.iter().filter(|b| **b == b'/').count()
}

#[cfg(test)]
mod tests {
    use super::{comes_before, split};

    #[test]
    fn the_order_is_by_components_and_not_by_bytes() {
        assert!(comes_before(b"a", b"a/b"));
        assert!(comes_before(b"a/b", b"a.c"), "what is in a directory stays together");
        assert!(!comes_before(b"a.c", b"a/b"));
        assert!(!comes_before(b"a", b"a"));
        assert!(comes_before(b"a/b/z", b"a/c"));
    }

    #[test]
    fn paths_split_at_the_last_slash() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"a"), (&b""[..], &b"a"[..]));
    }
}
