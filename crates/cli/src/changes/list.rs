//! The list of changes: what must not be overlooked first, then the rest, then what was counted.

use std::io::{self, Write};
use std::path::Path;

use whatif_engine::diff::Diff;
use whatif_engine::{Blocked, Change, ChangeKind, Flag, Kind, shown_path};

use crate::output::{Output, Style, bytes, counted, visible_path};
use crate::table;

/// What is listed beyond the project's own work.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub ignored: bool,
    pub outside: bool,
}

/// Examples of what lies outside the project.
const MOST_OUTSIDE: usize = 5;

pub fn list(out: &mut dyn Write, diff: &Diff, wanted: &dyn Fn(&Change) -> bool, extent: Extent, output: &Output) -> io::Result<()> {
    let project = &diff.sandbox.project;
    let all: Vec<&Change> = diff.set.changes.iter().filter(|c| wanted(c)).collect();
    if all.is_empty() && diff.set.unreadable.is_empty() {
        return writeln!(out, "{} changed nothing", diff.title);
    }
    let is_risky = |c: &&Change| c.flags.iter().any(|f| f.needs_approval());
    let is_listed = |c: &&Change| (extent.ignored || !c.ignored) && (extent.outside || !c.outside);
    let risky: Vec<&Change> = all.iter().copied().filter(|c| is_risky(c) && (extent.outside || !c.outside)).collect();
    let rest: Vec<&Change> = all.iter().copied().filter(|c| is_listed(c) && !is_risky(c) && !is_implied(c, &all)).collect();
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
        let shown = |path: &Path| wanted_group(&all, path);
        for group in diff.set.collapsed.iter().filter(|g| shown(&g.path)) {
            let slash = if group.is_directory { "/" } else { "" };
            let path = format!("{}{slash}", visible_path(shown_path(&group.path, project)));
            let line = format!("   {path}  {}, {} (ignored)", counted(group.files, "file"), bytes(group.bytes));
            writeln!(out, "{}", output.paint(Style::Dim, line))?;
        }
    }
    if !extent.outside {
        outside(out, &all, output)?;
    }
    for path in &diff.set.unreadable {
        writeln!(out, "{} {} could not be read", output.paint(Style::Red, "!"), visible_path(path))?;
    }
    Ok(())
}

fn headline(diff: &Diff, risky: &[&Change], rest: &[&Change], output: &Output) -> String {
    let files = risky.iter().chain(rest).filter(|c| !c.is_directory()).count();
    let (mut added, mut deleted) = (0, 0);
    for (a, d) in risky.iter().chain(rest).filter_map(|c| c.counts()) {
        added += a;
        deleted += d;
    }
    let drifted = diff.set.changes.iter().filter(|c| c.has_drifted()).count();
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

fn rows(out: &mut dyn Write, changes: &[&Change], project: &Path, output: &Output) -> io::Result<()> {
    let rows: Vec<Vec<String>> = changes.iter().map(|c| row(c, project, output)).collect();
    writeln!(out, "{}", table::render(&rows))
}

fn row(change: &Change, project: &Path, output: &Output) -> Vec<String> {
    let (sign, style) = sign(change);
    let mut path = visible_path(shown_path(&change.path, project));
    if change.is_directory() && !path.ends_with('/') {
        path.push('/');
    }
    if let Some(old) = change.old_path() {
        path = format!("{} → {path}", visible_path(shown_path(old, project)));
    }
    let counts = match change.counts() {
        Some((added, deleted)) => {
            let part = |style, sign: char, n: usize| if n > 0 { output.paint(style, format!("{sign}{n}")) } else { String::new() };
            format!("{} {}", part(Style::Green, '+', added), part(Style::Red, '-', deleted)).trim().to_owned()
        }
        None => details(change),
    };
    let mut notes: Vec<String> =
        change.flags.iter().filter(|f| !matches!(f, Flag::Deletion | Flag::Outside)).map(|f| f.in_words().to_owned()).collect();
    if let (Some(before), Some(after)) = (&change.before, &change.after) {
        let (old, new) = (&before.node, &after.node);
        if old.kind == new.kind && old.mode != new.mode && new.kind != Kind::Link && change.kind != ChangeKind::Mode {
            notes.push(format!("mode {:04o} → {:04o}", old.mode, new.mode));
        }
        if (old.uid, old.gid) != (new.uid, new.gid) && change.kind != ChangeKind::Owner {
            notes.push(format!("owner {}:{} → {}:{}", old.uid, old.gid, new.uid, new.gid));
        }
    }
    match change.blocked {
        Some(Blocked::Special) => notes.push("never applied".to_owned()),
        Some(Blocked::Masked) => notes.push("hidden from the sandbox in reality: never applied".to_owned()),
        None => {}
    }
    if change.has_drifted() {
        notes.push(if change.reality.is_some() { "reality changed too" } else { "gone in reality" }.to_owned());
    }
    vec![output.paint(style, sign), path, counts, output.paint(Style::Yellow, notes.join("; "))]
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
        (ChangeKind::Mode, Some(before), Some(after)) => format!("mode {:04o} → {:04o}", before.node.mode, after.node.mode),
        (ChangeKind::Owner, Some(before), Some(after)) => {
            format!("owner {}:{} → {}:{}", before.node.uid, before.node.gid, after.node.uid, after.node.gid)
        }
        (ChangeKind::Xattr, ..) => "attributes".to_owned(),
        (ChangeKind::Special, _, Some(after)) => format!("{:?}", after.node.kind).to_lowercase(),
        (_, None, Some(after)) if after.node.kind == Kind::File => format!("binary, {}", bytes(after.node.size)),
        (_, Some(before), Some(after)) if after.node.kind == Kind::File => {
            format!("binary, {} → {}", bytes(before.node.size), bytes(after.node.size))
        }
        _ => String::new(),
    }
}

/// A directory that came or went with what is in it says nothing of its own.
#[must_use]
pub fn is_implied(change: &Change, all: &[&Change]) -> bool {
    change.is_directory() && matches!(change.kind, ChangeKind::Add | ChangeKind::Delete) && {
        let next = all.partition_point(|c| c.path <= change.path);
        all.get(next).is_some_and(|c| c.path.starts_with(&change.path))
            || all.iter().filter_map(|c| c.old_path()).any(|old| old.starts_with(&change.path))
    }
}

fn wanted_group(all: &[&Change], group: &Path) -> bool {
    all.iter().any(|c| c.path.starts_with(group))
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
        let words: Vec<&str> = change.flags.iter().filter(|f| f.needs_approval()).map(|f| f.in_words()).collect();
        let note = if words.is_empty() { String::new() } else { format!("  {}", output.paint(Style::Red, words.join("; "))) };
        writeln!(out, "   {} {}{note}", output.paint(style, sign), visible_path(&change.path))?;
    }
    Ok(())
}
