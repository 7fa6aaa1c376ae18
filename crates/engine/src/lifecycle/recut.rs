//! How the trees of a sandbox are cut when it is mounted again.
//!
//! A head belongs to the directory that it was mounted over. Mounts come and go while a sandbox rests, and the plan of reality then
//! has other trees: one is gone, or lies partly beneath another, or can only be copied. Where the sandbox changed something that
//! would not be seen after that, it is not mounted. A tree in which it never changed anything is given up, and its number with it.

mod beneath;

use std::io;
use std::path::{Path, PathBuf};

use whatif_diff::{Base, Change, Found};
use whatif_sys::absence;
use whatif_types::boot::Masks;
use whatif_types::sandbox::{GIVEN_UP, is_given_up};
use whatif_types::{Backend, LayerId, Plan, Sandbox};

pub(crate) use self::beneath::Beneath;
use crate::EngineError;
use crate::ground::stray_heads::holds_something;
use crate::lifecycle::boot::Wish;
use crate::lifecycle::{Lifecycle, LifecycleError, Recut};
use crate::owner::Owner;
use crate::trees::{copied_trees, tree_of, trees_by_number};

/// What a sandbox is made of when it is mounted.
pub(crate) struct Cut {
    pub plan: Plan,
    pub masks: Masks,
    /// The trees by number, with those that the plan does not have.
    pub trees: Vec<PathBuf>,
}

impl Lifecycle {
    /// Plans a sandbox of reality as it is now.
    pub(crate) fn cut(&self, wish: &Wish<'_>, backend: Backend) -> Result<Cut, EngineError> {
        let known = wish.known_trees.unwrap_or_default();
        let (plan, masks) = self.plan_layers(wish, backend)?;
        self.require_seen(wish, &plan)?;
        let given_up = match wish.mounted_before {
            Some(sandbox) => self.trees_to_give_up(sandbox, &plan)?,
            None => Vec::new(),
        };
        if given_up.is_empty() {
            return Ok(Cut { trees: trees_by_number(known, &plan), plan, masks });
        }
        let mut known = known.to_vec();
        for number in given_up {
            known[number] = Path::new(GIVEN_UP).join(number.to_string());
        }
        let (plan, masks) = self.plan_layers(&Wish { known_trees: Some(&known), ..*wish }, backend)?;
        Ok(Cut { trees: trees_by_number(&known, &plan), plan, masks })
    }

    /// The trees that are not mounted as they were. Refuses if something that the sandbox changed would not be seen.
    fn trees_to_give_up(&self, sandbox: &Sandbox, plan: &Plan) -> Result<Vec<usize>, EngineError> {
        let lost = lost_trees(sandbox, plan);
        let covers = self.covers(sandbox, plan, &lost)?;
        if lost.is_empty() && covers.is_empty() {
            return Ok(lost);
        }
        // Without its project a sandbox is nothing to mount, whatever lies elsewhere.
        self.ground.require_project(sandbox)?;
        let owner = Owner::Sandbox(sandbox.name.clone());
        let refuse = |how: Recut| Err(LifecycleError::MountsChanged { owner: owner.clone(), how }.into());
        let found = self.ground.look(sandbox)?;
        for number in &lost {
            if self.is_precious(sandbox, *number, &found)? {
                let tree = sandbox.details.trees[*number].clone();
                let is_planned = plan.places.iter().any(|place| place.path == tree);
                return refuse(if is_planned { Recut::Split { tree } } else { Recut::Gone { tree } });
            }
        }
        let is_covered = |place: &&PathBuf| found.changes.iter().any(|change| change.path.starts_with(place));
        match covers.iter().find(is_covered) {
            Some(place) => refuse(Recut::Covered { place: place.clone() }),
            None => Ok(lost),
        }
    }

    /// Places of the plan that are new in a tree whose layers have something there.
    fn covers(&self, sandbox: &Sandbox, plan: &Plan, lost: &[usize]) -> Result<Vec<PathBuf>, EngineError> {
        let trees = &sandbox.details.trees;
        let directory = self.ground.directory(sandbox)?;
        let mut covers = Vec::new();
        for place in plan.places.iter().filter(|place| !trees.contains(&place.path)) {
            let Some((number, tree)) = tree_of(sandbox, &place.path).filter(|(number, _)| !lost.contains(number)) else { continue };
            let inside = place.path.strip_prefix(tree).unwrap_or(&place.path);
            let part = number.to_string();
            let mut layers = self.ground.state.parts_of(&sandbox.details.position.stack, &part)?;
            layers.push(directory.join("head").join(part));
            for layer in &layers {
                if has_say(layer, inside).map_err(|e| EngineError::io("examine", layer, e))? {
                    covers.push(place.path.clone());
                    break;
                }
            }
        }
        Ok(covers)
    }

    /// Whether something that is, or was at a snapshot, would be lost with a tree.
    fn is_precious(&self, sandbox: &Sandbox, number: usize, found: &Found) -> Result<bool, EngineError> {
        let mut layers: Vec<LayerId> = sandbox.details.position.stack.clone();
        layers.extend(self.ground.store.list_snapshots(&sandbox.id)?.into_iter().flat_map(|snapshot| snapshot.details.stack));
        let part = number.to_string();
        for layer in self.ground.state.parts_of(&layers, &part)? {
            if holds_something(&layer)? {
                return Ok(true);
            }
        }
        let is_in_it = |path: &Path| tree_of(sandbox, path).is_some_and(|(tree, _)| tree == number);
        // Where reality made the directory again or has none, that it looks different is nothing the sandbox did.
        let is_another = |change: &Change| change.path == sandbox.details.trees[number] && change.base != Base::Reality;
        if found.changes.iter().any(|change| is_in_it(&change.path) && !is_another(change)) {
            return Ok(true);
        }
        // A copy is never empty.
        let is_copied = sandbox.details.copied_trees.contains(&number);
        Ok(!is_copied && holds_something(&self.ground.directory(sandbox)?.join("head").join(part))?)
    }
}

/// The trees that a plan has not, or has in another way.
fn lost_trees(sandbox: &Sandbox, plan: &Plan) -> Vec<usize> {
    let details = &sandbox.details;
    let copied = copied_trees(plan);
    let stays = |number: usize| {
        plan.trees().any(|(planned, _)| planned == number) && copied.contains(&number) == details.copied_trees.contains(&number)
    };
    let numbers = details.trees.iter().enumerate().filter(|(_, tree)| !is_given_up(tree)).map(|(number, _)| number);
    numbers.filter(|number| !stays(*number)).collect()
}

/// Whether a layer has an entry at a path, or something that is no directory on the way to it.
fn has_say(layer: &Path, inside: &Path) -> io::Result<bool> {
    let mut path = layer.to_owned();
    for name in inside {
        path.push(name);
        match absence::look(&path)? {
            None => return Ok(false),
            Some(found) if !found.is_dir() => return Ok(true),
            Some(_) => {}
        }
    }
    Ok(true)
}
