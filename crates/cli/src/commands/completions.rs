//! `whatif completions`.

use crate::exit::ExitCode;
use std::io::Write;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::Outcome;
use crate::args::Cli;
use crate::output::lost_output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn execute(args: &Args) -> Outcome {
    // Into memory first: the generator panics where its output cannot be written.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut without_hidden(&Cli::command()), "whatif", &mut script);
    let mut out = std::io::stdout().lock();
    if out.write_all(&script).and_then(|()| out.flush()).is_err() {
        lost_output();
    }
    Ok(ExitCode::SUCCESS)
}

/// The generators offer hidden commands as well.
fn without_hidden(whole: &Command) -> Command {
    let visible = whole.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("whatif")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(whole.get_arguments())
        .subcommands(visible)
}
