use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::changes::reject::Rejection;
use whatif_engine::ground::GroundError;
use whatif_engine::{Engine, EngineError};
use whatif_types::config::Rejected;

use super::{Outcome, meant};
use crate::output::{Output, Style, printable};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id; by default the latest of this project
    name: Option<String>,
    /// Keep the sandbox, even if the policy says to delete it
    #[arg(long, conflicts_with = "delete")]
    keep: bool,
    /// Delete the sandbox
    #[arg(long)]
    delete: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let asked = match (args.keep, args.delete) {
        (true, _) => Some(Rejected::Keep),
        (_, true) => Some(Rejected::Delete),
        _ => None,
    };
    let rejected = engine.changes.reject(&meant(engine, args.name.as_deref())?, asked);
    let Rejection { sandbox, is_gone, was_rejected } = match (rejected, &args.name) {
        // One that was to go is gone.
        (Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })), Some(name))
            if asked != Some(Rejected::Keep) && engine.lifecycle.was_removed(name)? =>
        {
            output.document(&json!({ "sandbox": name, "deleted": true }));
            output.line(format!("{} was already removed", printable(name)));
            return Ok(ExitCode::SUCCESS);
        }
        (rejected, _) => rejected?,
    };
    output.document(&json!({ "sandbox": sandbox.name, "deleted": is_gone }));
    let name = output.paint(Style::Bold, &sandbox.name);
    if was_rejected {
        output.line(format!("{name} was already rejected; it is kept. Remove it: whatif rm {}", sandbox.name));
    } else if is_gone {
        output.line(format!("{name} is rejected and gone"));
    } else {
        output.line(format!("{name} is rejected; it is kept. Remove it: whatif rm {}", sandbox.name));
    }
    Ok(ExitCode::SUCCESS)
}
