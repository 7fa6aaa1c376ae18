//! Which changes are wanted, and what is left out and why.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use whatif_diff::pattern::{Patterns, Scope};
use whatif_diff::text::Content;
use whatif_diff::{Blocked, Change, ChangeSet, Flag, Kind, Node, State};
use whatif_types::config::PolicyRules;

use super::ApplyRequest;
use crate::EngineError;
use crate::changes::ChangesError;
use crate::changes::review::{Review, Verdict};
use crate::merge::Reason;

/// Hunks of one file, numbered from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkChoice {
    pub path: String,
    pub numbers: Vec<usize>,
}

#[derive(Clone, Debug)]
pub struct LeftOut {
    pub path: PathBuf,
    pub reason: Reason,
    /// Where its content is in the sandbox, if that is the reason.
    pub moved_to: Option<PathBuf>,
    /// All that is needed to take it, where options are enough.
    pub needs: Options,
}

impl LeftOut {
    pub(super) fn new(path: &Path, reason: Reason) -> Self {
        Self { path: path.to_owned(), reason, moved_to: None, needs: Options::default() }
    }
}

/// Options that widen what is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Options {
    pub outside: bool,
    pub ignored: bool,
    pub risky: bool,
    /// No option: the review must accept it as well.
    pub review: bool,
}

/// A wanted change, and which of its hunks; `None` means all of it. The two halves of a rename are chosen one by one: the change
/// itself stands for the addition only.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    pub change: &'a Change,
    pub hunks: Option<Vec<usize>>,
}

#[derive(Debug, Default)]
pub(super) struct Selection<'a> {
    pub chosen: Vec<Chosen<'a>>,
    pub left_out: Vec<LeftOut>,
}

impl<'a> Selection<'a> {
    fn add(&mut self, change: &'a Change, verdict: Result<Option<Vec<usize>>, Reason>, needs: impl FnOnce() -> Options) {
        match verdict {
            Ok(hunks) => self.chosen.push(Chosen { change, hunks }),
            Err(reason) => self.left_out.push(LeftOut { needs: needs(), ..LeftOut::new(&change.path, reason) }),
        }
    }

    /// Lines added and deleted; `None` where something comes or goes that has no lines to count.
    pub(super) fn lines(&self) -> Option<usize> {
        let taken: HashSet<&Path> = self.chosen.iter().map(|c| c.change.path.as_path()).collect();
        let moved: HashSet<&Path> = self.chosen.iter().filter_map(|c| c.change.old_path()).collect();
        let lines = |c: &Chosen<'_>| match c.change.old_path() {
            // Without the file that goes, every line of the one that comes is new.
            Some(old) if !taken.contains(old) => lines_of(&c.change.addition().content()),
            _ => lines_of(&c.change.content()),
        };
        self.chosen.iter().filter(|c| !moved.contains(c.change.path.as_path())).map(lines).sum()
    }
}

/// A line that a person can read. What is longer says nothing by being one.
const LONGEST_LINE: usize = 4096;

fn lines_of(content: &Content) -> Option<usize> {
    let is_readable = |text: &[u8]| text.split(|byte| *byte == b'\n').all(|line| line.len() <= LONGEST_LINE);
    match content {
        Content::Nothing => Some(0),
        Content::Text { before, after } if is_readable(before) && is_readable(after) => {
            let (added, deleted) = whatif_patch::counts(before, after);
            Some(added + deleted)
        }
        _ => None,
    }
}

struct Rules<'a> {
    request: &'a ApplyRequest,
    review: &'a Review,
    files: Patterns,
    exclude: Patterns,
    deny: Patterns,
    ask: Patterns,
    hunks: Vec<(Patterns, &'a [usize])>,
    set: &'a ChangeSet,
    units: HashMap<Whole<'a>, Unit>,
    /// Packages that are asked for by name.
    packages: HashSet<usize>,
    /// Directories in whose place the sandbox's version is to come, whatever reality has in them.
    replaced: Vec<&'a Path>,
    /// Pipes, sockets and devices that the sandbox has and reality does not.
    special: Vec<&'a Node>,
}

/// Changes that are of no use one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Whole<'a> {
    /// By its root. It may hold many packages.
    DependencyTree(&'a Path),
    /// By its number in the change set.
    Package(usize),
}

impl Whole<'_> {
    /// Why something that needs no approval itself is left out with the rest.
    fn why_left_out(self) -> Reason {
        match self {
            Self::DependencyTree(_) => Reason::DependencyTree,
            Self::Package(_) => Reason::Package,
        }
    }
}

/// What is to be said of such changes as a whole.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Something in it needs its own approval.
    is_risky: bool,
    /// All of it is.
    is_ignored: bool,
}

pub(super) fn select<'a>(
    set: &'a ChangeSet,
    request: &'a ApplyRequest,
    review: &'a Review,
    policy: &PolicyRules,
    scope: Scope<'_>,
    is_package_applied: &dyn Fn(&str) -> Result<bool, EngineError>,
) -> Result<Selection<'a>, EngineError> {
    let patterns = |list: &[String]| Patterns::new(list, scope).map_err(EngineError::from);
    let rules = |list: &[String]| Patterns::protecting(list, scope.as_rules()).map_err(EngineError::from);
    let mut rules = Rules {
        request,
        review,
        files: patterns(&request.files)?,
        exclude: Patterns::protecting(&request.exclude, scope)?,
        deny: rules(&policy.deny)?,
        ask: rules(&policy.ask)?,
        hunks: request
            .hunks
            .iter()
            .map(|h| Ok((patterns(std::slice::from_ref(&h.path))?, h.numbers.as_slice())))
            .collect::<Result<_, EngineError>>()?,
        set,
        units: HashMap::new(),
        packages: packages_called(set, request, is_package_applied)?,
        replaced: replaced(set, &patterns(&request.theirs)?),
        special: set
            .changes
            .iter()
            .filter(|c| c.blocked == Some(Blocked::Special))
            .filter_map(|c| Some(&c.after.as_ref()?.node))
            .collect(),
    };
    rules.units = rules.units_of(set);
    rules.check_hunks(set)?;
    let mut selection = Selection::default();
    for change in &set.changes {
        rules.choose(change, &mut selection);
    }
    Ok(selection)
}

impl Rules<'_> {
    fn choose<'a>(&self, change: &'a Change, selection: &mut Selection<'a>) {
        let given = self.given();
        let verdict = self.verdict(change, &change.path, given);
        let Some(deletion) = change.deletion.as_deref() else {
            return selection.add(change, verdict, || self.needs(change, &change.path));
        };
        // A rename is a guess, made for reading. What was not asked for does not come along because of it.
        // A move is none.
        let (old, new) = match (self.verdict(change, &deletion.path, given), verdict) {
            (Ok(_), Err(reason @ (Reason::NotChosen | Reason::Excluded))) if change.is_move() => (Ok(None), Err(reason)),
            (Ok(_), Err(Reason::NotChosen | Reason::Excluded)) => (Ok(None), Err(Reason::OtherHalf)),
            (Err(Reason::NotChosen | Reason::Excluded), Ok(hunks)) => (Err(Reason::OtherHalf), Ok(hunks)),
            (Err(old), Err(new)) if old == new => {
                return selection.add(change, Err(new), || self.needs(change, &change.path));
            }
            other => other,
        };
        selection.add(deletion, old.map(|_| None), || self.needs(change, &deletion.path));
        selection.add(change, new, || self.needs(change, &change.path));
    }

    fn given(&self) -> Options {
        Options { outside: self.request.outside, ignored: self.request.ignored, risky: self.request.risky, review: false }
    }

    /// The options that are missing for a change to be taken. One may lead to the next: what lies outside may need approval, too.
    fn needs(&self, change: &Change, path: &Path) -> Options {
        let given = self.given();
        let mut with = given;
        loop {
            match self.verdict(change, path, with) {
                Err(Reason::Outside) => with.outside = true,
                Err(Reason::Ignored) => with.ignored = true,
                Err(Reason::Risky | Reason::DependencyTree | Reason::Package) => with.risky = true,
                Err(Reason::Undecided | Reason::Lapsed | Reason::Rejected) => {
                    with.review = with != given;
                    break;
                }
                _ => break,
            }
        }
        Options {
            outside: with.outside && !given.outside,
            ignored: with.ignored && !given.ignored,
            risky: with.risky && !given.risky,
            review: with.review,
        }
    }

    /// Which hunks to take (`None`: everything), or why the change is left out. `path` is that of the change, or of a rename the old
    /// one: patterns fit one of the two, everything else is about both.
    fn verdict(&self, change: &Change, path: &Path, given: Options) -> Result<Option<Vec<usize>>, Reason> {
        match change.blocked {
            Some(Blocked::Special) => return Err(Reason::Special),
            Some(Blocked::Masked) => return Err(Reason::Masked),
            None if self.is_moved_special(change) => return Err(Reason::Special),
            None => {}
        }
        if self.deny.matches(path) {
            return Err(Reason::DeniedByPolicy);
        }
        if self.exclude.matches(path) {
            return Err(Reason::Excluded);
        }
        if let Some((_, numbers)) = self.hunks.iter().find(|(patterns, _)| patterns.names(path)) {
            return Ok(Some(numbers.to_vec()));
        }
        // Also for a package of which an earlier apply took all: nothing else was asked for.
        let has_asked_for_some = !self.files.is_empty() || !self.hunks.is_empty() || !self.request.packages.is_empty();
        if self.files.matches(path) {
            let is_named = self.files.names(path);
            if change.outside && !is_named && !given.outside {
                return Err(Reason::Outside);
            }
            // Who chooses what lies in a directory, or a pattern, has not approved another mode of the directory around it all.
            let is_top = change.flags.contains(&Flag::TopDirectory);
            return if is_top && !is_named && !given.risky { Err(Reason::Risky) } else { Ok(None) };
        }
        if let Some(package) = self.set.packages.around(path).filter(|package| self.packages.contains(package)) {
            // Its name stands for its files, wherever they are. Who says it has not seen which of them are risky.
            let is_risky = self.units.get(&Whole::Package(package)).is_some_and(|unit| unit.is_risky);
            return match is_risky && !given.risky && !self.request.all {
                true if self.is_risky(change) => Err(Reason::Risky),
                true => Err(Reason::Package),
                false => Ok(None),
            };
        }
        if has_asked_for_some {
            return Err(Reason::NotChosen);
        }
        if change.outside && !given.outside {
            return Err(Reason::Outside);
        }
        if self.request.all {
            return Ok(None);
        }
        match self.review.verdict(path).or_else(|| self.review.verdict(&change.path)) {
            Some(Verdict::Accepted) => return Ok(None),
            Some(Verdict::Hunks(numbers)) => return Ok(Some(numbers.clone())),
            Some(Verdict::Rejected) => return Err(Reason::Rejected),
            None if self.review.lapsed.contains(&change.path) => return Err(Reason::Lapsed),
            None if self.review.is_undecided(&change.path) => return Err(Reason::Undecided),
            None => {}
        }
        let is_risky = self.is_risky(change);
        // What is taken together: packages may lie in a dependency tree, and have programs elsewhere.
        let wholes = self.wholes_around(path).filter_map(|whole| Some((whole, *self.units.get(&whole)?)));
        let wholes: Vec<(Whole<'_>, Unit)> = wholes.collect();
        let is_ignored = wholes.first().map_or(change.ignored && !is_risky, |(_, unit)| unit.is_ignored);
        // The narrower one is named: a package before the tree around it.
        let risky_whole = wholes.iter().rev().find(|(_, unit)| unit.is_risky).map(|(whole, _)| *whole);
        let has_no_approval = is_risky && !given.risky;
        // What the sandbox deleted in such a directory would keep it from being replaced.
        let goes_with_another = change.after.is_none() && self.replaced.iter().any(|directory| path.starts_with(directory));
        if is_ignored && !given.ignored && !goes_with_another {
            return Err(if has_no_approval { Reason::Risky } else { Reason::Ignored });
        }
        if (is_risky || risky_whole.is_some()) && !given.risky {
            return Err(risky_whole.filter(|_| !has_no_approval).map_or(Reason::Risky, Whole::why_left_out));
        }
        Ok(None)
    }

    /// A pipe, socket or device that was moved is not made where it went, so it stays where it is. Moving keeps its time.
    fn is_moved_special(&self, change: &Change) -> bool {
        let Some(before) = change.before.as_ref().map(|b| &b.node).filter(|b| b.kind.is_special() && change.after.is_none()) else {
            return false;
        };
        self.special.iter().any(|now| (now.kind, now.mtime, now.rdev) == (before.kind, before.mtime, before.rdev))
    }

    fn is_risky(&self, change: &Change) -> bool {
        let is_asked_about = self.ask.matches(&change.path) || change.old_path().is_some_and(|old| self.ask.matches(old));
        is_asked_about || change.flags.iter().any(|f| f.needs_approval() && *f != Flag::Outside)
    }

    /// What a path is taken or left with.
    fn wholes_around(&self, path: &Path) -> impl Iterator<Item = Whole<'_>> {
        wholes_around(self.set, path)
    }

    fn units_of<'s>(&self, set: &'s ChangeSet) -> HashMap<Whole<'s>, Unit> {
        let mut units: HashMap<Whole<'_>, Unit> = HashMap::new();
        for change in &set.changes {
            let paths = [Some(change.path.as_path()), change.old_path()].into_iter().flatten();
            for whole in paths.flat_map(|path| wholes_around(set, path)) {
                let unit = units.entry(whole).or_insert(Unit { is_risky: false, is_ignored: !matches!(whole, Whole::Package(_)) });
                unit.is_risky |= self.is_risky(change);
                // A package must not carry along what the project ignores.
                match whole {
                    Whole::Package(_) => unit.is_ignored |= change.ignored,
                    _ => unit.is_ignored &= change.ignored,
                }
            }
        }
        units
    }

    fn check_hunks(&self, set: &ChangeSet) -> Result<(), EngineError> {
        for (choice, (patterns, _)) in self.request.hunks.iter().zip(&self.hunks) {
            let change = set.changes.iter().find(|c| patterns.names(&c.path)).ok_or_else(|| unknown(self.request, &choice.path))?;
            let whatif_diff::text::Content::Text { before, after } = change.content() else {
                return Err(ChangesError::NoHunks { path: choice.path.clone() }.into());
            };
            let count = whatif_patch::hunks(&before, &after, crate::merge::CONTEXT_LINES).len();
            if let Some(number) = choice.numbers.iter().find(|n| **n == 0 || **n > count) {
                let (path, sandbox) = (choice.path.clone(), self.request.sandbox.word().map(str::to_owned));
                return Err(ChangesError::NoSuchHunk { path, count, number: *number, sandbox }.into());
            }
        }
        Ok(())
    }
}

fn wholes_around<'s>(set: &'s ChangeSet, path: &Path) -> impl Iterator<Item = Whole<'s>> {
    let tree = set.dependencies.around(path).map(Whole::DependencyTree);
    tree.into_iter().chain(set.packages.around(path).map(Whole::Package))
}

/// The groups that the request names; a name that means none is a mistake, unless an earlier apply took all of it.
fn packages_called(
    set: &ChangeSet,
    request: &ApplyRequest,
    is_applied: &dyn Fn(&str) -> Result<bool, EngineError>,
) -> Result<HashSet<usize>, EngineError> {
    let mut called = HashSet::new();
    for word in &request.packages {
        let groups = set.packages.groups().iter().enumerate().filter(|(_, group)| group.is_called(word));
        called.extend(groups.map(|(number, _)| number));
        if !set.packages.groups().iter().any(|group| group.is_called(word)) && !is_applied(word)? {
            let known = set.packages.groups().iter().flat_map(|group| group.packages.iter().map(|p| p.name.clone())).collect();
            return Err(ChangesError::NoSuchPackage { name: word.clone(), known }.into());
        }
    }
    Ok(called)
}

fn replaced<'a>(set: &'a ChangeSet, theirs: &Patterns) -> Vec<&'a Path> {
    let is_directory = |state: &State| state.node.kind == Kind::Directory;
    let is_replaced =
        |c: &&Change| c.before.as_ref().is_some_and(is_directory) && c.after.as_ref().is_some_and(|after| !is_directory(after));
    set.changes.iter().filter(is_replaced).map(|c| c.path.as_path()).filter(|path| theirs.matches(path)).collect()
}

/// A pattern that fits nothing is a mistake, not an empty wish: of those that choose, something would be missing, of those that
/// protect, something may be taken that was not to be. To protect what the sandbox did not change is no mistake; and a wildcard that
/// protects is a rule for whatever may come.
///
/// What `is_applied` says to be real already was asked for before, and is done.
pub(super) fn check_that_all_mean_something(
    request: &ApplyRequest,
    paths: &[&Path],
    scope: Scope<'_>,
    is_applied: &dyn Fn(&str) -> Result<bool, EngineError>,
) -> Result<(), EngineError> {
    for pattern in &request.files {
        let patterns = Patterns::new(std::slice::from_ref(pattern), scope)?;
        if !paths.iter().any(|path| patterns.matches(path)) && !is_applied(pattern)? {
            return Err(unknown(request, pattern));
        }
    }
    // Where nothing changed, there is nothing to protect from.
    for pattern in request.exclude.iter().chain(&request.skip).filter(|_| !paths.is_empty()) {
        let patterns = Patterns::protecting(std::slice::from_ref(pattern), scope)?;
        let is_about_something = patterns.has_wildcards() || patterns.name_something();
        if !is_about_something && !paths.iter().any(|path| patterns.matches(path)) {
            return Err(unknown(request, pattern));
        }
    }
    // A name decides over a wildcard; two of a kind contradict each other.
    let (ours, theirs) = (Patterns::new(&request.ours, scope)?, Patterns::new(&request.theirs, scope)?);
    let is_settled_twice = |path: &&&Path| {
        ours.matches(path) && theirs.matches(path) && ours.matches_literally(path) == theirs.matches_literally(path)
    };
    if let Some(path) = paths.iter().find(is_settled_twice) {
        return Err(ChangesError::SettledTwice { path: path.to_path_buf() }.into());
    }
    for pattern in request.ours.iter().chain(&request.theirs).filter(|_| !paths.is_empty()) {
        let patterns = Patterns::new(std::slice::from_ref(pattern), scope)?;
        let is_about_something = patterns.has_wildcards() || patterns.name_something();
        if !is_about_something && !paths.iter().any(|path| patterns.matches(path)) {
            return Err(unknown(request, pattern));
        }
    }
    Ok(())
}

fn unknown(request: &ApplyRequest, pattern: &str) -> EngineError {
    ChangesError::NothingFits { pattern: pattern.to_owned(), sandbox: request.sandbox.word().map(str::to_owned) }.into()
}
