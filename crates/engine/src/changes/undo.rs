//! `whatif undo`: the reverse of an apply, as a transaction of its own.

mod giving_way;
mod objects;
mod rest;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use whatif_apply::{Change as Act, Changed, Identity, Operation, Part, Plan, UndoPlan};
use whatif_diff::Kind;
use whatif_diff::base::Record;
use whatif_diff::pattern::{Patterns, Scope};
use whatif_types::SandboxId;

use self::giving_way::GivingWay;
use self::objects::AddedObjects;
pub use self::objects::is_git_object;
use crate::changes::apply::{About, BaseAfter, Left, Staged, Transacted, Watch, look_anew};
use crate::changes::database::is_open_database;
use crate::changes::error::ChangedPath;
use crate::changes::history::Page;
use crate::changes::turn::Turn;
use crate::changes::{Changes, ChangesError};
use crate::git_directory::{Fault, Repository};
use crate::{EngineError, now};

/// An undo that could be done.
#[derive(Debug)]
pub struct PreparedUndo {
    /// What is taken back.
    pub page: Page,
    /// What will be restored.
    pub paths: Vec<PathBuf>,
    /// What of the apply stays as it is.
    pub skipped: Vec<PathBuf>,
    /// Those of them that are directories in which others put something.
    pub in_use: Vec<Changed>,
    /// Those of them that were logs, caches and the like, and changed since: they keep nothing from being undone.
    pub gave_way: Vec<Changed>,
    /// Another undo of the same apply may take the rest.
    pub is_in_part: bool,
    /// The id of the undo itself.
    pub id: String,
    plan: Plan,
    /// Nobody else applies in these trees meanwhile.
    turn: Option<Turn>,
}

impl PreparedUndo {
    /// What an earlier apply left unfinished in these trees, and what became of it.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.turn.as_ref().map_or(&[], |turn| &turn.notes)
    }

    /// Of what is taken back, what was not there before and goes.
    #[must_use]
    pub fn removed(&self) -> HashSet<PathBuf> {
        let goes = |o: &&Operation| matches!(o.change, Act::Remove);
        self.plan.operations.iter().filter(goes).map(|o| o.absolute(&self.plan.roots)).collect()
    }
}

/// What is to be undone.
#[derive(Clone, Debug, Default)]
pub struct UndoRequest {
    /// An apply or an undo; by default the latest apply in this project that was not undone.
    pub id: Option<String>,
    /// Patterns of what to take back; all of it if there are none.
    pub files: Vec<String>,
    /// Patterns of what stays as it is.
    pub skip: Vec<String>,
}

impl Changes {
    /// The same for an undo that follows at once: until then no apply comes between.
    pub(crate) fn prepare_undo_in_turn(&self, request: &UndoRequest, watch: &mut Watch<'_>) -> Result<PreparedUndo, EngineError> {
        let page = self.page_to_undo(request.id.as_deref())?;
        let roots = whatif_apply::read(&self.ground.state.apply_path(&page.id))?.roots;
        let turn = Some(self.take_turn(&roots, watch)?);
        let named = UndoRequest { id: Some(page.id), ..request.clone() };
        Ok(PreparedUndo { turn, ..self.prepare_undo(&named)? })
    }

    fn page_to_undo(&self, id: Option<&str>) -> Result<Page, EngineError> {
        match id {
            Some(id) => self.page(id),
            None => self.latest_apply(),
        }
    }

    /// Finds out what an undo would do.
    pub fn prepare_undo(&self, request: &UndoRequest) -> Result<PreparedUndo, EngineError> {
        let page = self.page_to_undo(request.id.as_deref())?;
        let directory = self.ground.state.apply_path(&page.id);
        let done = whatif_apply::read(&directory)?;
        let roots = [page.project.as_path(), self.ground.caller.cwd.as_path()];
        let all = found_by(&done);
        // What an earlier undo left, by what it wrote down.
        let rest = self.rest_of(&page)?;
        let found: HashMap<PathBuf, Option<&Identity>> = all
            .iter()
            .filter(|(path, _)| rest.as_ref().is_none_or(|rest| rest.contains(*path)))
            .map(|(p, i)| (p.clone(), *i))
            .collect();
        if let Some(by) = page.undone_by.as_ref().filter(|_| found.keys().all(|path| is_git_object(path)) || rest.is_none()) {
            return Err(ChangesError::Undone { id: page.id, by: by.clone() }.into());
        }
        let known: Vec<&Path> = found.keys().map(|path| path.as_ref()).collect();
        let scope = Scope::of_command(&roots, &known);
        let skip = Patterns::protecting(&request.skip, scope)?;
        let files = Patterns::new(&request.files, scope)?;
        let mut mistake = None;
        let nothing = |pattern: &String| ChangesError::NothingToSkip { id: page.id.clone(), pattern: pattern.clone() };
        for pattern in &request.skip {
            let one = Patterns::protecting(std::slice::from_ref(pattern), scope)?;
            if !found.keys().any(|path| one.matches(path)) {
                mistake = Some(nothing(pattern));
            }
        }
        for pattern in &request.files {
            let one = Patterns::new(std::slice::from_ref(pattern), scope)?;
            if !found.keys().any(|path| one.matches(path)) {
                mistake = Some(nothing(pattern));
            }
        }
        let is_partial = !request.skip.is_empty() || !request.files.is_empty() || rest.is_some();
        let is_chosen = |path: &Path| files.is_empty() || files.matches(path);
        if is_partial && found.keys().all(|path| skip.matches(path) || !is_chosen(path)) {
            mistake = mistake.or(Some(ChangesError::SkipsEverything { id: page.id.clone() }));
        }
        if let Some(mistake) = mistake {
            return Err(mistake.into());
        }
        // The directories that something chosen lies in come and go with it.
        let chosen = found.keys().filter(|path| is_chosen(path) && !skip.matches(path));
        let on_the_way: HashSet<&Path> = chosen.flat_map(|path| path.ancestors().skip(1)).collect();
        let is_undone = |path: &Path| all.contains_key(path) && !found.contains_key(path);
        let attributes = done.operations.iter().filter(|o| matches!(o.operation.change, Act::Set { .. }));
        let attributes: HashSet<PathBuf> = attributes.map(|o| o.operation.absolute(&done.roots)).collect();
        // Around what is chosen, and there before and after: nothing is said about it.
        let is_around = |path: &Path| !is_chosen(path) && on_the_way.contains(path) && attributes.contains(path);
        let is_apart = |path: &Path| is_undone(path) || is_around(path);
        let objects = AddedObjects::of(&found, page.at, is_partial)?;
        let is_added_object = |path: &Path| objects.stay(path);
        let is_left = |path: &Path| skip.matches(path) || !is_chosen(path) && !is_undone(path) && !on_the_way.contains(path);
        let about: About = serde_json::from_value(done.about.clone()).map_err(|e| EngineError::io("read", &directory, e.into()))?;
        let means_the_same = |path: &Path| Staged::is_same(&about.staged, path);
        let plan_without = |gave_way: &HashSet<PathBuf>| {
            let stays = |path: &Path| is_left(path) || is_added_object(path) || gave_way.contains(path);
            whatif_apply::undo_plan_of(&directory, Part { stays: &stays, is_undone: &is_apart, means_the_same: &means_the_same })
        };
        let mut undo = plan_without(&HashSet::new())?;
        let mut gave_way = Vec::new();
        if !undo.changed.is_empty() {
            let giving_way = GivingWay::of(self, &page, &undo.grown)?;
            gave_way = giving_way.all(&undo.changed, &|path| files.names(path));
            if !gave_way.is_empty() {
                let blocking: Vec<Changed> = undo.changed.iter().filter(|one| !gave_way.contains(one)).cloned().collect();
                undo = plan_without(&gave_way.iter().map(|one| one.path.clone()).collect())?;
                // A directory around what stays may have been in the way of something else.
                undo.changed.extend(
                    blocking.into_iter().filter(|one| undo.changed.iter().all(|known| known.path != one.path)).collect::<Vec<_>>(),
                );
            }
        }
        let UndoPlan { mut plan, mut changed, in_use, .. } = undo;
        // There would be nothing to tell of an undo but that; and who is refused is told everything.
        if !changed.is_empty() || plan.operations.iter().all(|o| matches!(o.change, Act::Set { .. })) {
            changed.extend_from_slice(&in_use);
            if changed.is_empty() {
                changed.append(&mut gave_way);
            }
            changed.sort_by(|a, b| a.path.cmp(&b.path));
        }
        if !changed.is_empty() {
            return Err(ChangesError::ChangedSince {
                id: page.id,
                changed: changed.into_iter().map(|c| with_backup(c, &done)).collect(),
            }
            .into());
        }
        let undone: HashSet<PathBuf> = plan.operations.iter().map(|o| o.absolute(&plan.roots)).collect();
        let mut opened = Vec::new();
        for path in plan.operations.iter().filter(|o| !matches!(o.change, Act::Set { .. })).map(|o| o.absolute(&plan.roots)) {
            let is_open = is_open_database(&path, |journal| undone.contains(journal));
            if is_open.map_err(|e| EngineError::io("look at", &path, e))? {
                let why = "is a database that is open, and its journal would be brought into another file: close it first";
                opened.push(ChangedPath { path, why: why.to_owned(), earlier: None });
            }
        }
        if !opened.is_empty() {
            return Err(ChangesError::ChangedSince { id: page.id, changed: opened }.into());
        }
        let used = self.used_in_repositories(&plan, &page)?;
        if !used.is_empty() {
            return Err(ChangesError::ChangedSince { id: page.id, changed: used }.into());
        }
        let is_in_use = |path: &Path| in_use.iter().any(|one| one.path == path);
        let has_given_way = |path: &Path| gave_way.iter().any(|one| path.starts_with(&one.path) || one.path.starts_with(path));
        let may_stay = |path: &Path| is_partial || is_added_object(path) || is_in_use(path) || has_given_way(path);
        // Of these the times may come back, and nothing else.
        let is_skipped = |path: &&PathBuf| may_stay(path) && (!undone.contains(*path) || is_apart(path));
        let mut skipped: Vec<PathBuf> = found.keys().filter(is_skipped).cloned().collect();
        skipped.sort();
        let is_permanent = |path: &Path| is_added_object(path) || is_in_use(path) || has_given_way(path) || skip.matches(path);
        let is_in_part = !request.files.is_empty() && skipped.iter().any(|path| !is_permanent(path));
        let undo = About {
            id: crate::ids::new_id()?.to_string(),
            at: now(),
            who: self.ground.caller.principal.to_string(),
            undo_of: Some(page.id.clone()),
            takes_back: !about.takes_back,
            bases: bases_again(&about, &found, &skipped),
            bases_before: self.bases_now(&about, &undone)?,
            only_times: undone.iter().filter(|path| !found.contains_key(*path) || skipped.contains(path)).cloned().collect(),
            skipped: skipped.clone(),
            in_part: is_in_part,
            staged: Staged::by(&plan),
            packages: Vec::new(),
            ..about
        };
        let id = undo.id.clone();
        plan.about = serde_json::to_value(&undo).map_err(|e| EngineError::io("describe", &directory, e.into()))?;
        let restored = plan.operations.iter().map(|o| (o.absolute(&plan.roots), o));
        let paths = restored.filter(|(path, o)| page.is_told_of_undo(o, path) && !is_apart(path)).map(|(path, _)| path).collect();
        Ok(PreparedUndo { page, paths, skipped, in_use, gave_way, is_in_part, id, plan, turn: None })
    }

    /// Says what there is to be known about it.
    pub(crate) fn undo(&self, prepared: &PreparedUndo, watch: &mut Watch<'_>) -> Result<Vec<String>, EngineError> {
        let Transacted { sandbox, is_outdated, mut notes } =
            self.transact(&prepared.id, &prepared.plan, prepared.turn.as_ref(), Left::Look, None, watch)?;
        // The sandbox may be gone; what it did is undone all the same.
        if let Some(sandbox) = sandbox.filter(|_| look_anew::is_due(&prepared.plan, is_outdated)) {
            let looked = self.ground.lock(&sandbox).and_then(|lock| self.look_anew(sandbox, &lock, &prepared.plan, is_outdated));
            notes.extend(look_anew::unseen(looked));
        }
        notes.extend(prepared.in_use.iter().map(|one| format!("{} stays: it {}", one.path.display(), one.why)));
        Ok(notes)
    }

    /// Branches that an undo would take from under reality, or put back onto objects that are gone.
    fn used_in_repositories(&self, plan: &Plan, page: &Page) -> Result<Vec<ChangedPath>, EngineError> {
        let repositories = Repository::written_by(plan)?;
        Repository::require_rest(&repositories)?;
        let mut used = Vec::new();
        for repository in &repositories {
            let faults = self.git_faults(repository, page.at, &page.project)?;
            used.extend(faults.into_iter().map(|Fault { path, why }| ChangedPath { path, why: why.to_owned(), earlier: None }));
        }
        Ok(used)
    }

    /// What the sandbox starts from now at the paths that an undo restores; none if it is gone.
    fn bases_now(&self, about: &About, paths: &HashSet<PathBuf>) -> Result<Vec<Record>, EngineError> {
        let Some(id) = SandboxId::parse(&about.sandbox_id) else { return Ok(Vec::new()) };
        let (Some(sandbox), Some(_)) = (self.ground.store.get(&id)?, self.ground.state.find(&id)?) else { return Ok(Vec::new()) };
        let bases = self.ground.bases(&sandbox)?;
        let renamed = about.in_place.iter().map(|r| &r.path).filter(|path| !paths.contains(*path));
        Ok(paths.iter().chain(renamed).filter_map(|path| bases.get(path)).cloned().collect())
    }

    fn latest_apply(&self) -> Result<Page, EngineError> {
        let here = &self.ground.caller.cwd;
        let pages = self.history()?.into_iter().filter(|p| p.undone_by.is_none() && p.undo_of.is_none());
        let (mut in_project, elsewhere): (Vec<Page>, Vec<Page>) = pages.partition(|p| here.starts_with(&p.project));
        if in_project.is_empty() {
            let beneath: BTreeSet<PathBuf> = elsewhere.into_iter().map(|p| p.project).filter(|p| p.starts_with(here)).collect();
            return Err(ChangesError::NothingToUndo { beneath: beneath.into_iter().collect() }.into());
        }
        Ok(in_project.swap_remove(0))
    }
}

/// What is in the way of an undo, and where the earlier version of it lies.
fn with_backup(changed: Changed, done: &whatif_apply::Record) -> ChangedPath {
    let recorded = done.operations.iter().find(|o| o.operation.absolute(&done.roots) == changed.path);
    ChangedPath { path: changed.path, why: changed.why, earlier: recorded.and_then(|o| o.backup.clone()) }
}

/// What an apply found at each of its paths.
fn found_by(done: &whatif_apply::Record) -> HashMap<PathBuf, Option<&Identity>> {
    let operations = done.operations.iter().map(|recorded| &recorded.operation);
    operations.map(|o| (o.absolute(&done.roots), o.expected.identity())).collect()
}

/// What the sandbox starts from again once an apply is undone.
fn bases_again(about: &About, found: &HashMap<PathBuf, Option<&Identity>>, skipped: &[PathBuf]) -> Vec<BaseAfter> {
    let is_in_place = |path: &Path| about.in_place.iter().any(|r| r.path == path);
    // Earlier versions wrote down more: what `--ours` settled, which stays settled.
    let is_undone = |r: &&Record| (found.contains_key(&r.path) || is_in_place(&r.path)) && !skipped.contains(&r.path);
    let before = about.bases_before.iter().filter(is_undone).cloned();
    let again = |record: Record| match found.get(&record.path) {
        Some(Some(found)) if was_found(&record, found) => BaseAfter::Restored(record),
        _ => BaseAfter::Again(record),
    };
    before.map(again).collect()
}

/// Whether an apply found reality as the record says.
fn was_found(record: &Record, found: &Identity) -> bool {
    let known = &record.node;
    known.ino == found.ino
        && (known.kind == Kind::Directory || (known.size, known.mtime, known.ctime) == (found.size, found.mtime, found.ctime))
}
