//! `whatif pool`.

use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::Engine;
use whatif_engine::upkeep::pool::{Filled, Shortfall};

use super::Outcome;
use crate::failure::Failure;
use crate::output::{Output, Style, counted, printable};
use crate::table;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Fill the pool of this project now
    Fill,
    /// Remove all sandboxes that are kept ready
    Drain,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    match &args.action {
        None => show(engine, output),
        Some(Action::Fill) => fill(engine, output)?,
        Some(Action::Drain) => {
            let drained = engine.upkeep.drain_pool()?;
            output.document(&json!({ "drained": drained }));
            output.line(format!("{} thrown away", counted(drained as u64, "sandbox")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn fill(engine: &Engine, output: &Output) -> Result<(), Failure> {
    let filled = engine.upkeep.fill_pool_now()?;
    if filled.size == 0 && filled.surplus == 0 {
        return Err(Failure::usage("switched_off", "the pool is switched off", "set 'size' under '[pool]' in the configuration"));
    }
    output.document(&filled);
    output.line(told(&filled));
    if let Some(shortfall) = filled.shortfall {
        output.note(format!("  {}", reason(shortfall)));
    }
    Ok(())
}

fn told(filled: &Filled) -> String {
    let ready = format!("{} of {} ready", filled.ready, counted(filled.size as u64, "sandbox"));
    match (filled.size, filled.surplus) {
        (0, surplus) => format!("the pool is switched off; {} thrown away", counted(surplus as u64, "sandbox")),
        (_, 0) => ready,
        (_, surplus) => format!("{ready}; {surplus} more thrown away"),
    }
}

fn reason(shortfall: Shortfall) -> &'static str {
    match shortfall {
        Shortfall::Limits => "there are limits here, and sandboxes with limits are made when they are wanted",
        Shortfall::Copied => "files are copied here, and a copy that is kept ready would not follow what changes in reality",
    }
}

fn show(engine: &Engine, output: &Output) {
    let kept = engine.upkeep.pool();
    output.document(&kept);
    if kept.is_empty() {
        output.note(match engine.caller().config.pool.size {
            0 => "nothing is kept ready; set 'size' under '[pool]' in the configuration",
            _ => "nothing is kept ready yet; fill it: whatif pool fill",
        });
        return;
    }
    let mut rows = vec![["READY", "NETWORK", "PROJECT"].map(|h| output.paint(Style::Dim, h)).to_vec()];
    for shelf in &kept {
        rows.push(vec![
            format!("{} of {}", shelf.ready, engine.caller().config.pool.size),
            format!("{:?}", shelf.net).to_lowercase(),
            printable(&shelf.project.to_string_lossy()),
        ]);
    }
    output.line(table::render(&rows));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filling_tells_how_many_are_ready_of_how_many() {
        let filled = |ready, size, surplus| told(&Filled { ready, size, surplus, shortfall: None });
        assert_eq!(filled(2, 5, 0), "2 of 5 sandboxes ready");
        assert_eq!(filled(1, 1, 4), "1 of 1 sandbox ready; 4 more thrown away");
        assert_eq!(filled(0, 0, 1), "the pool is switched off; 1 sandbox thrown away");
    }
}
