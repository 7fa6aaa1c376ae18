//! `whatif stop`.

use crate::exit::ExitCode;

use whatif_engine::{DEFAULT_GRACE, Engine};
use whatif_types::{Span, Status};

use super::{Outcome, meant};
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// Time for processes to end before they are killed
    #[arg(long, value_name = "TIME")]
    grace: Option<Span>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let stopped = engine.lifecycle.stop(&meant(engine, args.name.as_deref())?, args.grace.map_or(DEFAULT_GRACE, Span::duration))?;
    let (name, status) = (stopped.sandbox.name.clone(), stopped.sandbox.status);
    output.document(&engine.lifecycle.listed(stopped.sandbox)?);
    output.line(match status {
        Status::Deleted => format!("{name} is stopped; its run left nothing to keep"),
        Status::Stopped if stopped.was_running => format!("{name} is stopped"),
        Status::Stopped => format!("{name} was already stopped"),
        status if stopped.was_running => format!("{name} is stopped; it is {status}, as before"),
        status => format!("{name} was not running: it is {status}"),
    });
    Ok(ExitCode::SUCCESS)
}
