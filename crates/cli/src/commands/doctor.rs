//! `whatif doctor`.

use crate::exit::ExitCode;
use std::sync::Arc;

use whatif_engine::doctor::{self, Verdict};

use super::Outcome;
use crate::caller;
use crate::chores::InBackground;
use crate::output::{Output, Style, printable};

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn execute(_args: &Args, output: &Output) -> Outcome {
    let caller = caller::from_process()?;
    let probes = doctor::examine(&caller::state_dir(&caller)?, caller, Arc::new(InBackground::default()));
    output.document(&probes);
    let widest = probes.iter().map(|p| p.name.len()).max().unwrap_or(0);
    for probe in &probes {
        let mark = match probe.verdict {
            Verdict::Ok => output.paint(Style::Green, "ok  "),
            Verdict::Warn => output.paint(Style::Yellow, "warn"),
            Verdict::Fail => output.paint(Style::Red, "fail"),
        };
        output.line(format!("{mark}  {:<widest$}  {}", probe.name, printable(&probe.detail.replace('\n', "; "))));
        if let Some(fix) = &probe.fix {
            output.line(format!("      {} {}", output.paint(Style::Cyan, "fix:"), fix));
        }
    }
    let worst = probes.iter().map(|p| p.verdict).max().unwrap_or(Verdict::Ok);
    Ok(if worst == Verdict::Fail { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
