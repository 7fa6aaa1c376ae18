use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::Engine;
use whatif_types::config::Rejected;

use super::{Outcome, meant};
use crate::output::{Output, Style};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox; by default the latest of this project
    name: Option<String>,
    /// Keep it, whatever the policy says
    #[arg(long, conflicts_with = "delete")]
    keep: bool,
    /// Delete it
    #[arg(long)]
    delete: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let asked = match (args.keep, args.delete) {
        (true, _) => Some(Rejected::Keep),
        (_, true) => Some(Rejected::Delete),
        _ => None,
    };
    let (sandbox, is_gone) = engine.changes.reject(&meant(engine, args.name.as_deref())?, asked)?;
    output.document(&json!({ "sandbox": sandbox.name, "deleted": is_gone }));
    let name = output.paint(Style::Bold, &sandbox.name);
    if is_gone {
        output.line(format!("{name} is rejected and gone"));
    } else {
        output.line(format!("{name} is rejected; it is kept. Remove it: whatif rm {}", sandbox.name));
    }
    Ok(ExitCode::SUCCESS)
}
