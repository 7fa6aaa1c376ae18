//! `whatif doctor`.

use crate::exit::ExitCode;
use std::sync::Arc;

use whatif_client::caller;
use whatif_client::chores::InBackground;
use whatif_engine::doctor::{self, Verdict};

use super::Outcome;
use crate::output::{Output, Style, printable};

mod fix;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Change the settings of this machine that keep ordinary users from making sandboxes; shows them and asks first
    #[arg(long)]
    fix: bool,
    /// With --fix: do not ask for confirmation
    #[arg(long, short = 'y', requires = "fix")]
    yes: bool,
}

pub fn execute(args: &Args, output: &Output) -> Outcome {
    let caller = caller::from_process()?;
    let is_root = caller.is_root();
    if args.fix {
        return fix::execute(is_root, args.yes, output);
    }
    let probes = doctor::examine(&super::state_place(&caller)?, caller, Arc::new(InBackground::default()));
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
    fix::offer(is_root, output);
    let worst = probes.iter().map(|p| p.verdict).max().unwrap_or(Verdict::Ok);
    Ok(if worst == Verdict::Fail { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
