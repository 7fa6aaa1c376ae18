//! `whatif du`.

use crate::exit::ExitCode;

use whatif_engine::Engine;
use whatif_engine::ground::usage::{Hint, Usage};
use whatif_types::Selector;

use super::Outcome;
use crate::output::{Output, Style, bytes, visible_path};
use crate::table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this sandbox and its snapshots
    name: Option<String>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let usage = engine.ground.usage(args.name.as_deref().map(Selector::from).as_ref())?;
    output.document(&usage);
    if !output.json {
        show(&usage, args.name.is_some(), output);
    }
    Ok(ExitCode::SUCCESS)
}

fn show(usage: &Usage, with_snapshots: bool, output: &Output) {
    let mut rows = vec![["NAME", "HEAD", "LAYERS", "ITS OWN", "SNAPSHOTS"].map(|h| output.paint(Style::Dim, h)).to_vec()];
    for s in &usage.sandboxes {
        rows.push(vec![
            output.paint(Style::Bold, &s.name),
            bytes(s.head_bytes),
            bytes(s.layers_bytes),
            bytes(s.own_bytes),
            s.snapshots.len().to_string(),
        ]);
        for snapshot in s.snapshots.iter().filter(|_| with_snapshots) {
            rows.push(vec![
                format!("  @{}", snapshot.label),
                String::new(),
                bytes(snapshot.layer_bytes),
                bytes(snapshot.own_bytes),
            ]);
        }
    }
    for t in usage.templates.iter().filter(|_| !with_snapshots) {
        rows.push(vec![
            format!("{} (template)", output.paint(Style::Bold, &t.name)),
            String::new(),
            bytes(t.layers_bytes),
            bytes(t.own_bytes),
        ]);
    }
    if rows.len() > 1 {
        output.line(table::render(&rows));
    }
    output.line(format!(
        "{} in all: {} in layers, {} kept for undo; {} free",
        output.paint(Style::Bold, bytes(usage.total_bytes)),
        bytes(usage.layers_bytes),
        bytes(usage.applies_bytes),
        bytes(usage.free_bytes)
    ));
    for (name, hint) in usage.sandboxes.iter().filter_map(|s| s.hint.as_ref().map(|h| (&s.name, h))) {
        output.note(format!("  {} {}", output.paint_note(Style::Cyan, "hint:"), advice(name, hint)));
    }
    if let Some(alert) = &usage.alert {
        output.note(format!("{} {alert}; 'whatif gc --dry-run' shows what could go", output.paint_note(Style::Yellow, "whatif:")));
    }
}

fn advice(name: &str, hint: &Hint) -> String {
    let directory = visible_path(&hint.directory);
    let (percent, size) = (hint.percent, bytes(hint.bytes));
    if hint.is_in_layers {
        return format!(
            "{directory}/ is {percent} % of what snapshots of {name} hold: deleting it inside frees nothing, removing {name} frees {size}"
        );
    }
    let remedy = match hint.is_ignored {
        true => format!(" and ignored by the project: whatif exec {name} -- rm -rf {directory} frees {size}"),
        false => String::new(),
    };
    format!("{directory}/ is {percent} % of {name}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleting_is_advised_only_where_it_frees_something() {
        let hint = Hint { directory: "target".into(), percent: 92, bytes: 3 << 20, is_ignored: true, is_in_layers: false };
        assert_eq!(
            advice("fix", &hint),
            "target/ is 92 % of fix and ignored by the project: whatif exec fix -- rm -rf target frees 3.0 MiB"
        );
        assert_eq!(advice("fix", &Hint { is_ignored: false, ..hint.clone() }), "target/ is 92 % of fix");
        let frozen = Hint { is_in_layers: true, ..hint };
        assert_eq!(
            advice("fix", &frozen),
            "target/ is 92 % of what snapshots of fix hold: deleting it inside frees nothing, removing fix frees 3.0 MiB"
        );
    }
}
