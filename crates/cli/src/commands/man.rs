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
    /// The directory, made if it does not exist, for example ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn execute(args: &Args, output: &Output) -> Outcome {
    // Without it, there would be a page for the help of each page.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let written = std::fs::create_dir_all(&args.directory).and_then(|()| clap_mangen::generate_to(command, &args.directory));
    written.map_err(|e| {
        let directory = args.directory.display();
        Failure::usage(
            "no_such_path",
            format!("failed to write the manual pages to {directory}: {e}"),
            "name a directory that you can write to",
        )
    })?;
    output.line(format!("manual pages written to {0}; to read one: man {0}/whatif-run.1", args.directory.display()));
    Ok(ExitCode::SUCCESS)
}
