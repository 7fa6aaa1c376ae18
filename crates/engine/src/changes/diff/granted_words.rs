//! What a change does to the mode, the owner and the attributes of a path, in words. Names of attributes are as a process inside chose
//! them.

use whatif_diff::{Change, Kind, granted};

/// `mode 0644 → 0755`.
#[must_use]
pub fn mode(change: &Change) -> Option<String> {
    let (old, new) = (&change.before.as_ref()?.node, &change.after.as_ref()?.node);
    let differs = old.kind == new.kind && old.mode != new.mode && new.kind != Kind::Link;
    differs.then(|| format!("mode {:04o} → {:04o}", old.mode, new.mode))
}

/// `owner 0:0 → 7:7`.
#[must_use]
pub fn owner(change: &Change) -> Option<String> {
    let (old, new) = (&change.before.as_ref()?.node, &change.after.as_ref()?.node);
    let differs = (old.uid, old.gid) != (new.uid, new.gid);
    differs.then(|| format!("owner {}:{} → {}:{}", old.uid, old.gid, new.uid, new.gid))
}

/// `access for user 12: rwx`, `attribute user.origin set`.
#[must_use]
pub fn attributes(change: &Change) -> Vec<String> {
    match granted::attributes(change) {
        Ok(all) => all.iter().flat_map(granted::Attribute::in_words).collect(),
        Err(_) => vec!["attributes that could not be read".to_owned()],
    }
}
