//! Tells whether a path is one of some, or lies below one, without asking for each directory on the way: hashing all of them
//! takes seconds for a tree of thousands of levels.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Some paths. Each ends in a slash, so that one is above another, or the same, if it is the beginning of it; and in their order
/// nothing but what is below a path comes between the two.
#[derive(Debug, Default)]
pub(super) struct Above(BTreeSet<Vec<u8>>);

impl Above {
    pub(super) fn set(&mut self, path: &Path, is_one: bool) {
        if is_one {
            self.0.insert(with_slash(path));
        } else if !self.0.is_empty() {
            self.0.remove(&with_slash(path));
        }
    }

    /// Whether the path is one of them, or lies below one.
    pub(super) fn covers(&self, path: &Path) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let wanted = with_slash(path);
        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            let Some(last) = self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(rest))).next_back() else { return false };
            if rest.starts_with(last) {
                return true;
            }
            // Whatever is above the path comes before this one, and so is above this one, too.
            let same = rest.iter().zip(last).take_while(|(a, b)| a == b).count();
            let end = rest[..same].iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
            rest = &rest[..end];
        }
        false
    }
}

fn with_slash(path: &Path) -> Vec<u8> {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    if !bytes.ends_with(b"/") {
        bytes.push(b'/');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that sort before and after a slash, beginnings of each other, and several levels of them.
    fn paths() -> Vec<String> {
        let names = ["a", "a-", "a0", "b"];
        let mut all = vec!["/".to_owned()];
        for one in names {
            all.push(format!("/{one}"));
            for two in names {
                all.push(format!("/{one}/{two}"));
                all.extend(names.map(|three| format!("/{one}/{two}/{three}")));
            }
        }
        all
    }

    #[test]
    fn what_is_covered_is_what_asking_for_each_directory_finds() {
        let all = paths();
        for step in 1..40 {
            let (mut above, mut known) = (Above::default(), BTreeSet::new());
            for (number, path) in all.iter().enumerate().filter(|(number, _)| number * step % 7 < 2) {
                above.set(Path::new(path), true);
                known.insert(path.as_str());
                if number % 5 == step % 5 {
                    above.set(Path::new(path), false);
                    known.remove(path.as_str());
                }
            }
            for path in all.iter().map(Path::new) {
                let is_below = path.ancestors().any(|a| a.to_str().is_some_and(|a| known.contains(a)));
                assert_eq!(above.covers(path), is_below, "{} in {known:?}", path.display());
            }
        }
    }
}
