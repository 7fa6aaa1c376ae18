//! What an entry has besides its content: mode, owner, group and extended attributes, each of them with three sides of its own.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};
use whatif_diff::attributes::Attributes as Xattrs;
use whatif_diff::{Node, State, Unreadable, acl};
use whatif_types::text::Text;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub(crate) struct Looks {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// An access control list without what the mode says of it.
    xattrs: Xattrs,
}

/// Which side has the last word where both changed the same attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefer {
    Neither,
    Sandbox,
}

impl Looks {
    pub(crate) fn of(state: &State) -> Result<Self, Unreadable> {
        Ok(Self::new(&state.node, state.attributes()?))
    }

    fn new(node: &Node, xattrs: &Xattrs) -> Self {
        let bare = |(name, value): (&OsString, &Vec<u8>)| {
            let value = if is_acl(name) { acl::without_mode(value) } else { value.clone() };
            (name.clone(), value)
        };
        Self { mode: node.mode, uid: node.uid, gid: node.gid, xattrs: xattrs.iter().map(bare).collect() }
    }

    /// The extended attributes as the kernel takes them.
    pub(crate) fn xattrs(&self) -> Xattrs {
        let whole = |(name, value): (&OsString, &Vec<u8>)| {
            let value = if is_acl(name) { acl::fit(value, self.mode) } else { value.clone() };
            (name.clone(), value)
        };
        self.xattrs.iter().map(whole).collect()
    }

    /// Whether nothing but the mode differs, with what it says of an access control list.
    pub(crate) fn differs_in_mode_only(&self, other: &Self) -> bool {
        *other == Self { mode: other.mode, ..self.clone() }
    }

    /// Each attribute by itself: the side that changed it decides. If both did, differently, the answer is why there is none.
    /// Without a known start, whatever differs may have been changed by both.
    pub(crate) fn merge(before: Option<&Self>, now: &Self, after: &Self, prefer: Prefer) -> Result<Self, &'static str> {
        let one = |name: &OsStr| {
            let value = |side: &Self| side.xattrs.get(name).cloned();
            pick(before.map(value), value(now), value(after), prefer).ok_or(why(name))
        };
        let names: BTreeSet<&OsString> = before.into_iter().chain([now, after]).flat_map(|l| l.xattrs.keys()).collect();
        let mut xattrs = Xattrs::new();
        for name in names {
            if let Some(value) = one(name)? {
                xattrs.insert(name.clone(), value);
            }
        }
        Ok(Self {
            mode: pick(before.map(|b| b.mode), now.mode, after.mode, prefer).ok_or("both changed its mode")?,
            uid: pick(before.map(|b| b.uid), now.uid, after.uid, prefer).ok_or("both changed its owner")?,
            gid: pick(before.map(|b| b.gid), now.gid, after.gid, prefer).ok_or("both changed its group")?,
            xattrs,
        })
    }
}

fn pick<T: PartialEq>(before: Option<T>, ours: T, theirs: T, prefer: Prefer) -> Option<T> {
    if ours == theirs || before.as_ref() == Some(&theirs) {
        Some(ours)
    } else if before.as_ref() == Some(&ours) || prefer == Prefer::Sandbox {
        Some(theirs)
    } else {
        None
    }
}

fn is_acl(name: &OsStr) -> bool {
    name == acl::ACCESS
}

fn why(name: &OsStr) -> &'static str {
    match name.to_str() {
        Some(acl::ACCESS) => "both changed its access control list",
        Some("system.posix_acl_default") => "both changed its default access control list",
        Some("security.capability") => "both changed its capabilities",
        _ => "both changed the same extended attribute",
    }
}

/// As it is written down: JSON has no maps whose keys are bytes.
#[derive(Clone, Serialize, Deserialize)]
struct Written {
    mode: u32,
    uid: u32,
    gid: u32,
    xattrs: Vec<(Text, Vec<u8>)>,
}

impl From<Looks> for Written {
    fn from(looks: Looks) -> Self {
        let xattrs = looks.xattrs.into_iter().map(|(name, value)| (Text::from(&name), value)).collect();
        Self { mode: looks.mode, uid: looks.uid, gid: looks.gid, xattrs }
    }
}

impl From<Written> for Looks {
    fn from(written: Written) -> Self {
        let xattrs = written.xattrs.into_iter().map(|(name, value)| (name.to_os(), value)).collect();
        Self { mode: written.mode, uid: written.uid, gid: written.gid, xattrs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(mode: u32, gid: u32, xattrs: &[(&str, &str)]) -> Looks {
        let xattrs = xattrs.iter().map(|(name, value)| ((*name).into(), value.as_bytes().to_vec())).collect();
        Looks { mode, uid: 0, gid, xattrs }
    }

    fn merge(before: &Looks, now: &Looks, after: &Looks) -> Result<Looks, &'static str> {
        Looks::merge(Some(before), now, after, Prefer::Neither)
    }

    #[test]
    fn the_side_that_changed_an_attribute_decides() {
        let base = looks(0o644, 1, &[("user.a", "1"), ("user.b", "1")]);
        let now = looks(0o600, 1, &[("user.a", "2"), ("user.b", "1"), ("user.new", "n")]);
        let after = looks(0o644, 5, &[("user.a", "1")]);
        assert_eq!(merge(&base, &now, &after), Ok(looks(0o600, 5, &[("user.a", "2"), ("user.new", "n")])));
        assert_eq!(merge(&base, &after, &now), Ok(looks(0o600, 5, &[("user.a", "2"), ("user.new", "n")])), "either way round");
    }

    #[test]
    fn the_same_attribute_changed_differently_is_a_conflict() {
        let base = looks(0o644, 1, &[("user.a", "1")]);
        assert!(merge(&base, &looks(0o600, 1, &[]), &looks(0o755, 1, &[])).is_err());
        assert!(merge(&base, &looks(0o644, 1, &[("user.a", "2")]), &looks(0o644, 1, &[])).is_err());
        let (now, after) = (looks(0o600, 1, &[("user.a", "2")]), looks(0o755, 1, &[("user.a", "1")]));
        let theirs = Looks::merge(Some(&base), &now, &after, Prefer::Sandbox);
        assert_eq!(theirs, Ok(looks(0o755, 1, &[("user.a", "2")])), "what only reality changed stays");
    }

    #[test]
    fn without_a_start_only_what_is_the_same_fits() {
        let (now, after) = (looks(0o700, 1, &[]), looks(0o755, 1, &[]));
        assert_eq!(Looks::merge(None, &now, &now, Prefer::Neither), Ok(now.clone()));
        assert!(Looks::merge(None, &now, &after, Prefer::Neither).is_err());
    }

    #[test]
    fn looks_survive_a_journal() {
        let some = looks(0o4755, 7, &[("user.a", "1"), ("security.capability", "\u{1}\u{0}")]);
        assert_eq!(serde_json::from_value::<Looks>(serde_json::to_value(&some).unwrap()).unwrap(), some);
    }
}
