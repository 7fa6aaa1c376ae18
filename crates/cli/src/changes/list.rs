//! The list of changes: what must not be overlooked first, then the rest, then what was counted.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use whatif_engine::changes::diff::{Diff, Implied, has_any_in};
use whatif_engine::{Blocked, Change, ChangeKind, Collapsed, Flag, Kind, Moved, shown_path};

use super::looks::{self, Owners};
use super::packages;
use crate::output::{Output, Style, bytes, counted, visible_path};
use crate::table;

/// What is listed beyond the project's own work.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub ignored: bool,
    pub outside: bool,
    /// New directories with many files have one line, and what package managers downloaded has none.
    pub folds: bool,
}

impl Extent {
    /// Whether a change has a line of its own. What must not be overlooked has one even if the project ignores it.
    #[must_use]
    pub fn lists(self, change: &Change) -> bool {
        (self.outside || !change.outside) && (self.ignored || !change.ignored || change.needs_approval())
    }

    /// Whether a change is shown as part of a package, or counted among the downloads of package managers. What must not be overlooked never is.
    #[must_use]
    pub fn folds(self, change: &Change, diff: &Diff) -> bool {
        let is_asked_for = if change.outside { self.outside } else { self.ignored };
        let is_of_package = || !is_asked_for && diff.set.packages.around(&change.path).is_some();
        !change.needs_approval() && (is_of_package() || self.folds && diff.is_in_package_cache(change))
    }
}

/// Examples of what lies outside the project.
const MOST_OUTSIDE: usize = 5;

pub fn list(out: &mut dyn Write, diff: &Diff, wanted: &dyn Fn(&Change) -> bool, extent: Extent, output: &Output) -> io::Result<()> {
    let project = &diff.sandbox.project;
    let all: Vec<&Change> = diff.set.changes.iter().filter(|c| wanted(c)).collect();
    if all.is_empty() && diff.set.unreadable.is_empty() {
        let others = diff.set.changes.iter().filter(|c| !c.is_directory()).count();
        return match others {
            0 => writeln!(out, "{}", nothing_in_words(diff)),
            // Only some paths were asked for.
            _ => writeln!(out, "{} changed nothing there ({} changed elsewhere)", diff.title, counted(others as u64, "file")),
        };
    }
    let is_folded = |c: &Change| extent.folds(c, diff);
    let (listed, trees) = listed_and_trees(diff, &all, extent);
    let listed = listed.into_iter();
    let (risky, rest): (Vec<&Change>, Vec<&Change>) = listed.partition(|c| c.needs_approval());
    let implied = Implied::by(&all);
    let rest: Vec<&Change> = rest.into_iter().filter(|c| !implied.has(c)).collect();
    let (risky, rest) = (Counted::all(&risky), Counted::all(&rest));
    let in_packages =
        all.iter().filter(|c| is_folded(c) && !c.is_directory() && diff.set.packages.around(&c.path).is_some()).count() as u64;
    let folded = in_packages + trees.iter().map(|tree| tree.files).sum::<u64>();
    writeln!(out, "{}", headline(diff, &risky, &rest, folded, output))?;
    if !risky.is_empty() {
        writeln!(out, "{}", output.paint(Style::Red, "needs your approval:"))?;
        rows(out, &risky, project, output)?;
    }
    let installed = diff.set.packages.groups().iter().enumerate();
    let installed = installed.filter(|(number, _)| all.iter().any(|c| diff.set.packages.around(&c.path) == Some(*number)));
    for line in packages::in_words(installed.map(|(_, group)| group), project) {
        writeln!(out, "{} {line}", output.paint(Style::Cyan, "P"))?;
    }
    if !rest.is_empty() {
        if !risky.is_empty() {
            writeln!(out, "the rest:")?;
        }
        rows(out, &rest, project, output)?;
    }
    for tree in &trees {
        let path = visible_path(shown_path(tree.path, project));
        let size = format!("{}, {} (new; --all lists them)", counted(tree.files, "file"), bytes(tree.bytes));
        writeln!(out, "{}  {path}/  {}", output.paint(Style::Green, "A"), output.paint(Style::Dim, size))?;
    }
    if !extent.ignored {
        let groups = diff.set.collapsed.iter().filter(|g| has_group(&all, &g.path));
        let of_packages = |c: &&Change| is_folded(c) && diff.set.packages.around(&c.path).is_some();
        let shown: Vec<&Change> = risky.iter().map(|c| c.change).chain(all.iter().copied().filter(of_packages)).collect();
        for group in groups.filter_map(|group| without_shown(group, &shown)) {
            let slash = if group.is_directory { "/" } else { "" };
            let path = format!("{}{slash}", visible_path(shown_path(&group.path, project)));
            let line = format!("   {path}  {} (ignored)", size_of(&group));
            writeln!(out, "{}", output.paint(Style::Dim, line))?;
        }
    }
    if !extent.outside {
        let others: Vec<&Change> = all.iter().copied().filter(|c| !is_folded(c)).collect();
        outside(out, diff, &others, output)?;
    }
    let cached: Vec<&Change> =
        all.iter().copied().filter(|c| extent.folds && !c.is_directory() && diff.is_in_package_cache(c)).collect();
    if !cached.is_empty() {
        let size = cached.iter().map(|c| c.after.as_ref().map_or(0, |after| after.node.size)).sum();
        let line =
            format!("   package caches: {}, {} (--outside --all lists them)", counted(cached.len() as u64, "file"), bytes(size));
        writeln!(out, "{}", output.paint(Style::Dim, line))?;
    }
    for unreadable in &diff.set.unreadable {
        let (path, why) = (visible_path(&unreadable.path), unreadable.why());
        writeln!(out, "{} {path} could not be read ({why})", output.paint(Style::Red, "!"))?;
    }
    Ok(())
}

/// Of a sandbox that holds nothing that reality does not.
#[must_use]
pub fn nothing_in_words(diff: &Diff) -> String {
    match diff.applied_as.as_slice() {
        [] => format!("{} changed nothing", diff.title),
        applies => all_applied(&diff.title, applies),
    }
}

/// Says in which applies everything became real.
#[must_use]
pub fn all_applied(name: &str, applies: &[String]) -> String {
    const MOST_NAMED: usize = 4;
    let named = match applies.len().checked_sub(MOST_NAMED) {
        None | Some(0) => applies.join(", "),
        Some(earlier) => format!("{} and {earlier} earlier ones", applies[earlier..].join(", ")),
    };
    format!("everything {name} changed was applied, as {named}")
}

/// The changes of which `diff` shows lines and hunks, among these in the order of their paths.
#[must_use]
pub fn listed<'a>(diff: &Diff, all: &[&'a Change], extent: Extent) -> Vec<&'a Change> {
    listed_and_trees(diff, all, extent).0
}

fn listed_and_trees<'a>(diff: &Diff, all: &[&'a Change], extent: Extent) -> (Vec<&'a Change>, Vec<NewTree<'a>>) {
    let mut listed: Vec<&Change> = all.iter().copied().filter(|c| extent.lists(c) && !extent.folds(c, diff)).collect();
    let trees = if extent.folds { NewTree::among(&listed) } else { Vec::new() };
    listed.retain(|c| c.needs_approval() || !trees.iter().any(|tree| c.path.starts_with(tree.path)));
    (listed, trees)
}

/// A new directory has a line of its own for all that is in it, from so many files on.
const MOST_IN_NEW: u64 = 20;

/// A directory that the sandbox made, with everything in it.
struct NewTree<'a> {
    path: &'a Path,
    files: u64,
    bytes: u64,
}

impl<'a> NewTree<'a> {
    /// The outermost ones with many files. `changes` are in the order of their paths. What must not be overlooked is not counted.
    fn among(changes: &[&'a Change]) -> Vec<Self> {
        let mut trees: Vec<Self> = Vec::new();
        for change in changes {
            match trees.last_mut().filter(|tree| change.path.starts_with(tree.path)) {
                Some(tree) if !change.is_directory() && !change.needs_approval() => {
                    tree.files += 1;
                    tree.bytes += change.after.as_ref().map_or(0, |after| after.node.size);
                }
                Some(_) => {}
                None if change.is_directory() && change.kind == ChangeKind::Add => {
                    trees.push(Self { path: &change.path, files: 0, bytes: 0 });
                }
                None => {}
            }
        }
        trees.retain(|tree| tree.files > MOST_IN_NEW);
        trees
    }
}

/// A change and its lines, counted once: that takes reading both sides.
struct Counted<'a> {
    change: &'a Change,
    lines: Option<(usize, usize)>,
}

impl<'a> Counted<'a> {
    fn all(changes: &[&'a Change]) -> Vec<Self> {
        changes.iter().map(|change| Self { change, lines: change.counts() }).collect()
    }
}

/// `folded` files have no lines of their own below it, and theirs were not counted.
fn headline(diff: &Diff, risky: &[Counted<'_>], rest: &[Counted<'_>], folded: u64, output: &Output) -> String {
    let listed = risky.iter().chain(rest).filter(|c| !c.change.is_directory()).count() as u64;
    let (mut added, mut deleted) = (0, 0);
    for (a, d) in risky.iter().chain(rest).filter_map(|c| c.lines) {
        added += a;
        deleted += d;
    }
    let drifted = risky.iter().chain(rest).filter(|c| c.change.has_drifted()).count();
    let moved = if drifted > 0 {
        format!("; reality moved under {}", counted(drifted as u64, "of them").replace("thems", "them"))
    } else {
        String::new()
    };
    let lines = format!("{} {}", output.paint(Style::Green, format!("+{added}")), output.paint(Style::Red, format!("-{deleted}")));
    let counts = match (listed, folded) {
        (0, 1..) => String::new(),
        (_, 0) => format!(", {lines}"),
        _ => format!(", {lines} in the {listed} listed"),
    };
    format!("{}: {} changed{counts}{moved}", output.paint(Style::Bold, &diff.title), counted(listed + folded, "file"))
}

fn rows(out: &mut dyn Write, changes: &[Counted<'_>], project: &Path, output: &Output) -> io::Result<()> {
    let owners = Owners::of(project);
    let rows: Vec<Vec<String>> = changes.iter().map(|c| row(c, project, owners, output)).collect();
    writeln!(out, "{}", table::render(&rows))
}

fn row(&Counted { change, lines }: &Counted<'_>, project: &Path, owners: Owners, output: &Output) -> Vec<String> {
    let (sign, style) = sign(change);
    let mut path = visible_path(shown_path(&change.path, project));
    if change.is_directory() && !path.ends_with('/') {
        path.push('/');
    }
    if let Some(old) = change.old_path() {
        path = format!("{} → {path}", visible_path(shown_path(old, project)));
    }
    let counts = match lines {
        Some((added, deleted)) => {
            let part = |style, sign: char, n: usize| if n > 0 { output.paint(style, format!("{sign}{n}")) } else { String::new() };
            format!("{} {}", part(Style::Green, '+', added), part(Style::Red, '-', deleted)).trim().to_owned()
        }
        None => details(change),
    };
    let mut notes: Vec<String> = change
        .flags
        .iter()
        .filter(|f| !matches!(f, Flag::Deletion | Flag::Outside))
        .map(|f| change.in_words(*f).to_owned())
        .collect();
    notes.extend(looks::mode(change).filter(|_| change.kind != ChangeKind::Mode));
    notes.extend(looks::owner(change).filter(|_| change.kind != ChangeKind::Owner));
    notes.extend(owners.unusual(change));
    notes.extend(looks::attributes(change));
    if let Some(linked) = &change.linked {
        notes.push(format!("hard link to {}", visible_path(shown_path(linked.path(), project))));
    }
    if let Some(to) = change.moved_to.first() {
        notes.push(format!("moved to {}", visible_path(shown_path(to, project))));
    }
    match change.blocked {
        Some(Blocked::Special) => notes.push("never applied".to_owned()),
        Some(Blocked::Masked) => notes.push("hidden from the sandbox in reality: never applied".to_owned()),
        None => {}
    }
    notes.extend(change.drifted_parts().map(|part| moved(change, part, project)));
    vec![output.paint(style, sign), path, counts, output.paint(Style::Yellow, notes.join("; "))]
}

/// What reality did at a path of a change. A rename has two, so it is said which one.
fn moved(change: &Change, part: &Change, project: &Path) -> String {
    let path = || visible_path(shown_path(&part.path, project));
    match (change.deletion.is_some(), change.drift_at(part)) {
        (false, Moved::Deleted) => "gone in reality".to_owned(),
        (true, Moved::Deleted) => format!("{} is gone in reality", path()),
        (false, Moved::Changed) => "reality changed too".to_owned(),
        (false, Moved::Added) => "reality added it too".to_owned(),
        (false, Moved::AddedOrChanged) => "reality added or changed it since".to_owned(),
        (true, moved) => format!("reality {} {}", moved.in_words(), path()),
    }
}

/// A letter and a colour.
fn sign(change: &Change) -> (&'static str, Style) {
    match change.kind {
        ChangeKind::Add => ("A", Style::Green),
        ChangeKind::Modify => ("M", Style::Yellow),
        ChangeKind::Delete => ("D", Style::Red),
        ChangeKind::Rename => ("R", Style::Cyan),
        ChangeKind::Mode | ChangeKind::Owner | ChangeKind::Xattr => ("m", Style::Yellow),
        ChangeKind::Symlink => ("L", Style::Yellow),
        ChangeKind::Type => ("T", Style::Yellow),
        ChangeKind::Special => ("S", Style::Red),
    }
}

/// What lines cannot tell.
fn details(change: &Change) -> String {
    match (change.kind, &change.before, &change.after) {
        (ChangeKind::Mode, ..) => looks::mode(change).unwrap_or_default(),
        (ChangeKind::Owner, ..) => looks::owner(change).unwrap_or_default(),
        (ChangeKind::Xattr, ..) => "attributes".to_owned(),
        (ChangeKind::Special, _, Some(after)) => format!("{:?}", after.node.kind).to_lowercase(),
        (_, None, Some(after)) if after.node.kind == Kind::File => format!("binary, {}", bytes(after.node.size)),
        (_, Some(before), Some(after)) if after.node.kind == Kind::File => {
            format!("binary, {} → {}", bytes(before.node.size), bytes(after.node.size))
        }
        _ => String::new(),
    }
}

fn has_group(all: &[&Change], group: &Path) -> bool {
    let is_one = || all.binary_search_by_key(&group.as_os_str().as_bytes(), |c| c.path.as_os_str().as_bytes()).is_ok();
    has_any_in(all, |c| &c.path, group) || is_one()
}

/// What was deleted takes no room, and must not pass for something small.
fn size_of(group: &Collapsed) -> String {
    let files = counted(group.files, "file");
    match group.deleted {
        0 => format!("{files}, {}", bytes(group.bytes)),
        all if all == group.files => format!("{files} deleted"),
        some => format!("{files}, {}, {some} of them deleted", bytes(group.bytes)),
    }
}

/// What is left of a group once those are taken out that have lines of their own, or belong to a package that has one.
fn without_shown(group: &Collapsed, shown: &[&Change]) -> Option<Collapsed> {
    let mut left = group.clone();
    let is_counted = |c: &&Change| c.ignored && !c.is_directory() && c.path.starts_with(&group.path);
    for change in shown.iter().copied().filter(is_counted) {
        left.files = left.files.saturating_sub(1);
        left.deleted = left.deleted.saturating_sub(u64::from(change.after.is_none()));
        left.bytes = left.bytes.saturating_sub(change.after.as_ref().map_or(0, |after| after.node.size));
    }
    (left.files > 0 || group.files == 0).then_some(left)
}

fn outside(out: &mut dyn Write, diff: &Diff, all: &[&Change], output: &Output) -> io::Result<()> {
    let outside: Vec<&&Change> = all.iter().filter(|c| c.outside && !c.is_directory()).collect();
    if outside.is_empty() {
        return Ok(());
    }
    let count = counted(outside.len() as u64, "change");
    writeln!(
        out,
        "{}",
        output.paint(Style::Dim, format!("   {count} outside the project (whatif diff {} --outside lists them):", diff.title))
    )?;
    let risky_first = |c: &&&Change| !c.flags.iter().any(|f| f.needs_approval() && *f != Flag::Outside);
    let mut shown = outside.clone();
    shown.sort_by_key(risky_first);
    for change in shown.iter().take(MOST_OUTSIDE) {
        let (sign, style) = sign(change);
        let words: Vec<&str> = change.flags.iter().filter(|f| f.needs_approval()).map(|f| change.in_words(*f)).collect();
        let note = if words.is_empty() { String::new() } else { format!("  {}", output.paint(Style::Red, words.join("; "))) };
        writeln!(out, "   {} {}{note}", output.paint(style, sign), visible_path(&change.path))?;
    }
    if let Some(more) = outside.len().checked_sub(MOST_OUTSIDE).filter(|more| *more > 0) {
        writeln!(out, "{}", output.paint(Style::Dim, format!("   … and {more} more")))?;
    }
    Ok(())
}
