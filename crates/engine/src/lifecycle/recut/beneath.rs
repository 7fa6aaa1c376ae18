//! Layers that a new sandbox begins over: a template, or what the set-up of a race left.
//!
//! They belong to the directories that they were made over, as a head does. If the trees are cut differently by now, something of
//! them would not be seen, and what is written over it would be taken for something else.

use std::path::{Path, PathBuf};

use whatif_sys::absence;
use whatif_types::sandbox::is_given_up;
use whatif_types::{LayerId, PlaceKind, Plan};

use crate::EngineError;
use crate::ground::stray_heads::holds_something;
use crate::lifecycle::boot::Wish;
use crate::lifecycle::{Lifecycle, LifecycleError, Recut};
use crate::owner::Owner;
use crate::trees::copied_trees;

/// Whose layers they are.
#[derive(Debug)]
pub(crate) struct Beneath<'a> {
    pub owner: Owner,
    /// The trees that are copied in them, by number.
    pub copied_trees: &'a [usize],
    /// Those at which a file system was mounted.
    pub mounted_trees: &'a [usize],
}

impl Lifecycle {
    /// Refuses a plan in which something of the layers would not be seen.
    pub(super) fn require_seen(&self, wish: &Wish<'_>, plan: &Plan) -> Result<(), EngineError> {
        let Some(beneath) = wish.beneath else { return Ok(()) };
        let refuse = |how: Recut| Err(LifecycleError::MountsChanged { owner: beneath.owner.clone(), how }.into());
        let known = wish.known_trees.unwrap_or_default();
        let copied = copied_trees(plan);
        for (number, tree) in known.iter().enumerate().filter(|(_, tree)| !is_given_up(tree)) {
            let is_planned = plan.trees().any(|(planned, _)| planned == number);
            if is_planned && copied.contains(&number) == beneath.copied_trees.contains(&number) {
                continue;
            }
            if self.has_layers_of(wish.stack, number)? {
                let (tree, is_place) = (tree.clone(), plan.places.iter().any(|place| place.path == *tree));
                return refuse(if is_place { Recut::Split { tree } } else { Recut::Gone { tree } });
            }
        }
        // Masks hide what they hide, whatever lies there.
        for place in plan.places.iter().filter(|place| place.kind != PlaceKind::Hidden && !known.contains(&place.path)) {
            if self.has_layers_at(wish.stack, known, &place.path)? {
                return refuse(Recut::Covered { place: place.path.clone() });
            }
        }
        Ok(())
    }

    /// Of the trees at which a file system was mounted, those that layers or a head have something of.
    pub(crate) fn with_changes(
        &self,
        mounted: &[usize],
        stack: &[LayerId],
        head: Option<&Path>,
    ) -> Result<Vec<usize>, EngineError> {
        let mut numbers = Vec::new();
        for number in mounted {
            let is_in_head = |head: &Path| holds_something(&head.join(number.to_string()));
            if self.has_layers_of(stack, *number)? || head.map_or(Ok(false), is_in_head)? {
                numbers.push(*number);
            }
        }
        Ok(numbers)
    }

    fn has_layers_of(&self, stack: &[LayerId], number: usize) -> Result<bool, EngineError> {
        for part in self.ground.state.parts_of(stack, &number.to_string())? {
            if holds_something(&part)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether layers have something at a path or beneath it.
    fn has_layers_at(&self, stack: &[LayerId], trees: &[PathBuf], path: &Path) -> Result<bool, EngineError> {
        let around = trees.iter().enumerate().filter(|(_, tree)| path.starts_with(tree));
        let Some((number, tree)) = around.max_by_key(|(_, tree)| tree.as_os_str().len()) else { return Ok(false) };
        let inside = path.strip_prefix(tree).unwrap_or(path);
        for part in self.ground.state.parts_of(stack, &number.to_string())? {
            if has_something_at(&part, inside)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A directory alone says nothing: those above a change are in a layer, too.
fn has_something_at(part: &Path, inside: &Path) -> Result<bool, EngineError> {
    let mut path = part.to_owned();
    for name in inside {
        path.push(name);
        match absence::look(&path).map_err(|e| EngineError::io("examine", &path, e))? {
            None => return Ok(false),
            Some(found) if !found.is_dir() => return Ok(true),
            Some(_) => {}
        }
    }
    holds_something(&path)
}
