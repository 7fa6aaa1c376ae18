//! `whatif doctor`.

use std::process::ExitCode;

use super::Outcome;
use crate::output::Output;

/// Test everything a sandbox needs, and say how to fix what is missing
#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn execute(_args: &Args, _output: &Output) -> Outcome {
    Ok(ExitCode::SUCCESS)
}
