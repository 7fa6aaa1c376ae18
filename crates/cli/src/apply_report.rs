//! An apply as people and programs see it: the plan, the conflicts, the outcome.

use crate::exit::ExitCode;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use whatif_engine::changes::ChangesError;
use whatif_engine::changes::apply::{Applied, ByReason, LeftOut, Options, OtherName, Prepared, Reason, Step, What};
use whatif_engine::changes::commit::Committed;
use whatif_engine::shown_path;
use whatif_patch::Region;

use crate::changes::packages;
use crate::output::{Output, Style, counted, printable, visible_path};

pub fn show_plan(prepared: &Prepared, output: &Output) {
    let project = prepared.project();
    if !prepared.steps.is_empty() {
        let count = counted(prepared.steps.len() as u64, "change");
        output.line(format!("{count} from {}:", output.paint(Style::Bold, &prepared.sandbox.name)));
    }
    let whole = || prepared.packages.iter().filter(|one| !one.is_split());
    for line in packages::in_words(whole().map(|one| &one.group), project) {
        output.line(format!("{} {line}", output.paint(Style::Green, format!("{:<10}", "packages"))));
    }
    let is_folded = |step: &&Step| whole().any(|one| one.paths.contains(&step.path));
    for step in prepared.steps.iter().filter(|step| !is_folded(step)) {
        let (word, style) = in_words(step.what);
        let link = step.link_to.as_ref().map(|to| format!(" (hard link to {})", visible_path(shown_path(to, project))));
        let path = visible_path(shown_path(&step.path, project));
        output.line(format!("{} {path}{}", output.paint(style, format!("{word:<10}")), link.unwrap_or_default()));
    }
    if prepared.steps.is_empty() {
        output.line(format!("nothing to apply from {}", prepared.sandbox.name));
    }
    packages::say_split(&prepared.packages, output);
    say_left_behind(&prepared.steps, project, output);
    say_overruled(&prepared.steps, project, output);
    say_left_out(prepared, output);
}

/// What a review rejected, and `--all` or `--files` took.
fn say_overruled(steps: &[Step], project: &Path, output: &Output) {
    let paths: Vec<PathBuf> = steps.iter().filter(|s| s.was_rejected).map(|s| s.path.clone()).collect();
    if !paths.is_empty() {
        let what = output.paint_note(Style::Yellow, "rejected, and taken all the same:");
        output.note(format!("{what} {}", some_of(&paths, project)));
    }
}

/// Files of reality with several names, of which one gets a version of its own.
fn say_left_behind(steps: &[Step], project: &Path, output: &Output) {
    let paths: Vec<PathBuf> = steps.iter().filter(|s| s.leaves_names_behind).map(|s| s.path.clone()).collect();
    if !paths.is_empty() {
        let what = output.paint_note(Style::Yellow, "hard links:");
        output.note(format!("{what} other names of {} keep the earlier version", some_of(&paths, project)));
    }
}

fn in_words(what: What) -> (&'static str, Style) {
    match what {
        What::Add => ("add", Style::Green),
        What::Replace => ("change", Style::Yellow),
        What::Merge => ("merge", Style::Cyan),
        What::Part => ("in part", Style::Yellow),
        What::Delete => ("delete", Style::Red),
        What::Attributes => ("attributes", Style::Yellow),
    }
}

pub fn say_left_out(prepared: &Prepared, output: &Output) {
    let project = prepared.project().to_owned();
    say_reasons(&prepared.left_out_by_reason(), &prepared.lapsed, &project, output);
}

/// One line for each reason, with the option that would take it.
fn say_reasons(left_out: &ByReason, lapsed: &[PathBuf], project: &Path, output: &Output) {
    // The directories that only lead to a package come with it.
    let with_package = left_out.iter().filter(|((reason, _), _)| matches!(reason, Reason::Package | Reason::Risky));
    let with_package: HashSet<&Path> = match left_out.iter().any(|((reason, _), _)| *reason == Reason::Package) {
        true => with_package.flat_map(|(_, all)| all).flat_map(|one| one.path.ancestors().skip(1)).collect(),
        false => HashSet::new(),
    };
    for ((reason, needs), all) in left_out {
        let leads = |one: &LeftOut| *reason == Reason::DependencyTree && with_package.contains(one.path.as_path());
        let all: Vec<&LeftOut> = all.iter().filter(|one| !leads(one)).collect();
        if all.is_empty() {
            continue;
        }
        let Some((words, remedy)) = explained(*reason) else { continue };
        let option = options(*reason, *needs);
        let hint = if remedy.is_empty() { String::new() } else { format!("; to take: {}", remedy.replace("OPTIONS", &option)) };
        let what = output.paint_note(Style::Yellow, format!("left out, {words}:"));
        output.note(format!("{what} {}{hint}", some(&all, |left_out| named(left_out, project))));
    }
    let rejected = left_out.iter().filter(|((reason, _), _)| *reason == Reason::Rejected).flat_map(|(_, all)| all);
    let changed: Vec<PathBuf> = rejected.map(|l| l.path.clone()).filter(|p| lapsed.contains(p)).collect();
    if !changed.is_empty() {
        let what = output.paint_note(Style::Yellow, "changed since they were rejected:");
        output.note(format!("{what} {}; to decide again: whatif review", some_of(&changed, project)));
    }
}

/// What the sandbox changed besides the packages that were asked for. Directories that only lead to it are not named.
pub fn say_not_in_packages(left_out: &ByReason, project: &Path, output: &Output) {
    let others = left_out.iter().filter(|((reason, _), _)| *reason == Reason::NotChosen).flat_map(|(_, all)| all);
    let mut others: Vec<PathBuf> = others.map(|one| one.path.clone()).collect();
    others.sort();
    let only_leads: Vec<bool> =
        others.iter().enumerate().map(|(at, path)| others.get(at + 1).is_some_and(|next| next.starts_with(path))).collect();
    let mut only_leads = only_leads.into_iter();
    others.retain(|_| !only_leads.next().unwrap_or(false));
    if !others.is_empty() {
        let what = output.paint_note(Style::Yellow, "left out, not on the package's list of files:");
        output.note(format!("{what} {}; to take: --files with its name", some_of(&others, project)));
    }
}

fn named(left_out: &LeftOut, project: &Path) -> String {
    let path = |path: &Path| visible_path(shown_path(path, project));
    match &left_out.moved_to {
        Some(to) => format!("{} → {}", path(&left_out.path), path(to)),
        None => path(&left_out.path),
    }
}

fn some_of(paths: &[PathBuf], project: &Path) -> String {
    some(paths, |path| visible_path(shown_path(path, project)))
}

fn some<T>(all: &[T], in_words: impl Fn(&T) -> String) -> String {
    let examples: Vec<String> = all.iter().take(MOST_NAMED).map(in_words).collect();
    let more = if all.len() > MOST_NAMED { format!(" and {} more", all.len() - MOST_NAMED) } else { String::new() };
    examples.join(", ") + &more
}

/// What is not part of the commit, although it was applied or lies in the same files.
pub fn say_uncommitted(committed: &Committed, project: &Path, output: &Output) {
    if !committed.apart.is_empty() {
        let what = output.paint_note(Style::Yellow, "not committed, part of another repository:");
        output.note(format!("{what} {}; commit it there", some_of(&committed.apart, project)));
    }
    if !committed.own.is_empty() && committed.id.is_some() {
        let what = output.paint_note(Style::Yellow, "not committed, your own edits in:");
        output.note(format!("{what} {}", some_of(&committed.own, project)));
    }
    if !committed.already.is_empty() {
        let what = output.paint_note(Style::Yellow, "not committed, among uncommitted edits of yours already:");
        output.note(format!("{what} {}; commit them yourself", some_of(&committed.already, project)));
    } else if committed.id.is_none() && committed.apart.is_empty() {
        output.note("nothing was committed: the last commit has it all already");
    }
}

const MOST_NAMED: usize = 3;

/// Those that a path needs, or of one that follows another path's fate, the option that the reason is about.
fn options(reason: Reason, needs: Options) -> String {
    let needs = match reason {
        _ if needs != Options::default() => needs,
        Reason::Outside => Options { outside: true, ..needs },
        Reason::Ignored => Options { ignored: true, ..needs },
        _ => Options { risky: true, ..needs },
    };
    let all = [(needs.outside, "--outside"), (needs.ignored, "--ignored"), (needs.risky, "--risky")];
    let options = all.iter().filter(|(is_needed, _)| *is_needed).map(|(_, option)| *option).collect::<Vec<_>>().join(" ");
    if needs.review { format!("accept it in 'whatif review', then {options}") } else { options }
}

/// With what to do to take it all the same; `OPTIONS` stands for the options that are needed.
fn explained(reason: Reason) -> Option<(&'static str, &'static str)> {
    Some(match reason {
        Reason::Special => ("a pipe, socket or device", ""),
        Reason::Masked => ("hidden from the sandbox in reality", ""),
        Reason::DeniedByPolicy => ("denied by the policy", ""),
        Reason::Risky => ("needs its own approval", "OPTIONS, or --files with its name"),
        Reason::DependencyTree => {
            ("in a dependency tree with something that needs its own approval", "the whole tree with OPTIONS")
        }
        Reason::Package => ("in a package with something that needs its own approval", "the whole package with OPTIONS"),
        Reason::Outside => ("outside the project", "OPTIONS"),
        Reason::Ignored => ("ignored by the project", "OPTIONS"),
        Reason::Rejected => ("rejected", "whatif review, or --files with its name"),
        Reason::Undecided => ("not decided in the review", "whatif review, or --files with its name"),
        Reason::Lapsed => ("changed since it was approved", "whatif review, or --files with its name"),
        Reason::NotEmpty => ("still has something in it", ""),
        Reason::Skipped => ("left for later", ""),
        Reason::OtherHalf => ("one half of a rename, only the other was asked for", ""),
        Reason::KeptReality => ("reality's version stays", ""),
        Reason::SettledBefore => ("an earlier --ours settled on reality's version", "whatif cp --force, which no undo takes back"),
        Reason::Moved => ("moved to a path that is left out", "that path as well, or --files with the old one"),
        Reason::GitObject => ("git's objects, which 'git gc' removes once nothing needs them", ""),
        Reason::GitLock => ("a lock of git's in the sandbox", ""),
        // Said by the one who asked.
        Reason::Excluded | Reason::NotChosen => return None,
    })
}

pub fn report(applied: &Applied, left_out: &ByReason, commit: Option<&str>, output: &Output) {
    let Some(id) = &applied.id else {
        output.line("settled; nothing had to be written");
        return say_reasons(left_out, &applied.lapsed, &applied.sandbox.project, output);
    };
    let merged = applied.steps.iter().filter(|s| s.what == What::Merge).count();
    let merges = match (merged, applied.steps.len()) {
        (0, _) => String::new(),
        (1, 1) => " (merged)".to_owned(),
        _ => format!(" ({merged} merged)"),
    };
    output.line(format!(
        "{} {} applied{merges} from {} as {}",
        output.paint(Style::Green, "✓"),
        counted(applied.steps.len() as u64, "change"),
        applied.sandbox.name,
        output.paint(Style::Bold, id),
    ));
    if let Some(commit) = commit {
        output.line(format!("  committed as {}", &commit[..commit.len().min(12)]));
    }
    for note in &applied.notes {
        output.note(printable(note));
    }
    for line in
        packages::in_words(applied.packages.iter().filter(|one| !one.is_split()).map(|one| &one.group), &applied.sandbox.project)
    {
        output.line(format!("  {line}"));
    }
    packages::say_split(&applied.packages, output);
    say_left_behind(&applied.steps, &applied.sandbox.project, output);
    say_overruled(&applied.steps, &applied.sandbox.project, output);
    say_reasons(left_out, &applied.lapsed, &applied.sandbox.project, output);
    output.line(format!("  take it back: whatif undo {id}"));
}

/// Every conflict with both sides, and what can be done about each.
pub fn refuse_conflicts(prepared: Prepared, output: &Output) -> ExitCode {
    if !output.json {
        for conflict in &prepared.conflicts {
            let path = visible_path(shown_path(&conflict.path, prepared.project()));
            let other = |other: &Path| visible_path(shown_path(other, prepared.project()));
            let why = match &conflict.renamed {
                Some(OtherName::To(new)) => format!("{}; the sandbox renamed it to {}", conflict.why, other(new)),
                Some(OtherName::From(old)) => format!("{}; the sandbox renamed {} to it", conflict.why, other(old)),
                None => conflict.why.to_owned(),
            };
            show_conflict(&path, &why, &conflict.regions, ["reality", "the sandbox"], output);
        }
    }
    let conflicts = prepared.conflicts.clone();
    output.error(&ChangesError::conflicts(&prepared.sandbox, conflicts))
}

const MOST_LINES: usize = 12;

/// What each of two sides made of a path.
pub fn show_conflict(path: &str, why: &str, regions: &[Region], [one, other]: [&str; 2], output: &Output) {
    output.note(format!("{} {path}: {why}", output.paint_note(Style::Red, "conflict:")));
    for region in regions {
        output.note(format!("  {path}, line {} in {one}:", region.ours_start));
        side(&region.ours, Style::Yellow, output);
        output.note(format!("  {path} in {other}:"));
        side(&region.theirs, Style::Cyan, output);
    }
}

fn side(text: &[u8], style: Style, output: &Output) {
    let lines = whatif_patch::lines(text);
    for line in lines.iter().take(MOST_LINES) {
        let line = whatif_patch::escape(line.strip_suffix(b"\n").unwrap_or(line));
        output.note(format!("    {}", output.paint_note(style, line)));
    }
    if lines.is_empty() {
        output.note("    (nothing)");
    } else if lines.len() > MOST_LINES {
        output.note(format!("    … {} more lines", lines.len() - MOST_LINES));
    }
}
