//! `whatif gc`.

use crate::exit::ExitCode;

use whatif_engine::ground::stack::Unknown;
use whatif_engine::missing::in_words;
use whatif_engine::owner::Owner;
use whatif_engine::{Action, Collect, Collected, Engine};
use whatif_types::{Size, Span};

use super::Outcome;
use crate::output::{Output, Style, bytes, counted, printable};
use crate::table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove sandboxes that were not used for this long, even with unapplied changes
    #[arg(long, value_name = "TIME")]
    older_than: Option<Span>,
    /// Remove the least recently used sandboxes, even with unapplied changes, until all take no more than this
    #[arg(long, value_name = "SIZE")]
    max_total: Option<Size>,
    /// Record again the sandboxes that are on disk but not in the database, for example after it was lost; remove nothing
    #[arg(long, conflicts_with_all = ["dry_run", "older_than", "max_total", "delete_unknown"])]
    adopt: bool,
    /// Also delete layers that were never recorded, for example after the database was lost or restored
    #[arg(long)]
    delete_unknown: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    if args.adopt {
        return adopt(engine, output);
    }
    let unknown_layers = if args.delete_unknown { Unknown::Delete } else { Unknown::Keep };
    let asked = Collect { dry_run: args.dry_run, older_than: args.older_than, max_total: args.max_total, unknown_layers };
    let collected = engine.upkeep.collect(&asked)?;
    output.document(&collected);
    tell_reconciled(&collected, output);
    tell_removed(&collected, output);
    if !has_news(&collected) {
        output.line(if args.dry_run { "nothing would be removed" } else { "nothing to do" });
    }
    if args.dry_run {
        explain(&collected, output);
    }
    Ok(ExitCode::SUCCESS)
}

fn adopt(engine: &Engine, output: &Output) -> Outcome {
    let adopted = engine.upkeep.adopt()?;
    output.document(&adopted);
    for path in &adopted.set_aside {
        output.line(format!("the damaged records are in {}", printable(&path.to_string_lossy())));
    }
    for name in &adopted.sandboxes {
        output.line(format!("{name} adopted, with its snapshots"));
    }
    for name in &adopted.snapshots {
        output.line(format!("snapshot {name} adopted"));
    }
    for name in &adopted.templates {
        output.line(format!("template {name} adopted"));
    }
    for left in &adopted.left {
        let path = printable(&left.path.to_string_lossy());
        output.line(format!("{} {path}: {}", output.paint(Style::Yellow, "left:"), left.why));
    }
    if adopted.sandboxes.is_empty() && adopted.snapshots.is_empty() && adopted.templates.is_empty() && adopted.left.is_empty() {
        output.line("nothing to adopt");
    }
    Ok(ExitCode::SUCCESS)
}

fn has_news(collected: &Collected) -> bool {
    let Collected { found_stopped, forgotten, incomplete, unknown, unknown_layers, .. } = collected;
    let Collected { orphans, sandboxes, busy, races, snapshots, layers, .. } = collected;
    let lists = [
        found_stopped.is_empty(),
        forgotten.is_empty(),
        incomplete.is_empty(),
        unknown.is_empty(),
        unknown_layers.is_empty(),
        orphans.is_empty(),
        sandboxes.is_empty(),
        busy.is_empty(),
        races.is_empty(),
        snapshots.is_empty(),
        layers.is_empty(),
    ];
    lists.contains(&false)
}

fn tell_reconciled(collected: &Collected, output: &Output) {
    for name in &collected.found_stopped {
        output.line(format!("{name} had stopped unnoticed; its changes are intact"));
    }
    for name in &collected.forgotten {
        output.line(format!("{name} had no directory any more; its record is removed"));
    }
    for one in &collected.incomplete {
        let what = printable(&format!("{}: {}", one.owner.described(), in_words(&one.missing)));
        output.line(format!("{} {what}; nothing of it was touched", output.paint(Style::Red, "incomplete:")));
    }
    for path in &collected.unknown {
        let shown = printable(&path.to_string_lossy());
        let advice = if collected.adoptable.contains(path) {
            "is a sandbox that the records do not know; record it again: whatif gc --adopt"
        } else {
            "belongs to no record; look at it and delete it by hand if it holds nothing of value"
        };
        output.line(format!("{} {shown} {advice}", output.paint(Style::Yellow, "unknown:")));
    }
    tell_unknown_layers(collected, output);
    for orphan in &collected.orphans {
        let what = printable(&orphan.what.to_os().to_string_lossy());
        let done = match (orphan.action, collected.dry_run) {
            (Action::Left, _) => "is left alone; see what it is, and end, unmount or remove it by hand",
            (Action::Ended, false) => "ended",
            (Action::Ended, true) => "would be ended",
            (Action::Unmounted, false) => "unmounted",
            (Action::Unmounted, true) => "would be unmounted",
            (Action::Removed, false) => "removed",
            (Action::Removed, true) => "would be removed",
        };
        output.line(format!("{} {} {what}: {done}", output.paint(Style::Yellow, "belongs to no sandbox:"), orphan.kind));
    }
}

fn tell_unknown_layers(collected: &Collected, output: &Output) {
    let layers = &collected.unknown_layers;
    if layers.is_empty() {
        return;
    }
    let (count, size) = (counted(layers.len() as u64, "layer"), bytes(layers.iter().map(|l| l.bytes).sum()));
    let what = output.paint(Style::Yellow, "unknown:");
    output
        .line(format!("{what} {count} ({size}) in no record, as after a lost or restored database; no layer is deleted meanwhile"));
    for layer in layers.iter().take(MOST_NAMED) {
        output.line(format!("  {} {}", layer.layer, bytes(layer.bytes)));
    }
    output.line("  restore the records from a backup, or rebuild them from the sandboxes: whatif gc --adopt");
    output.line("  to delete what no record knows then: whatif gc --delete-unknown");
}

fn tell_removed(collected: &Collected, output: &Output) {
    let verb = if collected.dry_run { "would go" } else { "gone" };
    for sandbox in &collected.sandboxes {
        output.line(format!("{} {verb} ({}): {}", sandbox.name, bytes(sandbox.bytes), sandbox.reason));
    }
    for name in &collected.busy {
        output.line(format!("{name} stays this time: another command is using it, or something is mounted in it"));
    }
    for name in &collected.races {
        output.line(format!("race {name} {verb}: it ended long ago, and nothing of it is left"));
    }
    for removal in &collected.snapshots {
        output.line(format!("{} {verb}: an old automatic snapshot", removal.owner.name()));
    }
    if !collected.layers.is_empty() {
        let count = counted(collected.layers.len() as u64, "layer");
        let size = bytes(collected.layers.iter().map(|l| l.bytes).sum());
        output.line(format!("{count} {verb} that nothing needs: {size}"));
    }
}

/// What is kept and why, and what each removal would free.
fn explain(collected: &Collected, output: &Output) {
    if !collected.kept.is_empty() {
        output.line("kept, because something needs it:");
        let mut rows = vec![["LAYER", "SIZE", "NEEDED BY"].map(|h| output.paint(Style::Dim, h)).to_vec()];
        for layer in &collected.kept {
            let names: Vec<String> = layer.needed_by.iter().take(MOST_NAMED).map(shown).collect();
            let more = layer.needed_by.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            rows.push(vec![layer.layer.to_string(), bytes(layer.bytes), format!("{}{more}", names.join(", "))]);
        }
        output.line(table::render(&rows));
    }
    let removals = removals(collected.would_free.iter().map(|r| (&r.owner, r.bytes)));
    if !removals.is_empty() {
        output.line("kept, unless you remove it yourself:");
    }
    for line in removals {
        output.line(format!("  {line}"));
    }
}

/// What frees most, and how much is left unsaid.
fn removals<'a>(would_free: impl Iterator<Item = (&'a Owner, u64)>) -> Vec<String> {
    let freeing = would_free.filter(|(_, size)| *size > 0);
    let mut lines: Vec<String> =
        freeing.map(|(owner, size)| format!("removing {} would free {}", shown(owner), bytes(size))).collect();
    let unsaid = lines.len().saturating_sub(MOST_REMOVALS);
    if unsaid > 0 {
        lines.truncate(MOST_REMOVALS);
        lines.push(format!("… and {unsaid} more; --json lists all"));
    }
    lines
}

/// A template may have the name of a sandbox; a snapshot is told by its `@`.
fn shown(owner: &Owner) -> String {
    match owner {
        Owner::Template(name) => format!("{name} (template)"),
        Owner::Sandbox(name) | Owner::Snapshot(name) => name.clone(),
    }
}

const MOST_NAMED: usize = 4;
const MOST_REMOVALS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_unsaid_is_counted() {
        let owner = Owner::Sandbox("s".into());
        let of = |count| removals(std::iter::repeat_n((&owner, 4096), count).chain([(&owner, 0)]));
        assert_eq!(of(20), ["removing s would free 4.0 KiB"; 20]);
        let many = of(43);
        assert_eq!((many.len(), many[20].as_str()), (21, "… and 23 more; --json lists all"));
    }

    #[test]
    fn a_template_is_told_from_a_sandbox_of_the_same_name() {
        let owners = [Owner::Template("deps".into()), Owner::Sandbox("deps".into()), Owner::Snapshot("deps@s1".into())];
        assert_eq!(owners.each_ref().map(shown), ["deps (template)", "deps", "deps@s1"]);
        assert_eq!(removals(owners.iter().take(1).map(|o| (o, 1024))), ["removing deps (template) would free 1.0 KiB"]);
    }
}
