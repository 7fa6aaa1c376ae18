//! `whatif man`.

use std::path::PathBuf;

use clap::CommandFactory;

use super::Outcome;
use crate::args::Cli;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// An existing directory, for example ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn execute(args: &Args, output: &Output) -> Outcome {
    // Without it, there would be a page for the help of each page.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    clap_mangen::generate_to(command, &args.directory).map_err(|e| {
        let directory = args.directory.display();
        Failure::usage(
            "no_such_path",
            format!("failed to write the manual pages to {directory}: {e}"),
            "name a directory that exists and that you can write to",
        )
    })?;
    output.line(format!("manual pages written to {0}; to read one: man {0}/whatif-run.1", args.directory.display()));
    Ok(ExitCode::SUCCESS)
}
