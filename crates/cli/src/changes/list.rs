//! The list of changes: what must not be overlooked first, then the rest, then what was counted.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use whatif_engine::changes::diff::Diff;
use whatif_engine::{Blocked, Change, ChangeKind, Collapsed, Flag, Kind, Moved, shown_path};

use super::looks::{self, Owners};
use crate::output::{Output, Style, bytes, counted, visible_path};
use crate::table;

/// What is listed beyond the project's own work.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub ignored: bool,
    pub outside: bool,
}

impl Extent {
    /// Whether a change has a line of its own. What must not be overlooked has one even if the project ignores it.
    #[must_use]
    pub fn lists(self, change: &Change) -> bool {
        (self.outside || !change.outside) && (self.ignored || !change.ignored || change.needs_approval())
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
            0 => writeln!(out, "{} changed nothing", diff.title),
            // Only some paths were asked for.
            _ => writeln!(out, "{} changed nothing there ({} changed elsewhere)", diff.title, counted(others as u64, "file")),
        };
    }
    let listed = all.iter().copied().filter(|c| extent.lists(c));
    let (risky, rest): (Vec<&Change>, Vec<&Change>) = listed.partition(|c| c.needs_approval());
    let implied = Implied::by(&all);
    let rest: Vec<&Change> = rest.into_iter().filter(|c| !implied.has(c)).collect();
    let (risky, rest) = (Counted::all(&risky), Counted::all(&rest));
    writeln!(out, "{}", headline(diff, &risky, &rest, output))?;
    if !risky.is_empty() {
        writeln!(out, "{}", output.paint(Style::Red, "to be approved on their own:"))?;
        rows(out, &risky, project, output)?;
    }
    if !rest.is_empty() {
        if !risky.is_empty() {
            writeln!(out, "the rest:")?;
        }
        rows(out, &rest, project, output)?;
    }
    if !extent.ignored {
        let groups = diff.set.collapsed.iter().filter(|g| has_group(&all, &g.path));
        for group in groups.filter_map(|group| without_listed(group, &risky)) {
            let slash = if group.is_directory { "/" } else { "" };
            let path = format!("{}{slash}", visible_path(shown_path(&group.path, project)));
            let line = format!("   {path}  {} (ignored)", size_of(&group));
            writeln!(out, "{}", output.paint(Style::Dim, line))?;
        }
    }
    if !extent.outside {
        outside(out, &all, output)?;
    }
    for unreadable in &diff.set.unreadable {
        let (path, why) = (visible_path(&unreadable.path), unreadable.why());
        writeln!(out, "{} {path} could not be read ({why})", output.paint(Style::Red, "!"))?;
    }
    Ok(())
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

fn headline(diff: &Diff, risky: &[Counted<'_>], rest: &[Counted<'_>], output: &Output) -> String {
    let files = risky.iter().chain(rest).filter(|c| !c.change.is_directory()).count();
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
    format!(
        "{}: {} changed, {} {}{moved}",
        output.paint(Style::Bold, &diff.title),
        counted(files as u64, "file"),
        output.paint(Style::Green, format!("+{added}")),
        output.paint(Style::Red, format!("-{deleted}")),
    )
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

/// Directories that came or went with what is in them say nothing of their own.
pub struct Implied<'a> {
    all: &'a [&'a Change],
    /// Where renamed files came from.
    sources: Vec<&'a Path>,
}

impl<'a> Implied<'a> {
    /// Among these, in the order of a change set.
    #[must_use]
    pub fn by(all: &'a [&'a Change]) -> Self {
        let mut sources: Vec<&Path> = all.iter().filter_map(|c| c.old_path()).collect();
        sources.sort_unstable_by_key(|path| path.as_os_str().as_bytes());
        Self { all, sources }
    }

    #[must_use]
    pub fn has(&self, change: &Change) -> bool {
        change.is_directory()
            && matches!(change.kind, ChangeKind::Add | ChangeKind::Delete)
            && (has_any_in(self.all, |c| &c.path, &change.path) || has_any_in(&self.sources, |path| path, &change.path))
    }
}

/// Whether any of these, sorted by the bytes of their paths, is in a directory.
fn has_any_in<T>(sorted: &[T], path: impl Fn(&T) -> &Path, directory: &Path) -> bool {
    let prefix = [directory.as_os_str().as_bytes(), b"/"].concat();
    let first = sorted.partition_point(|one| path(one).as_os_str().as_bytes() < prefix.as_slice());
    sorted.get(first).is_some_and(|one| path(one).as_os_str().as_bytes().starts_with(&prefix))
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

/// What is left of a group once those are taken out that have lines of their own.
fn without_listed(group: &Collapsed, listed: &[Counted<'_>]) -> Option<Collapsed> {
    let mut left = group.clone();
    let is_counted = |c: &&Change| c.ignored && !c.is_directory() && c.path.starts_with(&group.path);
    for change in listed.iter().map(|c| c.change).filter(is_counted) {
        left.files = left.files.saturating_sub(1);
        left.deleted = left.deleted.saturating_sub(u64::from(change.after.is_none()));
        left.bytes = left.bytes.saturating_sub(change.after.as_ref().map_or(0, |after| after.node.size));
    }
    (left.files > 0 || group.files == 0).then_some(left)
}

fn outside(out: &mut dyn Write, all: &[&Change], output: &Output) -> io::Result<()> {
    let outside: Vec<&&Change> = all.iter().filter(|c| c.outside && !c.is_directory()).collect();
    if outside.is_empty() {
        return Ok(());
    }
    let count = counted(outside.len() as u64, "change");
    writeln!(out, "{}", output.paint(Style::Dim, format!("   {count} outside the project (whatif diff --outside lists them):")))?;
    let risky_first = |c: &&&Change| !c.flags.iter().any(|f| f.needs_approval() && *f != Flag::Outside);
    let mut shown = outside.clone();
    shown.sort_by_key(risky_first);
    for change in shown.iter().take(MOST_OUTSIDE) {
        let (sign, style) = sign(change);
        let words: Vec<&str> = change.flags.iter().filter(|f| f.needs_approval()).map(|f| change.in_words(*f)).collect();
        let note = if words.is_empty() { String::new() } else { format!("  {}", output.paint(Style::Red, words.join("; "))) };
        writeln!(out, "   {} {}{note}", output.paint(style, sign), visible_path(&change.path))?;
    }
    Ok(())
}
