//! `whatif start`.

use crate::exit::ExitCode;

use whatif_engine::Engine;
use whatif_types::Span;

use super::{Outcome, meant};
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// Let the sandbox live this long from now on (30m, 2h), even if it already runs or has expired
    #[arg(long, value_name = "TIME")]
    ttl: Option<Span>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let sandbox = engine.lifecycle.start(&meant(engine, args.name.as_deref())?, args.ttl)?;
    let name = sandbox.name.clone();
    super::port::tell_missing(engine, &sandbox, output);
    output.document(&engine.lifecycle.listed(sandbox)?);
    output.line(format!("{name} is running"));
    Ok(ExitCode::SUCCESS)
}
