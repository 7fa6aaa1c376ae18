//! `cargo xtask bench`: what whatif costs, beside what others cost on the same machine in the same minutes.
//!
//! The machines this runs on are noisy and unlike each other, so nothing is judged by absolute time: contenders take turns,
//! medians are compared, and every bar is a ratio (except sizes and rates, which the project promises as such).

mod apply;
mod changes;
mod figure;
mod fleet;
mod keeper;
mod limits;
mod measure;
pub mod network;
mod part;
mod peers;
mod pool;
mod process;
mod race;
mod report;
mod repository;
mod scratch;
mod snapshots;
mod trees;

use std::path::{Path, PathBuf};

use crate::failure::{Failure, on};
use crate::workspace::Workspace;
use part::Part;
use report::Report;
use scratch::Scratch;

#[derive(Debug, Default)]
pub struct Options {
    quick: bool,
    as_user: bool,
    json: Option<PathBuf>,
    /// What to measure; everything when nothing is named.
    parts: Vec<Part>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--user" => options.as_user = true,
                "--json" => {
                    let file = arguments.next().ok_or_else(|| Failure::Usage("--json needs a file".to_owned()))?;
                    options.json = Some(file.into());
                }
                option if option.starts_with('-') => {
                    return Err(Failure::Usage(format!("'{option}' is not an option of bench")));
                }
                part => options.parts.push(Part::named(part)?),
            }
        }
        Ok(options)
    }

    fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// How much is measured.
struct Effort {
    rounds: usize,
    tree_sizes: &'static [usize],
    fleets: &'static [usize],
    diff_rounds: usize,
    apply_rounds: usize,
    race_rounds: usize,
    network: network::Effort,
    snapshots: snapshots::Effort,
}

const QUICK: Effort = Effort {
    rounds: 30,
    tree_sizes: &[1_000, 100_000],
    fleets: &[200],
    diff_rounds: 10,
    apply_rounds: 5,
    race_rounds: 3,
    network: network::QUICK,
    snapshots: snapshots::QUICK,
};
const FULL: Effort = Effort {
    rounds: 200,
    tree_sizes: &[1_000, 100_000, 1_000_000],
    fleets: &[200, 1_000],
    diff_rounds: 30,
    apply_rounds: 5,
    race_rounds: 7,
    network: network::FULL,
    snapshots: snapshots::FULL,
};

pub fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::find()?;
    let binary = binary(&workspace)?;
    let effort = if options.quick { QUICK } else { FULL };
    let scratch = Scratch::make(&binary, options.as_user)?;
    let report = measure(&scratch, &effort, options)?;
    // Before the scratch place goes away, which takes minutes after large trees.
    report.print();
    let file = options.json.clone().unwrap_or_else(|| workspace.target.join("bench.json"));
    report.write(&file)?;
    println!("\nwritten to {}", file.display());
    Ok(())
}

fn measure(scratch: &Scratch, effort: &Effort, options: &Options) -> Result<Report, Failure> {
    let mut report = Report::new(scratch.uid(), effort.rounds);
    if options.wants(Part::Commands) {
        say(&format!("commands, {} rounds", effort.rounds));
        peers::measure(scratch, effort.rounds, &mut report)?;
    }
    if options.wants(Part::Pool) {
        say(&format!("from the pool, {} rounds", effort.rounds));
        pool::measure(scratch, effort.rounds, &mut report)?;
    }
    if options.wants(Part::Limits) {
        say(&format!("limits, {} rounds", effort.rounds));
        limits::measure(scratch, effort.rounds, &mut report)?;
    }
    if options.wants(Part::Network) {
        network::measure(scratch, &effort.network, &mut report)?;
    }
    if options.wants(Part::Fleet) {
        for &size in effort.fleets {
            say(&format!("a fleet of {size}"));
            fleet::measure(scratch, size, effort.rounds, &mut report)?;
        }
    }
    if options.wants(Part::Diff) {
        say(&format!("finding changes, {} rounds", effort.diff_rounds));
        changes::measure(scratch, effort.diff_rounds, &mut report)?;
    }
    if options.wants(Part::Apply) {
        say(&format!("making changes real, {} rounds", effort.apply_rounds));
        apply::measure(scratch, effort.apply_rounds, &mut report)?;
    }
    if options.wants(Part::Snapshots) {
        snapshots::measure(scratch, &effort.snapshots, &mut report)?;
    }
    if options.wants(Part::Race) {
        say(&format!("races, {} rounds", effort.race_rounds));
        race::measure(scratch, effort.race_rounds, &mut report)?;
    }
    // Last, because the disk is busy for a while after a million files.
    if options.wants(Part::Trees) {
        say(&format!("trees of up to {} files", effort.tree_sizes.last().copied().unwrap_or_default()));
        trees::measure(scratch, effort.tree_sizes, effort.rounds, &mut report)?;
    }
    Ok(report)
}

fn binary(workspace: &Workspace) -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os("WHATIF_BIN") {
        return std::fs::canonicalize(&path).map_err(on("find", Path::new(&path)));
    }
    say("building the release");
    let status = workspace.cargo(&["build", "--release"]).status().map_err(on("run", Path::new("cargo build --release")))?;
    if !status.success() {
        return Err(Failure::new(format!("cargo build --release: {status}")));
    }
    Ok(workspace.release_binary())
}

/// Progress, kept apart from the table.
fn say(what: &str) {
    eprintln!("bench: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, Failure> {
        Options::parse(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_understood_or_refused() {
        let options = parse(&["--quick", "--json", "out.json", "--user"]).unwrap();
        assert!(options.quick && options.as_user);
        assert_eq!(options.json, Some("out.json".into()));
        assert!(matches!(parse(&["--json"]), Err(Failure::Usage(_))));
        assert!(matches!(parse(&["--fast"]), Err(Failure::Usage(_))));
    }

    #[test]
    fn parts_are_chosen_by_name_and_all_are_wanted_otherwise() {
        let some = parse(&["diff", "--quick", "apply"]).unwrap();
        assert!(some.wants(Part::Diff) && some.wants(Part::Apply) && !some.wants(Part::Trees));
        assert!(parse(&[]).unwrap().wants(Part::Trees));
        assert!(matches!(parse(&["everything"]), Err(Failure::Usage(_))));
    }
}
