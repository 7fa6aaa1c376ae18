//! What a change does to extended attributes: who may access a file, what it is labelled with, and what a program may do.

use std::ffi::{OsStr, OsString};

use crate::acl::{self, Entry};
use crate::change::{Change, State};
use crate::unreadable::Unreadable;

/// One attribute that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: OsString,
    pub before: Option<Vec<u8>>,
    pub after: Option<Vec<u8>>,
}

/// The attributes that differ. What a `chmod` does to an access control list is told by the mode.
pub fn attributes(change: &Change) -> Result<Vec<Attribute>, Unreadable> {
    let Some(after) = &change.after else { return Ok(Vec::new()) };
    let of = |state: &State| state.attributes().cloned();
    let (before, after) = (change.before.as_ref().map(of).transpose()?.unwrap_or_default(), of(after)?);
    let mut names: Vec<&OsString> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let both = names.into_iter().map(|name| Attribute {
        name: name.clone(),
        before: before.get(name).cloned(),
        after: after.get(name).cloned(),
    });
    Ok(both.filter(Attribute::differs).collect())
}

impl Attribute {
    fn differs(&self) -> bool {
        let plain = |value: &Option<Vec<u8>>| match value {
            Some(list) if self.name == acl::ACCESS => Some(acl::without_mode(list)),
            other => other.clone(),
        };
        plain(&self.before) != plain(&self.after)
    }

    #[must_use]
    pub fn is_access_list(&self) -> bool {
        self.name == acl::ACCESS || self.name == acl::DEFAULT
    }

    /// `access for user 12: rwx`, `attribute user.origin set`.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        if self.is_access_list() {
            return self.access_in_words();
        }
        let done = match (&self.before, &self.after) {
            (None, _) => "set",
            (_, None) => "removed",
            _ => "changed",
        };
        let is_capability = self.name == OsStr::new("security.capability");
        let what =
            if is_capability { "file capabilities".to_owned() } else { format!("attribute {}", self.name.to_string_lossy()) };
        vec![format!("{what} {done}")]
    }

    fn access_in_words(&self) -> Vec<String> {
        let kind = if self.name == acl::DEFAULT { "default access" } else { "access" };
        let named = |list: &Option<Vec<u8>>| list.as_deref().map(acl::named).unwrap_or_default();
        let (before, after) = (named(&self.before), named(&self.after));
        let given = after.iter().filter(|entry| !before.contains(entry)).map(|entry| format!("{kind} for {entry}"));
        let is_gone = |entry: &&Entry| !after.iter().any(|other| other.whom == entry.whom);
        let taken = before.iter().filter(is_gone).map(|entry| format!("no {kind} for {} any more", entry.whom));
        let mut words: Vec<String> = given.chain(taken).collect();
        if words.is_empty() {
            words.push(format!("{kind} list changed"));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u8, u8, u32)]) -> Vec<u8> {
        let entry = |&(tag, permissions, id): &(u8, u8, u32)| [&[tag, 0, permissions, 0][..], &id.to_le_bytes()].concat();
        [vec![2, 0, 0, 0], entries.iter().flat_map(entry).collect()].concat()
    }

    fn said(name: &str, before: Option<Vec<u8>>, after: Option<Vec<u8>>) -> Vec<String> {
        Attribute { name: name.into(), before, after }.in_words()
    }

    #[test]
    fn access_is_told_by_whom_it_is_given_to() {
        let none = u32::MAX;
        let old = list(&[(1, 6, none), (2, 4, 12), (4, 4, none), (0x10, 4, none), (0x20, 4, none)]);
        let new = list(&[(1, 6, none), (2, 7, 12), (4, 4, none), (8, 5, 100), (0x10, 7, none), (0x20, 4, none)]);
        assert_eq!(said(acl::ACCESS, None, Some(new.clone())), ["access for user 12: rwx", "access for group 100: r-x"]);
        assert_eq!(said(acl::ACCESS, Some(old.clone()), Some(new)), ["access for user 12: rwx", "access for group 100: r-x"]);
        assert_eq!(said(acl::DEFAULT, Some(old), None), ["no default access for user 12 any more"]);
    }

    #[test]
    fn other_attributes_are_told_by_their_names() {
        assert_eq!(said("user.q", None, Some(b"w".to_vec())), ["attribute user.q set"]);
        assert_eq!(said("user.q", Some(b"w".to_vec()), None), ["attribute user.q removed"]);
        assert_eq!(said("security.capability", Some(vec![1]), Some(vec![2])), ["file capabilities changed"]);
    }
}
