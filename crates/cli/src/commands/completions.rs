//! `whatif completions`.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Outcome;
use crate::args::Cli;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn execute(args: &Args) -> Outcome {
    clap_complete::generate(args.shell, &mut Cli::command(), "whatif", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}
