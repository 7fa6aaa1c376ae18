//! `whatif squash`.

use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::Engine;

use super::{Outcome, meant};
use crate::output::{Output, counted};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let (sandbox, squashed) = engine.ground.squash(&meant(engine, args.name.as_deref())?)?;
    output.document(&json!({ "sandbox": sandbox.name, "before": squashed.before, "after": squashed.after }));
    output.line(if squashed.before == squashed.after {
        format!("{} has {}; nothing to merge", sandbox.name, counted(squashed.after as u64, "layer"))
    } else {
        format!("{} stands on {} instead of {}", sandbox.name, counted(squashed.after as u64, "layer"), squashed.before)
    });
    Ok(ExitCode::SUCCESS)
}
