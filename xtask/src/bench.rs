//! `cargo xtask bench`: what whatif costs, beside what others cost on the same machine in the same minutes.
//!
//! The machines this runs on are noisy and unlike each other, so nothing is judged by absolute time: contenders take turns,
//! medians are compared, and every bar is a ratio (except sizes and rates, which the project promises as such).

mod figure;
mod fleet;
mod keeper;
mod measure;
mod peers;
mod process;
mod report;
mod scratch;
mod trees;

use std::path::{Path, PathBuf};

use crate::failure::{Failure, on};
use crate::workspace::Workspace;
use report::Report;
use scratch::Scratch;

#[derive(Debug, Default)]
pub struct Options {
    quick: bool,
    as_user: bool,
    json: Option<PathBuf>,
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
                unknown => return Err(Failure::Usage(format!("'{unknown}' is not an option of bench"))),
            }
        }
        Ok(options)
    }
}

/// How much is measured.
struct Effort {
    rounds: usize,
    tree_sizes: &'static [usize],
    fleet: usize,
}

const QUICK: Effort = Effort { rounds: 30, tree_sizes: &[1_000, 100_000], fleet: 200 };
const FULL: Effort = Effort { rounds: 200, tree_sizes: &[1_000, 100_000, 1_000_000], fleet: 200 };

pub fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::find()?;
    let binary = binary(&workspace)?;
    let effort = if options.quick { QUICK } else { FULL };
    let report = {
        let scratch = Scratch::make(&binary, options.as_user)?;
        measure(&scratch, &effort)?
    };
    report.print();
    let file = options.json.clone().unwrap_or_else(|| workspace.target.join("bench.json"));
    report.write(&file)?;
    println!("\nwritten to {}", file.display());
    Ok(())
}

fn measure(scratch: &Scratch, effort: &Effort) -> Result<Report, Failure> {
    let mut report = Report::new(scratch.uid(), effort.rounds);
    say(&format!("commands, {} rounds", effort.rounds));
    peers::measure(scratch, effort.rounds, &mut report)?;
    say(&format!("a fleet of {}", effort.fleet));
    fleet::measure(scratch, effort.fleet, &mut report)?;
    // Last, because the disk is busy for a while after a million files.
    say(&format!("trees of up to {} files", effort.tree_sizes.last().copied().unwrap_or_default()));
    trees::measure(scratch, effort.tree_sizes, effort.rounds, &mut report)?;
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
}
