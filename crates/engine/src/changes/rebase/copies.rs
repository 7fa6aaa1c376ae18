//! Brings up to date what a copy has of reality without having touched it. Through an overlay it shows by itself.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use whatif_diff::base::NewBase;
use whatif_diff::{Bases, Node, State};
use whatif_layers::allotment::beside_head;
use whatif_layers::copy::{self, Depth, Refresh, Stale};
use whatif_layers::remove;
use whatif_overlay::Format;
use whatif_sys::absence;
use whatif_types::plan::PlaceKind;
use whatif_types::{Backend, Sandbox};

use crate::EngineError;
use crate::changes::{Changes, database};
use crate::ground::unfinished::intent;

impl Changes {
    /// Of a sandbox that rests. Returns which databases were left as they are, though reality has others.
    pub(super) fn refresh_copies(&self, sandbox: &Sandbox, directory: &Path) -> Result<Vec<PathBuf>, EngineError> {
        if sandbox.details.copied_trees.is_empty() {
            return Ok(Vec::new());
        }
        let (depths, excluded) = self.lifecycle.with_wish(sandbox, directory, &sandbox.details.position.stack, |wish| {
            let (plan, _) = self.lifecycle.plan_layers(wish, sandbox.details.backend)?;
            let depths = plan.places.iter().filter_map(|place| match place.kind {
                PlaceKind::Writable { .. } if plan.backend == Backend::Copy => Some((place.path.clone(), Depth::Tree)),
                PlaceKind::Skeleton { .. } => Some((place.path.clone(), Depth::Level)),
                _ => None,
            });
            let mut excluded = self.lifecycle.hidden(wish)?;
            excluded.extend(wish.secrets.get()?.unshown()?.all());
            // They are shown where they are, each by itself.
            excluded.extend(plan.places.iter().map(|place| place.path.clone()));
            Ok((depths.collect::<Vec<_>>(), excluded))
        })?;
        let with_journals = database::of_journals(&self.ground.look(sandbox)?.complete(&sandbox.project)?.changes);
        let mut held_back = Vec::new();
        for number in &sandbox.details.copied_trees {
            let Some(tree) = sandbox.details.trees.get(*number) else { continue };
            let copy = directory.join("head").join(number.to_string());
            let depth = depths.iter().find(|(path, _)| path == tree).map(|(_, depth)| *depth);
            // What is not there is not shown at all.
            if let Some(depth) = depth
                && absence::is_dir(&copy).map_err(|e| EngineError::io("examine", &copy, e))?
            {
                let mut bases = self.ground.bases(sandbox)?;
                let note = |plan: &[u8]| intent::note_copy(directory, *number, plan);
                let held = databases_of(&with_journals, tree, &copy)?;
                let outdated = Outdated { tree, copy: &copy, depth, excluded: &excluded, held: &held };
                held_back.extend(refresh(outdated, &mut bases, &beside_head(directory)?.join(STAGING), note)?);
                intent::forget(directory)?;
            }
        }
        Ok(held_back)
    }
}

/// In a sandbox's directory.
const STAGING: &str = "rebase.copies";

/// Those of these files that are databases in the copy of a tree.
fn databases_of(files: &HashSet<PathBuf>, tree: &Path, copy: &Path) -> Result<HashSet<PathBuf>, EngineError> {
    let mut databases = HashSet::new();
    for file in files {
        let Ok(at) = file.strip_prefix(tree).map(|inside| copy.join(inside)) else { continue };
        let failed = |e| EngineError::io("read", &at, e);
        let Some(node) = Node::of(&at).map_err(|errno| failed(errno.into()))? else { continue };
        if database::is_one(&State::new(node, at.clone(), Format::None)).map_err(failed)? {
            databases.insert(file.clone());
        }
    }
    Ok(databases)
}

/// A tree of reality, and what is to become of the copy of it.
struct Outdated<'a> {
    tree: &'a Path,
    copy: &'a Path,
    depth: Depth,
    excluded: &'a [PathBuf],
    held: &'a HashSet<PathBuf>,
}

fn refresh(
    outdated: Outdated<'_>,
    bases: &mut Bases,
    staging: &Path,
    note: impl Fn(&[u8]) -> io::Result<()>,
) -> Result<Vec<PathBuf>, EngineError> {
    let Outdated { tree, copy, depth, excluded, held } = outdated;
    copy::staging(staging)?;
    // What an apply deleted for the sandbox is still deleted in it, should reality get it again.
    let is_absent = |path: &&Path| bases.get(path).is_some_and(|record| record.absent && record.by.is_none());
    let (absent, deleted): (Vec<&Path>, Vec<&Path>) = bases.paths().partition(is_absent);
    let deleted: HashSet<PathBuf> = deleted.into_iter().map(Path::to_owned).collect();
    let mut gone = HashSet::new();
    for path in absent {
        let Ok(inside) = path.strip_prefix(tree) else { continue };
        let at = copy.join(inside);
        // What a rebase that was cut short has not taken away yet is still to go.
        if !absence::exists(&at).map_err(|e| EngineError::io("examine", &at, e))? {
            gone.insert(path.to_owned());
        }
    }
    let is_applied = |path: &&Path| bases.get(path).is_some_and(|record| record.absent && record.by.is_some());
    let applied: HashSet<PathBuf> = bases.paths().filter(is_applied).map(Path::to_owned).collect();
    let stale = Stale { tree, copy, depth, excluded, held, deleted: &deleted, absent: &gone, applied: &applied, staging };
    let mut held_back = Vec::new();
    if let Some(refresh) = Refresh::prepare(stale)? {
        held_back.extend_from_slice(refresh.held_back());
        let failed = |e| EngineError::io("write", copy.with_file_name("base"), e);
        let renewed: HashSet<PathBuf> = refresh.renewed().collect();
        let removed: Vec<PathBuf> = refresh.removed().collect();
        let is_renewed = |path: &Path| path.ancestors().any(|above| renewed.contains(above));
        let looked_at: HashSet<PathBuf> = refresh.looked_at().collect();
        let forgotten: HashSet<PathBuf> = refresh.forgotten().collect();
        let is_forgotten = |path: &Path| path.ancestors().any(|above| forgotten.contains(above));
        let is_outdated = |path: &&Path| is_renewed(path) || is_forgotten(path) || looked_at.contains(*path);
        let outdated = bases.paths().filter(is_outdated);
        let outdated = outdated.map(|path| NewBase::Forget { path: path.to_owned() });
        // The inventory says what these start from. Until it does, what goes must not pass for deleted by the sandbox.
        let new = outdated.chain(removed.iter().map(|path| NewBase::Absent { path: path.clone() })).collect();
        bases.replace(new, None).map_err(failed)?;
        note(&refresh.planned()?).map_err(failed)?;
        refresh.carry_out()?;
        let replaced = removed.into_iter().filter(|path| renewed.contains(path)).map(|path| NewBase::Forget { path });
        bases.replace(replaced.collect(), None).map_err(failed)?;
    }
    remove::tree(staging)?;
    Ok(held_back)
}
