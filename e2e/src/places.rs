//! Several tries of one command, each in a place of its own within one world, and what there is to see before and after.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use crate::{Detail, Tree, World};

/// A project and a state directory of its own. Everything in it is removed with the place.
#[derive(Debug)]
pub struct Place(ManuallyDrop<World>);

impl Place {
    #[must_use]
    pub fn new(world: &World, name: &str) -> Self {
        let mut place = world.with_state(world.dir.join(format!("{name}.state")));
        place.project = world.home.join(name).join("project");
        place.mkdir(&place.project);
        place.mkdir(&place.state);
        Self(place)
    }
}

impl Deref for Place {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.whatif(["rm", "--all", "--yes"]).go().ok();
        }
    }
}

/// Everything that could get lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    pub reality: BTreeMap<String, String>,
    /// What each sandbox changed.
    sandboxes: BTreeMap<String, String>,
    /// The same for its snapshots, whatever they are called.
    snapshots: BTreeMap<String, Vec<String>>,
}

impl World {
    #[track_caller]
    pub fn holdings(&self) -> Holdings {
        let tree = Tree::of(&self.project, Detail::Content).without(".git");
        let text = |path: &std::path::Path| (path.display().to_string(), tree.get(path).unwrap_or_default().to_owned());
        let reality = tree.paths().map(text).collect();
        let (mut sandboxes, mut snapshots) = (BTreeMap::new(), BTreeMap::new());
        for name in self.json(["ls"]).as_array().into_iter().flatten().filter_map(|s| s["name"].as_str().map(str::to_owned)) {
            let patch = |what: &str| self.whatif(["diff", what, "--patch"]).go().ok().stdout;
            let mut frozen: Vec<String> = self.labels(&name).iter().map(|label| patch(&format!("{name}@{label}"))).collect();
            frozen.sort();
            sandboxes.insert(name.clone(), patch(&name));
            snapshots.insert(name, frozen);
        }
        Holdings { reality, sandboxes, snapshots }
    }
}

impl Holdings {
    /// What of `before` is gone although a command that went well would have left it, or is something that neither had.
    #[must_use]
    pub fn lost(&self, before: &Self, after: &Self) -> Vec<String> {
        let mut lost = Vec::new();
        if self.reality != before.reality && self.reality != after.reality {
            lost.push(format!("reality is neither as it was nor as it was to be: {:#?}", self.reality));
        }
        for (name, patch) in &before.sandboxes {
            let goes = !after.sandboxes.contains_key(name);
            match self.sandboxes.get(name).map(String::as_str) {
                None if goes => {}
                // All of it is real.
                Some("") if goes && self.reality == after.reality => {}
                Some(now) if now == patch || after.sandboxes.get(name).is_some_and(|then| then == now) => {}
                now => lost.push(format!("sandbox {name} is now {now:?}")),
            }
        }
        for (name, frozen) in &before.snapshots {
            let (Some(now), Some(then)) = (self.snapshots.get(name), after.snapshots.get(name)) else { continue };
            lost.extend(
                frozen.iter().filter(|s| then.contains(s) && !now.contains(s)).map(|s| format!("a snapshot of {name}: {s}")),
            );
        }
        lost
    }
}
