//! `whatif apply`: chooses, decides, plans, and makes it real.
//!
//! `select` says which changes are wanted, `decide` what each means for reality as it is now, `plan` turns that into a
//! transaction, `whatif_apply` carries it out, `finish` writes down what happened. Up to the transaction nothing is written.

mod beneath;
mod copy_up;
mod decide;
mod document;
mod finish;
mod held;
mod in_place;
pub(crate) mod look_anew;
mod names;
mod packages;
mod parents;
mod plan;
mod recovery;
mod repository;
mod select;
mod sources;
mod staged;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
pub use whatif_apply::{ApplyError, Progress, Stage};
use whatif_apply::{Plan, Verdict};
use whatif_diff::base::Record;
use whatif_diff::digest::{self, Form};
use whatif_diff::pattern::{Patterns, Scope};
use whatif_diff::{Bases, Change, Depth, Node, Renamed, Unreadable};
use whatif_layers::state_dir::SandboxLock;
use whatif_types::text::{self, Text};
use whatif_types::{Sandbox, Selector};

pub use self::document::{applied_document, nothing_document, plan_document};
pub(crate) use self::finish::{After, Left};
pub use self::packages::TakenPackages;
pub(crate) use self::parents::{IN_DOUBT, filled, is_in_doubt};
pub(crate) use self::plan::root_of;
pub use self::select::{HunkChoice, LeftOut, Options};
pub(crate) use self::staged::Staged;
use crate::changes::commit::Coming;
use crate::changes::turn::Turn;
use crate::changes::{Changes, ChangesError};
use crate::git_directory::{GitDirectories, Repository};
use crate::ground::still::Still;
use crate::lifecycle::marks::Mark;
use crate::merge::Looks;
pub use crate::merge::{Conflict, OtherName, Outlook, Reason, Side, outlook};
use crate::{EngineError, Trouble, now};

/// How the caller follows a transaction, and stops it.
pub(crate) struct Watch<'a> {
    pub progress: &'a mut dyn FnMut(Progress),
    /// Once it says so, a transaction that is not committed is taken back. One that is committed is finished.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct ApplyRequest {
    pub sandbox: Selector,
    /// Patterns of what to take; named paths count as approved.
    pub files: Vec<String>,
    pub exclude: Vec<String>,
    pub hunks: Vec<HunkChoice>,
    /// Names of packages or package managers, whose files to take, wherever they are.
    pub packages: Vec<String>,
    /// Everything in the project.
    pub all: bool,
    pub risky: bool,
    pub outside: bool,
    pub ignored: bool,
    /// Keep reality's version.
    pub ours: Vec<String>,
    /// Take the sandbox's version.
    pub theirs: Vec<String>,
    /// Leave it for later.
    pub skip: Vec<String>,
    /// The digest of the change set that was looked at.
    pub digest: Option<String>,
}

impl ApplyRequest {
    /// What the project's rules let through unasked, and nothing besides.
    #[must_use]
    pub fn of(sandbox: Selector) -> Self {
        Self {
            sandbox,
            files: Vec::new(),
            exclude: Vec::new(),
            hunks: Vec::new(),
            packages: Vec::new(),
            all: false,
            risky: false,
            outside: false,
            ignored: false,
            ours: Vec::new(),
            theirs: Vec::new(),
            skip: Vec::new(),
            digest: None,
        }
    }
}

/// What is left out, by the reason and what would take it.
pub type ByReason = BTreeMap<(Reason, Options), Vec<LeftOut>>;

/// Everything that will happen, before any of it has.
#[derive(Debug)]
pub struct Prepared {
    pub sandbox: Sandbox,
    pub digest: String,
    /// In the order of their paths.
    pub steps: Vec<Step>,
    pub conflicts: Vec<Conflict>,
    pub left_out: Vec<LeftOut>,
    /// Already real, or taken back by the sandbox itself.
    pub unchanged: Vec<PathBuf>,
    /// What reality had made as well, among other changes: nothing is written there, but the sandbox starts from it.
    pub(crate) already: Vec<PathBuf>,
    /// Packages of which something is taken.
    pub packages: Vec<TakenPackages>,
    /// Changed since they were decided about in a review.
    pub lapsed: Vec<PathBuf>,
    /// Added and deleted, if a policy wants to know and all of it has lines.
    pub(crate) lines: Option<usize>,
    /// Everything the sandbox changed, and what of it will be real as a whole.
    counts: (u64, u64),
    pub(crate) plan: Plan,
    lock: SandboxLock,
    /// Nobody else applies in the project meanwhile. Without one it is waited for later, and the plan may be overtaken.
    turn: Option<Turn>,
    /// Its processes are held still for as long as nobody is asked anything.
    still: Option<Still>,
}

/// One thing that will happen, for people.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub what: What,
    /// It becomes a hard link to this one.
    #[serde(skip)]
    pub link_to: Option<PathBuf>,
    /// Other names of the file in reality keep what they have.
    #[serde(skip)]
    pub leaves_names_behind: bool,
    /// A review rejected it, and who applies asked for it all the same.
    #[serde(skip)]
    pub was_rejected: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Add,
    Replace,
    Merge,
    /// Some of its hunks.
    Part,
    Delete,
    Attributes,
}

/// What is kept with the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct About {
    pub id: String,
    /// Milliseconds since 1970.
    pub at: u64,
    pub who: String,
    pub sandbox_id: String,
    pub sandbox: String,
    pub command: Vec<String>,
    #[serde(with = "text::path")]
    pub project: PathBuf,
    #[serde(default)]
    pub undo_of: Option<String>,
    /// It puts back what the sandbox started from.
    #[serde(default)]
    pub takes_back: bool,
    /// What the sandbox starts from at these paths once this is done; elsewhere, reality as it is then.
    pub bases: Vec<BaseAfter>,
    /// What it started from before, for an undo. Not where `--ours` settled something: that is not undone.
    pub bases_before: Vec<Record>,
    /// Directories that get nothing but their times back. What the sandbox started from there stays what it is.
    #[serde(default, with = "text::paths")]
    pub only_times: Vec<PathBuf>,
    /// Of an undo: what of the apply stays as it is.
    #[serde(default, with = "text::paths")]
    pub skipped: Vec<PathBuf>,
    /// Of an undo: another one may take the rest.
    #[serde(default)]
    pub in_part: bool,
    /// Renamed directories that are real as a whole once this is done.
    #[serde(default)]
    pub in_place: Vec<InPlace>,
    /// What its layers need not say any more then.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// By the indexes of git that it puts in place.
    #[serde(default)]
    pub staged: Vec<Staged>,
    /// The packages of which it takes something, as `manager:name`.
    #[serde(default)]
    pub packages: Vec<String>,
}

/// A renamed directory, and where it was, relative to its tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InPlace {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    #[serde(with = "text::path")]
    pub source: PathBuf,
}

impl InPlace {
    fn of(renamed: &Renamed) -> Self {
        Self { path: renamed.path.clone(), source: renamed.source.clone() }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum BaseAfter {
    Content {
        path: Text,
        bytes: Text,
        reconciled: bool,
        /// Reality's, if there are none.
        #[serde(default)]
        looks: Option<Looks>,
        /// What reality has there, if nothing is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        there: Option<Node>,
    },
    /// Reality's bytes with these attributes, or, as long as the sandbox has not touched it since, what it has.
    Looks { path: Text, looks: Looks, reconciled: bool, equal_to: Option<(u64, whatif_diff::Time)> },
    /// Reality's version was chosen: what the sandbox has is its base, whatever reality has or gets.
    Settled(Settled),
    /// What it started from before, whatever is in reality.
    Again(Record),
    /// The same; reality had just that, and has it again once this is done.
    Restored(Record),
}

/// What the sandbox had when its change of a path was settled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settled {
    #[serde(with = "text::path")]
    path: PathBuf,
    /// `None` if it had deleted it.
    #[serde(default)]
    left: Option<SettledState>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SettledState {
    node: Node,
    looks: Looks,
    /// Of a file that is not too long to be kept.
    #[serde(default)]
    bytes: Option<Text>,
}

/// A transaction that is done.
pub(crate) struct Transacted {
    /// As it is recorded now, if it still exists.
    pub sandbox: Option<Sandbox>,
    /// It has to be mounted again to see what became real.
    pub is_outdated: bool,
    /// What others did to a path in the last moment, and what could not be done as it was planned.
    pub notes: Vec<String>,
}

/// An apply that is done.
#[derive(Debug)]
pub struct Applied {
    /// As the history knows it; `None` if nothing had to be written.
    pub id: Option<String>,
    pub sandbox: Sandbox,
    pub steps: Vec<Step>,
    pub left_out: Vec<LeftOut>,
    pub packages: Vec<TakenPackages>,
    pub unchanged: Vec<PathBuf>,
    pub lapsed: Vec<PathBuf>,
    /// Whether the sandbox has nothing left that is not real.
    pub nothing_left: bool,
    /// What others did to a path in the last moment, and what could not be done as it was planned.
    pub notes: Vec<String>,
}

impl Changes {
    /// The same for an apply that follows at once: until then no other one comes between.
    pub(crate) fn prepare_apply_in_turn(&self, request: &ApplyRequest, watch: &mut Watch<'_>) -> Result<Prepared, EngineError> {
        let sandbox = self.ground.resolve_to_use(&request.sandbox)?;
        let turn = self.take_turn_in_project(&sandbox, watch)?;
        let named = ApplyRequest { sandbox: (&sandbox).into(), ..request.clone() };
        Ok(Prepared { turn, ..self.prepare_apply(&named)? })
    }

    /// Finds out what an apply would do. Conflicts are part of the answer.
    pub(crate) fn prepare_apply(&self, request: &ApplyRequest) -> Result<Prepared, EngineError> {
        let sandbox = self.ground.resolve_to_use(&request.sandbox)?;
        let lock = self.ground.lock(&sandbox)?;
        let sandbox = self.ground.refresh(&sandbox)?;
        self.ground.require_current(&sandbox)?;
        let still = self.ground.hold_still(&sandbox)?;
        let binding = still.binding(request.digest.as_deref());
        let mut found = self.ground.look_closely(&sandbox)?;
        // What could not be looked at is not real afterwards.
        let raw = (found.changes.len() + found.unreadable.len()) as u64;
        let (renamed, behind) = (std::mem::take(&mut found.renamed), std::mem::take(&mut found.behind));
        // Whoever takes everything need not be told what of it is risky.
        let depth = if request.all { Depth::Names } else { Depth::Review };
        let set = self.ground.sort_out(&sandbox, found, depth, binding)?;
        let roots = [sandbox.project.as_path(), self.ground.caller.cwd.as_path()];
        let known: Vec<&Path> = set
            .changes
            .iter()
            .chain(&behind)
            .flat_map(|c| [Some(c.path.as_path()), c.old_path()])
            .flatten()
            .chain(set.unreadable.iter().map(|u| u.path.as_path()))
            .collect();
        let scope = Scope::of_command(&roots, &known);
        let excluded = Patterns::protecting(&request.exclude, scope)?;
        // What the sandbox closed outside the project is not asked for, unless it is.
        let is_about = |u: &Unreadable| u.path.starts_with(&sandbox.project) || sandbox.project.starts_with(&u.path);
        let is_asked_for = |u: &Unreadable| is_about(u) || request.outside || !u.is_closed();
        if let Some(missed) = set.unreadable.iter().find(|u| is_asked_for(u) && !excluded.matches(&u.path)) {
            return Err(missed.clone().into());
        }
        if let Some(seen) = request.digest.as_ref().filter(|d| **d != set.digest) {
            return Err(ChangesError::Moved { name: sandbox.name, seen: seen.clone(), now: set.digest }.into());
        }
        let config = self.ground.caller.config_for(&sandbox.project)?;
        let review = self.review(&sandbox, &set)?;
        // By its name, for whoever is told what to do about a mistake.
        let called = ApplyRequest { sandbox: sandbox.name.as_str().into(), ..request.clone() };
        let called_again = |pattern: &str| self.is_applied(&sandbox, pattern);
        let installed_again = |package: &str| self.is_package_applied(&sandbox, package);
        select::check_that_all_mean_something(&called, &known, scope, &called_again)?;
        let selection = select::select(&set, &called, &review, &config.policy, scope, &installed_again)?;
        let chosen = selection.chosen.iter().flat_map(|c| [Some(c.change.path.as_path()), c.change.old_path()]).flatten();
        self.ground.require_same_mounts(&sandbox, chosen)?;
        let lines = self.ground.caller.config.policy.auto_approve.as_ref().and_then(|_| selection.lines());
        let was_rebased = sandbox.details.based_at.is_some();
        let mut git_directories = GitDirectories::with(&set.changes);
        let locks = repository::locks(&selection.chosen, &mut git_directories)?;
        let mut decider = decide::Decider::new(request, scope, was_rebased, locks)?;
        let bases = self.ground.bases(&sandbox)?;
        let (left_out, times, uid) = (&selection.left_out, config.apply.times, self.ground.caller.uid);
        let named = held::Named::by(request, scope, &sandbox.project)?;
        let mut put_back: Vec<Change> = Vec::new();
        let mut planned = loop {
            let (sandbox, set, behind, decided_by) = (&sandbox, &set, &behind, &decider);
            let wanted = plan::Scope { sandbox, set, behind, put_back: &put_back, decider: decided_by, left_out, times, uid };
            let mut decided = decider.all(&selection.chosen, &set.changes, &bases)?;
            for object in put_back.iter().filter(|change| !change.is_directory()) {
                decided.push(decide::put_back(object)?);
            }
            let planned = plan::plan(&wanted, decided)?;
            let (sources, within) = (sources::to_keep(set, &planned)?, beneath::to_keep(set, &planned));
            let held = held::to_hold(set, left_out, &planned, &named)?;
            let objects = repository::objects_to_keep(&planned, &mut git_directories)?;
            // All count, one after the other.
            if decider.keep(sources) | decider.keep(within) | decider.hold(held) | decider.keep_objects(objects) {
                continue;
            }
            // Of what is planned then; with them it is planned once more.
            if put_back.is_empty() {
                put_back = self.pruned_objects(&planned, behind, &excluded, sandbox)?;
                if !put_back.is_empty() {
                    continue;
                }
            }
            break planned;
        };
        planned.left_out.extend(settled_before(&behind, &bases, &Patterns::new(&request.theirs, scope)?));
        planned.conflicts.extend(self.git_conflicts(&planned, &set, &sandbox)?);
        if !planned.conflicts.is_empty() {
            let mut renamed = OtherName::all(&set.changes);
            planned.conflicts.iter_mut().for_each(|conflict| conflict.renamed = renamed.remove(conflict.path.as_path()));
        }
        let whole = in_place::Whole::of(&set, &planned);
        let in_place: Vec<InPlace> = renamed.iter().filter(|r| whole.is_real(&r.path)).map(InPlace::of).collect();
        let marks = self.lifecycle.marks_to_drop(&sandbox, &renamed, &|directory| whole.is_real(directory))?;
        let about = About {
            id: crate::ids::new_id()?.to_string(),
            at: now(),
            who: self.ground.caller.principal.to_string(),
            sandbox_id: sandbox.id.to_string(),
            sandbox: sandbox.name.clone(),
            command: sandbox.details.command.clone(),
            project: sandbox.project.clone(),
            undo_of: None,
            takes_back: false,
            bases_before: planned
                .paths
                .iter()
                .chain(in_place.iter().map(|r| &r.path))
                .filter_map(|p| bases.get(p))
                .cloned()
                .collect(),
            bases: planned.bases,
            only_times: Vec::new(),
            skipped: Vec::new(),
            in_part: false,
            in_place,
            marks,
            staged: Staged::by(&planned.plan),
            packages: packages::touched(&set, &planned.steps),
        };
        planned.plan.about = serde_json::to_value(&about).map_err(|e| EngineError::io("describe", &sandbox.project, e.into()))?;
        // What was settled along with the new name of a rename is not left for later.
        let has_settled: HashSet<&PathBuf> = planned.settled.iter().collect();
        // An ignored directory is made all the same if something in it is taken.
        let has_step: HashSet<&PathBuf> = planned.steps.iter().map(|s| &s.path).collect();
        let mut left_out = selection.left_out;
        left_out.retain(|l| !has_settled.contains(&l.path) && !has_step.contains(&l.path));
        for step in &mut planned.steps {
            step.was_rejected = review.has_rejected(&step.path, step.what == What::Part);
        }
        let unchanged: HashSet<&PathBuf> = planned.unchanged.iter().collect();
        let already = planned.already.iter().filter(|path| unchanged.contains(path)).count();
        let settled = planned.steps.iter().filter(|s| s.what != What::Part).count() + planned.settled.len() + already;
        let settled = settled as u64;
        let left_out = [left_out, planned.left_out].concat();
        let packages = packages::taken(&set, &planned.steps, &[&planned.unchanged, &planned.already], &left_out);
        Ok(Prepared {
            digest: set.digest.clone(),
            steps: planned.steps,
            conflicts: planned.conflicts,
            left_out,
            packages,
            unchanged: planned.unchanged,
            already: planned.already,
            lapsed: review.lapsed.into_iter().collect(),
            lines,
            counts: (raw, settled),
            plan: planned.plan,
            sandbox,
            lock,
            turn: None,
            still: Some(still),
        })
    }

    /// Checks everything an apply needs, without writing.
    pub(crate) fn check_apply(&self, prepared: &Prepared) -> Result<(), EngineError> {
        Ok(whatif_apply::check(&prepared.plan, self.ground.state.root())?)
    }

    /// Makes it real. Whatever fails, reality is then as it was before or as it is to be, never between.
    pub(crate) fn apply(&self, prepared: Prepared, watch: &mut Watch<'_>) -> Result<Applied, EngineError> {
        self.apply_with(prepared, None, watch)
    }

    /// The same, with a commit in the same transaction.
    pub(crate) fn apply_with(
        &self,
        prepared: Prepared,
        commit: Option<&mut Coming>,
        watch: &mut Watch<'_>,
    ) -> Result<Applied, EngineError> {
        if !prepared.conflicts.is_empty() {
            return Err(ChangesError::conflicts(&prepared.sandbox, prepared.conflicts).into());
        }
        // Also of what had to be added to what was chosen, and now that somebody was asked.
        let written: Vec<PathBuf> = prepared.plan.operations.iter().map(|o| o.absolute(&prepared.plan.roots)).collect();
        self.ground.require_same_mounts(&prepared.sandbox, written.iter().map(PathBuf::as_path))?;
        // While somebody was asked, the sandbox went on.
        if prepared.still.is_none() {
            let still = self.ground.hold_still(&prepared.sandbox)?;
            let now = digest::of(&self.ground.look_closely(&prepared.sandbox)?.changes, Form::of(&prepared.digest));
            if now != prepared.digest {
                return Err(ChangesError::Moved { name: prepared.sandbox.name, seen: prepared.digest, now }.into());
            }
            return self.carry_out(Prepared { still: Some(still), ..prepared }, commit, watch);
        }
        self.carry_out(prepared, commit, watch)
    }

    fn carry_out(&self, prepared: Prepared, commit: Option<&mut Coming>, watch: &mut Watch<'_>) -> Result<Applied, EngineError> {
        let id = prepared.id();
        let is_undecided = |l: &&LeftOut| l.reason == Reason::Undecided;
        self.note_left_open(&prepared.sandbox, &prepared.left_out.iter().filter(is_undecided).map(|l| l.path.as_path()).collect())?;
        let (all, real) = prepared.counts;
        let left = all.saturating_sub(real);
        let (mut is_outdated, mut notes) = (false, Vec::new());
        let has_written = !prepared.plan.operations.is_empty();
        let sandbox = if !has_written {
            // Nothing to write, but something may have been settled.
            if let Ok(about) = serde_json::from_value(prepared.plan.about.clone()) {
                self.set_bases(&about, &[])?;
            }
            self.after_apply(&prepared.sandbox, left)?
        } else {
            let done = self.transact(&id, &prepared.plan, prepared.turn.as_ref(), Left::Known(left), commit, watch)?;
            (is_outdated, notes) = (done.is_outdated, done.notes);
            done.sandbox.unwrap_or_else(|| prepared.sandbox.clone())
        };
        // An approval that is not noted as carried out stays one: what comes later is then asked about, not taken.
        let _ = self.note_carried_out(&prepared.sandbox, &prepared.carried_out());
        drop(prepared.still);
        // What is real is real; at worst the sandbox sees it only from its next start on, and whoever works in it has to know.
        notes.extend(look_anew::unseen(self.look_anew(sandbox.clone(), &prepared.lock, &prepared.plan, is_outdated)));
        let nothing_left = sandbox.details.changed_files == 0;
        let Prepared { steps, left_out, packages, unchanged, lapsed, .. } = prepared;
        Ok(Applied { id: has_written.then_some(id), sandbox, steps, left_out, packages, unchanged, lapsed, nothing_left, notes })
    }

    /// Runs a plan as a transaction of its own and files its record.
    pub(crate) fn transact(
        &self,
        id: &str,
        plan: &Plan,
        turn: Option<&Turn>,
        left: Left,
        mut commit: Option<&mut Coming>,
        watch: &mut Watch<'_>,
    ) -> Result<Transacted, EngineError> {
        let is_here =
            |t: &&Trouble| t.root.as_ref().is_none_or(|r| plan.roots.iter().any(|p| p.starts_with(r) || r.starts_with(p)));
        if let Some(trouble) = self.ground.troubles.get().into_iter().flatten().filter(|t| t.is_damage).find(is_here) {
            return Err(ChangesError::Unfinished { message: trouble.message.clone() }.into());
        }
        let taken = if turn.is_none() { Some(self.take_turn(&plan.roots, watch)?) } else { None };
        let turn = turn.or(taken.as_ref());
        // It may have begun while somebody was asked.
        Repository::require_rest_of_others(&Repository::written_by(plan)?)?;
        self.lifecycle.keep_bases_of_others(plan);
        let held = self.copy_up_renamed(plan)?;
        let (directory, _lock) = match &mut commit {
            Some(commit) => (commit.hand_over().to_owned(), None),
            None => self.ground.state.begin_apply(id).map(|(directory, lock)| (directory, Some(lock)))?,
        };
        let Watch { progress, is_cancelled } = watch;
        let mut decide = commit.as_mut().map(|commit| || commit.decide());
        let decide = decide.as_mut().map(|decide| decide as &mut dyn FnMut() -> Verdict);
        let mut conduct = whatif_apply::Conduct { progress, is_cancelled, turn: turn.map(|t| &t.lock), decide };
        let is_undo = plan.about["undo_of"].is_string();
        let but = |error: EngineError| {
            EngineError::from(ChangesError::AppliedBut { id: id.to_owned(), is_undo, source: Box::new(error) })
        };
        match whatif_apply::apply_in(plan, &directory, &mut conduct) {
            Ok(applied) => {
                let notes = applied.reported.iter().map(|(path, what)| format!("{} {what}", path.display())).collect();
                let sandbox = self.finish_apply(&directory, plan, &After::of(applied), left).map_err(but)?;
                Ok(Transacted { sandbox, is_outdated: held.release(self), notes })
            }
            Err(error @ ApplyError::Unsettled { .. }) => Err(but(error.into())),
            Err(error) => {
                // Rolled back: nothing of it is worth keeping. One that is not stays for recovery.
                if !matches!(error, ApplyError::Interrupted { .. }) {
                    let _ = self.bases_after_rollback(plan);
                    if commit.is_none_or(|commit| commit.release().is_ok()) {
                        let _ = self.clear_rolled_back(&directory);
                    }
                }
                Err(error.into())
            }
        }
    }
}

/// What an earlier apply settled on reality's version is no change any more, and so nothing that the sandbox's could be taken of.
fn settled_before(behind: &[Change], bases: &Bases, theirs: &Patterns) -> Vec<LeftOut> {
    let is_settled = |change: &&Change| bases.get(&change.path).is_some_and(Record::is_settled);
    let asked_for = behind.iter().filter(|change| theirs.matches(&change.path)).filter(is_settled);
    asked_for.map(|change| LeftOut::new(&change.path, Reason::SettledBefore)).collect()
}

impl Prepared {
    /// Lets the sandbox go on while somebody is asked.
    pub(crate) fn let_go_on(&mut self) {
        self.still = None;
    }

    /// Of the apply, as the history will know it.
    pub(crate) fn id(&self) -> String {
        self.plan.about["id"].as_str().unwrap_or_default().to_owned()
    }

    #[must_use]
    pub fn project(&self) -> &Path {
        &self.sandbox.project
    }

    /// What an earlier apply left unfinished in this tree, and what became of it.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.turn.as_ref().map_or(&[], |turn| &turn.notes)
    }

    #[must_use]
    pub fn left_out_by_reason(&self) -> ByReason {
        let mut by_reason = ByReason::new();
        for left_out in &self.left_out {
            by_reason.entry((left_out.reason, left_out.needs)).or_default().push(left_out.clone());
        }
        by_reason
    }

    /// What an apply settles as a whole.
    fn carried_out(&self) -> BTreeSet<&Path> {
        let steps = self.steps.iter().filter(|s| s.what != What::Part).map(|s| &s.path);
        let kept = self.left_out.iter().filter(|l| l.reason.is_settled()).map(|l| &l.path);
        steps.chain(&self.unchanged).chain(kept).map(PathBuf::as_path).collect()
    }

    /// Whether there is anything to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let has_settled = self.left_out.iter().any(|l| l.reason.is_settled());
        self.steps.is_empty() && self.conflicts.is_empty() && self.already.is_empty() && !has_settled
    }
}
