//! Names that are one file in the sandbox: hard links that it made, or that a copied tree has.
//!
//! Only a name that shows something else than reality is a change. Of `ln old new` that is `new` alone, so what it is a name of is
//! written down with it.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::change::Change;
use crate::node::{Kind, Node};
use crate::scan::Found;

/// Device and number.
type Inode = (u64, u64);

/// A name, of a file with several, at which the sandbox changed nothing.
#[derive(Clone, Debug)]
pub struct Twin {
    pub path: PathBuf,
    /// What reality has there.
    pub reality: Node,
    /// Reality changed it since the sandbox started from it.
    pub is_behind: bool,
    /// Device and inode in the sandbox's layers.
    inode: Inode,
}

impl Twin {
    pub(crate) fn of(path: PathBuf, reality: &Node, after: &Node, is_behind: bool) -> Self {
        Self { path, reality: reality.clone(), is_behind, inode: inode(after) }
    }
}

/// What a changed name shares its file with.
#[derive(Clone, Debug)]
pub enum Linked {
    /// A name at which the sandbox changed nothing.
    Unchanged(Twin),
    /// Another changed one.
    Changed(PathBuf),
}

impl Linked {
    #[must_use]
    pub fn path(&self) -> &PathBuf {
        match self {
            Self::Unchanged(twin) => &twin.path,
            Self::Changed(path) => path,
        }
    }
}

fn inode(node: &Node) -> Inode {
    (node.dev, node.ino)
}

/// Tells each change what it has to do with other names of its file.
pub(crate) fn join(found: &mut Found) {
    let twins = std::mem::take(&mut found.twins);
    link(&mut found.changes, twins);
    find_left_behind(&mut found.changes);
}

/// Tells each changed name, all but the first of a file of which none is unchanged, what it is a name of.
fn link(changes: &mut [Change], mut twins: Vec<Twin>) {
    let mut groups: HashMap<Inode, Linked> = HashMap::new();
    twins.retain(|twin| twin.reality.kind == Kind::File);
    twins.sort_by(|a, b| a.path.cmp(&b.path));
    for twin in twins {
        groups.entry(twin.inode).or_insert(Linked::Unchanged(twin));
    }
    // Of changed names, the one that reality has is the one that the others were made of.
    for is_in_reality in [true, false] {
        for change in changes.iter().filter(|c| c.before.is_some() == is_in_reality) {
            if let Some(inode) = shared(change) {
                groups.entry(inode).or_insert_with(|| Linked::Changed(change.path.clone()));
            }
        }
    }
    for change in changes {
        let first = shared(change).and_then(|inode| groups.get(&inode));
        change.linked = first.filter(|first| *first.path() != change.path).cloned();
    }
}

/// The file in the sandbox, if it has several names there.
fn shared(change: &Change) -> Option<Inode> {
    change.after.as_ref().map(|after| &after.node).filter(|node| has_several_names(node)).map(inode)
}

fn has_several_names(node: &Node) -> bool {
    node.kind == Kind::File && node.nlink > 1
}

/// A name that gets a new version is not a name of the old file any more. The others stay what they were, unless the sandbox has
/// changed all of them alike, or deleted them.
fn find_left_behind(changes: &mut [Change]) {
    let real = |c: &Change| c.reality.as_ref().filter(|node| has_several_names(node)).map(|node| (inode(node), node.nlink));
    let made = |c: &Change| c.after.as_ref().map(|after| inode(&after.node));
    let mut together: HashMap<(Inode, Option<Inode>), u32> = HashMap::new();
    for change in changes.iter() {
        if let Some((file, _)) = real(change) {
            *together.entry((file, made(change))).or_default() += 1;
        }
    }
    for change in changes.iter_mut().filter(|c| c.after.is_some()) {
        let Some((file, names)) = real(change) else { continue };
        let count = |after| together.get(&(file, after)).copied().unwrap_or(0);
        change.leaves_names_behind = count(made(change)) + count(None) < names;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use whatif_overlay::Format;

    use super::*;
    use crate::change::{ChangeKind, State};

    fn node(ino: u64, nlink: u32) -> Node {
        Node { kind: Kind::File, ino, nlink, ..Node::of(Path::new("/proc/stat")).unwrap().unwrap() }
    }

    fn change(path: &str, reality: Option<Node>, after: Option<Node>) -> Change {
        let state = |node: Node| State::new(node, path.into(), Format::None);
        let change = Change::new(path.into(), ChangeKind::Modify, reality.clone().map(state), after.map(state));
        Change { reality, ..change }
    }

    fn joined(changes: Vec<Change>, twins: Vec<Twin>) -> Vec<Change> {
        let mut found = Found { changes, twins, ..Found::default() };
        join(&mut found);
        found.changes
    }

    #[test]
    fn a_new_name_is_told_what_it_is_a_name_of() {
        let twin = Twin::of("/old".into(), &node(1, 1), &node(7, 2), false);
        let changes = joined(vec![change("/new", None, Some(node(7, 2)))], vec![twin]);
        assert!(matches!(&changes[0].linked, Some(Linked::Unchanged(twin)) if twin.path == Path::new("/old")));
        assert!(!changes[0].leaves_names_behind);

        let changes =
            joined(vec![change("/a", None, Some(node(7, 2))), change("/old", Some(node(1, 1)), Some(node(7, 2)))], vec![]);
        assert!(
            matches!(&changes[0].linked, Some(Linked::Changed(path)) if path == Path::new("/old")),
            "reality's name comes first"
        );
        assert!(changes[1].linked.is_none());
    }

    #[test]
    fn names_that_stay_behind_are_noticed() {
        let told = |changes| joined(changes, vec![]).iter().map(|c| c.leaves_names_behind).collect::<Vec<_>>();
        let shared = || Some(node(1, 2));
        assert_eq!(told(vec![change("/a", shared(), Some(node(7, 1)))]), [true]);
        assert_eq!(told(vec![change("/a", shared(), Some(node(7, 2))), change("/b", shared(), Some(node(7, 2)))]), [false, false]);
        assert_eq!(told(vec![change("/a", shared(), Some(node(7, 1))), change("/b", shared(), Some(node(8, 1)))]), [true, true]);
        assert_eq!(told(vec![change("/a", shared(), Some(node(7, 1))), change("/b", shared(), None)]), [false, false]);
    }
}
