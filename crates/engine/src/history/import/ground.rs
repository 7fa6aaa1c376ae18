//! Where the files of an archive may lie here: only in trees that a sandbox of the importer has or could have, and nowhere that
//! such a sandbox sees something else than reality.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use whatif_archive::Redirect;
use whatif_layers::plan::MADE_ANEW;
use whatif_types::mountinfo::aliases_of;
use whatif_types::{Backend, PlaceKind, Sandbox};

use super::claims::Claims;
use crate::history::{History, HistoryError};
use crate::trees::copied_trees;
use crate::{EngineError, roots};

/// What a sandbox over this reality looks like.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The copy-on-write trees, with their numbers in the archive or, if it does not know them, higher ones.
    trees: Vec<(usize, PathBuf)>,
    /// Those of them that are copied.
    copied: BTreeSet<usize>,
    /// Where no sandbox sees reality: made by the sandbox itself, private to it, or empty.
    unreal: Vec<PathBuf>,
    /// Where places of their own, and mounts of reality, lie on the trees.
    places: Vec<PathBuf>,
    /// What masks hide. They hold whatever name leads there.
    hidden: Vec<PathBuf>,
}

impl History {
    /// Of a sandbox that is about to be made of an archive.
    pub(crate) fn ground_of(&self, sandbox: &Sandbox) -> Result<Ground, EngineError> {
        self.lifecycle.with_wish(sandbox, Path::new("/"), &[], |wish| {
            let survey = self.lifecycle.survey(wish)?;
            let plan = self.lifecycle.plan(wish, &survey, sandbox.details.backend)?;
            let state = self.ground.state.root();
            let mut unreal: Vec<PathBuf> = MADE_ANEW.iter().map(PathBuf::from).collect();
            unreal.extend(survey.private.iter().map(|(path, _)| path.clone()));
            unreal.extend(aliases_of(&survey.mounts, state).into_iter().chain([state.to_owned()]));
            unreal.extend(plan.places.iter().filter(|p| p.kind == PlaceKind::Hidden).map(|p| p.path.clone()));
            let mounts = survey.mounts.iter().map(|mount| mount.mount_point.clone());
            Ok(Ground {
                trees: plan.trees().map(|(number, path)| (number, path.to_owned())).collect(),
                copied: copied_trees(&plan).into_iter().collect(),
                unreal,
                places: plan.places.iter().map(|place| place.path.clone()).chain(mounts).collect(),
                hidden: self.lifecycle.hidden(wish)?,
            })
        })
    }
}

impl Ground {
    /// Refuses trees that lie where a sandbox has no files of reality, and those whose files would be taken for something else.
    pub(crate) fn check_trees(&self, claims: &Claims) -> Result<(), EngineError> {
        let refuse = |why: String| Err(HistoryError::BadArchive { why }.into());
        let details = &claims.details;
        for (number, tree) in details.trees.iter().enumerate() {
            let shown = tree.display();
            if whatif_types::sandbox::is_given_up(tree) {
                continue;
            }
            if !is_plain(tree) {
                return refuse(format!("it names places that are not absolute paths ({shown})"));
            }
            if details.trees[..number].contains(tree) {
                return refuse(format!("it names the place {shown} twice"));
            }
            let is_copied = details.copied_trees.contains(&number);
            if self.trees.iter().any(|(known, _)| *known == number) {
                if is_copied != self.copied.contains(&number) {
                    let there = if is_copied { "a copy" } else { "no copy" };
                    return refuse(format!("it has {there} of {shown}, unlike sandboxes here; mounts beneath it may differ"));
                }
                continue;
            }
            // Not here now, as a mount may not be. It waits for that, if it may ever be one.
            if self.unreal.iter().chain(&self.hidden).any(|place| tree.starts_with(place)) {
                return refuse(format!("it holds files of {shown}, which sandboxes here do not have"));
            }
        }
        Ok(())
    }

    /// The trees that are file systems of their own here, and those that were where the archive comes from and wait for that here.
    pub(crate) fn mounted(&self, claims: &Claims) -> Vec<usize> {
        let here = roots::of(self.trees.iter().map(|(number, path)| (*number, path.as_path())));
        let known: BTreeSet<usize> = self.trees.iter().map(|(number, _)| *number).collect();
        let waiting: Vec<usize> = claims.details.mounted_trees.iter().copied().filter(|number| !known.contains(number)).collect();
        roots::mounts_and(&here, &waiting)
    }

    /// Refuses renamed directories whose lower part would be what mounts cover in the sandbox.
    pub(crate) fn check_redirects(&self, redirects: &[Redirect], trees: &[PathBuf], backend: Backend) -> Result<(), EngineError> {
        for redirect in redirects {
            let target = target_of(redirect, trees).filter(|_| backend == Backend::Overlay);
            if !target.is_some_and(|(tree, target)| self.is_clear(tree, &target)) {
                let (path, target) = (redirect.path.display(), redirect.target.display());
                return Err(
                    HistoryError::BadArchive { why: format!("{path} would show {target}, which sandboxes must not see") }.into()
                );
            }
        }
        Ok(())
    }

    /// Whether nothing at a path of a tree, below it or above it is covered in that tree. So it stays clear for whatever another
    /// redirect appends to it.
    fn is_clear(&self, tree: &Path, target: &Path) -> bool {
        let mut covers = self.unreal.iter().chain(&self.places).filter(|place| place.starts_with(tree) && *place != tree);
        covers.all(|place| !place.starts_with(target) && !target.starts_with(place))
            && !self.hidden.iter().any(|place| target.starts_with(place))
    }
}

/// The tree a redirect lies in, and where in that tree it leads. None if it lies in none.
fn target_of<'a>(redirect: &Redirect, trees: &'a [PathBuf]) -> Option<(&'a Path, PathBuf)> {
    let mut components = redirect.path.components();
    let number: usize = components.nth(1)?.as_os_str().to_str()?.parse().ok()?;
    let tree = trees.get(number)?;
    // The root of a tree has no name to be redirected.
    let parent = components.as_path().parent()?;
    let inside = redirect.target.strip_prefix("/").map_or_else(|_| parent.join(&redirect.target), Path::to_owned);
    Some((tree, tree.join(inside)))
}

/// An absolute path that does not go back.
pub(crate) fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
}
