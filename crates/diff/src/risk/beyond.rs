//! Which links outside the project need their own approval.
//!
//! In the project, a link that leads out of it is one: programs that work in the project would read and write elsewhere. Outside,
//! where packages put links next to the files that they lead to, a link is data like a file. It is flagged only if something that is
//! used through it could be what the sandbox never saw, or what it was not to see.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use crate::change::Change;
use crate::node::Kind;

/// A sandbox has its own version of these, so nobody can tell what a link into them stands for in reality.
const NEVER_SHOWN: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/tmp"];
/// The usual way to switch a unit or a setting off.
const NOTHING: &str = "/dev/null";

pub(super) struct Beyond<'a> {
    trees: &'a [PathBuf],
    hidden: &'a dyn Fn() -> Vec<PathBuf>,
    asked: OnceCell<Vec<PathBuf>>,
}

impl<'a> Beyond<'a> {
    pub(super) fn new(trees: &'a [PathBuf], hidden: &'a dyn Fn() -> Vec<PathBuf>) -> Self {
        Self { trees, hidden, asked: OnceCell::new() }
    }

    /// Whether a link outside the project, or another name of a file, is more than data.
    pub(super) fn is_reached_by(&self, change: &Change, targets: &[PathBuf]) -> bool {
        // Programs that wrote to a file or directory would write to another one.
        let redirects = change.before.as_ref().is_some_and(|before| before.node.kind != Kind::Link)
            && change.after.as_ref().is_some_and(|after| after.node.kind == Kind::Link);
        redirects || targets.iter().any(|target| self.is_unseen(target) || self.is_hidden(target))
    }

    fn is_unseen(&self, target: &Path) -> bool {
        let deepest = |places: &mut dyn Iterator<Item = &Path>| {
            places.filter(|place| target.starts_with(place)).map(|place| place.components().count()).max()
        };
        let shown = deepest(&mut self.trees.iter().map(PathBuf::as_path));
        let unshown = deepest(&mut NEVER_SHOWN.iter().map(Path::new));
        target != Path::new(NOTHING) && unshown.is_some() && unshown >= shown
    }

    /// Through a directory around it, what is hidden is as near.
    fn is_hidden(&self, target: &Path) -> bool {
        let hidden = self.asked.get_or_init(self.hidden);
        hidden.iter().any(|hidden| target.starts_with(hidden) || hidden.starts_with(target))
    }
}

#[cfg(test)]
mod tests {
    use whatif_overlay::Format;

    use super::*;
    use crate::change::{ChangeKind, State};
    use crate::node::Node;

    fn change(before: Option<Kind>, after: Kind) -> Change {
        let state = |kind| {
            let node = Node { kind, ..Node::of(Path::new("/proc/stat")).unwrap().unwrap() };
            State::new(node, "/x".into(), Format::None)
        };
        Change::new("/usr/lib/x".into(), ChangeKind::Add, before.map(state), Some(state(after)))
    }

    #[test]
    fn a_link_outside_the_project_is_data_unless_it_leads_where_the_sandbox_could_not_look() {
        let trees = [PathBuf::from("/"), PathBuf::from("/tmp/work")];
        let hidden = || vec![PathBuf::from("/home/u/.ssh"), PathBuf::from("/etc/shadow")];
        let beyond = Beyond::new(&trees, &hidden);
        let is_reached = |target: &str| beyond.is_reached_by(&change(None, Kind::Link), &[PathBuf::from(target)]);
        for data in ["/usr/lib/libx.so.1", "/etc/alternatives/editor", "/dev/null", "/tmp/work/x", "/runs", "/home/u/.config"] {
            assert!(!is_reached(data), "{data}");
        }
        let unseen = ["/proc/self/root", "/dev/sda", "/run/docker.sock", "/tmp/x"];
        for flagged in unseen.into_iter().chain(["/home/u/.ssh/config", "/home/u", "/etc/shadow", "/etc", "/"]) {
            assert!(is_reached(flagged), "{flagged}");
        }
    }

    #[test]
    fn what_is_shown_read_only_was_seen() {
        let trees = [PathBuf::from("/home/u")];
        let hidden = Vec::new;
        let beyond = Beyond::new(&trees, &hidden);
        let is_reached = |target: &str| beyond.is_reached_by(&change(None, Kind::Link), &[PathBuf::from(target)]);
        assert!(!is_reached("/home/u/x") && !is_reached("/usr/lib/x") && is_reached("/proc/x"));
    }

    #[test]
    fn a_link_in_the_place_of_something_else_redirects_what_is_written_there() {
        let trees = [PathBuf::from("/")];
        let hidden = Vec::new;
        let beyond = Beyond::new(&trees, &hidden);
        let target = [PathBuf::from("/usr/lib/y")];
        assert!(beyond.is_reached_by(&change(Some(Kind::File), Kind::Link), &target));
        assert!(beyond.is_reached_by(&change(Some(Kind::Directory), Kind::Link), &target));
        assert!(!beyond.is_reached_by(&change(Some(Kind::Link), Kind::Link), &target));
    }
}
