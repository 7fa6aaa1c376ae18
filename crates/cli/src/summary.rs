//! What a sandbox changed, in a few lines: at the end of a `run`, and of a shell.

use std::collections::BTreeSet;
use std::path::Path;

use whatif_engine::{Change, ChangeKind, Depth, Engine, Flag, PackageGroup, Sandbox, Summary};
use whatif_types::text::Text;
use whatif_types::timestamp;

use crate::changes::packages;
use crate::output::{Output, Style, bytes, counted, printable};
use crate::spelled;

/// `3 paths changed (1.2 KiB)`, `58 paths deleted`.
pub fn in_words(summary: &Summary) -> String {
    let Summary { changed_files: all, deleted, size_bytes, .. } = *summary;
    let size = if size_bytes > 0 { format!(" ({})", bytes(size_bytes)) } else { String::new() };
    match deleted {
        0 => format!("{} changed{size}", counted(all, "path")),
        _ if deleted == all => format!("{} deleted", counted(all, "path")),
        _ => format!("{} changed, {deleted} of them deleted{size}", counted(all, "path")),
    }
}

/// The packages, the first few of the other changes, and the commits.
pub fn tell_examples(summary: &Summary, project: &Path, output: &Output) {
    for line in packages::in_words(&summary.packages, project) {
        output.note(format!("  {line}"));
    }
    for change in &summary.examples {
        let (mark, style) = match change.kind {
            ChangeKind::Add => ("+", Style::Green),
            ChangeKind::Delete => ("-", Style::Red),
            _ => ("~", Style::Yellow),
        };
        output.note(format!("  {}", output.paint_note(style, format!("{mark} {}", printable(&change.path.to_string_lossy())))));
    }
    let in_packages: usize = summary.packages.iter().map(|group| group.files).sum();
    let more = summary.changed_files.saturating_sub((summary.examples.len() + in_packages) as u64);
    if more > 0 && !summary.examples.is_empty() {
        output.note(format!("  … and {more} more"));
    }
    for commits in &summary.commits {
        output.note(format!("  {} on branch {}", counted(commits.count, "commit"), printable(&commits.branch)));
    }
}

/// Of a sandbox that is removed with its time: when that is, and what gives it more.
pub fn tell_removal(engine: &Engine, sandbox: &Sandbox, output: &Output) {
    let Ok(Some(left)) = engine.lifecycle.removed_in(sandbox) else { return };
    let name = &sandbox.name;
    output.note(match u64::try_from(left.as_millis()).unwrap_or(u64::MAX) {
        0 => "  its time is up: it is removed now, with its changes (--then remove)".to_owned(),
        ms => format!("  removed with its changes in {}; more time: whatif start {name} --ttl 1h", timestamp::roughly(ms)),
    });
}

/// What can be done now, a line each.
pub fn tell_next(engine: &Engine, sandbox: &Sandbox, summary: &Summary, is_running: bool, output: &Output) {
    let packages = || {
        let set = engine.ground.change_set(sandbox, Depth::Review).ok()?;
        let is_flagged = |c: &&Change| c.flags.iter().any(|flag| flag.needs_approval() && *flag != Flag::Outside);
        let mut flagged = set.changes.iter().filter(is_flagged).peekable();
        flagged.peek()?;
        flagged.all(|c| set.packages.around(&c.path).is_some()).then(|| called(&summary.packages))
    };
    for (why, command) in next(&sandbox.name, summary, is_running, packages) {
        output.note(format!("  {:<14}whatif {command}", format!("{why}:")));
    }
}

/// What `--package` takes for all of these: the name of the only one, or their managers.
fn called(groups: &[PackageGroup]) -> String {
    if let [PackageGroup { packages, .. }] = groups
        && let [only] = packages.as_slice()
    {
        return spelled::quoted(&Text::from(&only.name));
    }
    let managers: BTreeSet<&str> = groups.iter().map(|group| group.manager.name()).collect();
    managers.into_iter().collect::<Vec<_>>().join(" ")
}

/// Commands with the options without which they would show or take nothing.
fn next(name: &str, summary: &Summary, is_running: bool, packages: impl FnOnce() -> Option<String>) -> Vec<(&'static str, String)> {
    let all = summary.changed_files;
    let (shows, takes) = if summary.of_git == all {
        (" --all", " --ignored".to_owned())
    } else if summary.outside == all {
        // A package is taken by its name, and only with all that needs an approval in it.
        let packages = if summary.packages.is_empty() { None } else { packages() };
        (" --outside", packages.map_or_else(|| " --outside".to_owned(), |names| format!(" --package {names} --risky")))
    } else {
        ("", String::new())
    };
    let mut next = Vec::new();
    if all > 0 || !summary.unreadable.is_empty() {
        next.push(("look at it", format!("diff {name}{shows}")));
        next.push(("make it real", format!("apply {name}{takes}")));
    }
    if is_running {
        next.push(("what runs", format!("ps {name}")));
        next.push(("end it", format!("stop {name}")));
    }
    next.push(("drop it", format!("rm {name}")));
    next
}

/// After a shell: what there is by now.
pub fn tell(engine: &Engine, sandbox: &Sandbox, summary: &Summary, output: &Output) {
    let (tag, name) = (output.paint_note(Style::Dim, "whatif:"), output.paint_note(Style::Bold, &sandbox.name));
    if summary.changed_files == 0 && summary.unreadable.is_empty() {
        return output.note(format!("{tag} nothing changed in {name}"));
    }
    output.note(format!("{tag} {} in {name}; reality is untouched", in_words(summary)));
    tell_examples(summary, &sandbox.project, output);
    tell_next(engine, sandbox, summary, false, output);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_next_leads_somewhere() {
        let told = |summary: Summary, is_running| -> Vec<String> {
            next("fox", &summary, is_running, || Some("pip".to_owned())).into_iter().map(|(_, command)| command).collect()
        };
        let some = Summary { changed_files: 6, of_git: 5, ..Summary::default() };
        assert_eq!(told(some, false), ["diff fox", "apply fox", "rm fox"]);
        let commit = Summary { changed_files: 6, of_git: 6, ..Summary::default() };
        assert_eq!(told(commit, false), ["diff fox --all", "apply fox --ignored", "rm fox"]);
        let outside = Summary { changed_files: 2, outside: 2, ..Summary::default() };
        assert_eq!(told(outside, false), ["diff fox --outside", "apply fox --outside", "rm fox"]);
        assert_eq!(told(Summary::default(), true), ["ps fox", "stop fox", "rm fox"]);
    }

    #[test]
    fn what_was_deleted_is_said() {
        let said =
            |changed_files, deleted, size_bytes| in_words(&Summary { changed_files, deleted, size_bytes, ..Summary::default() });
        assert_eq!(said(1, 0, 0), "1 path changed");
        assert_eq!(said(3, 0, 2048), "3 paths changed (2.0 KiB)");
        assert_eq!(said(58, 58, 0), "58 paths deleted");
        assert_eq!(said(60, 58, 2048), "60 paths changed, 58 of them deleted (2.0 KiB)");
        assert_eq!(said(0, 0, 0), "0 paths changed");
    }
}
