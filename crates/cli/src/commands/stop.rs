//! `whatif stop`.

use crate::exit::ExitCode;

use whatif_engine::{DEFAULT_GRACE, Engine};
use whatif_types::{Span, Status};

use super::{Outcome, meant};
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox: its name or the beginning of its id
    name: Option<String>,
    /// How long processes have to end by themselves before they are killed
    #[arg(long, value_name = "TIME")]
    grace: Option<Span>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let sandbox = engine.lifecycle.stop(&meant(engine, args.name.as_deref())?, args.grace.map_or(DEFAULT_GRACE, Span::duration))?;
    let name = sandbox.name.clone();
    let left = if sandbox.status == Status::Deleted { "; its run left nothing to keep" } else { "" };
    output.document(&engine.lifecycle.listed(sandbox)?);
    output.line(format!("{name} is stopped{left}"));
    Ok(ExitCode::SUCCESS)
}
