//! The command line as a whole; each command's own arguments stand in its file.

use std::ffi::OsString;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, Parser, Subcommand};

use crate::commands::{
    apply, completions, cp, diff, doctor, du, exec, export, fork, gc, history, import, kill, logs, ls, net, new, pool, port, ps,
    race, rebase, reject, review, rm, rollback, run, shell, show, snapshot, snapshots, squash, start, stats, status, stop,
    template, undo,
};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// What if I ran this? Find out in an instant copy of the real environment.
#[derive(Debug, Parser)]
#[command(name = "whatif", version, styles = STYLES, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Examples:\n  whatif run -- make install        try something; reality stays as it is\n  whatif exec -- cat /etc/hosts     look around in the latest sandbox of this project\n  whatif rm swift-otter             throw a sandbox away"
)]
pub struct Cli {
    /// Print one JSON document on standard output, and errors as JSON on standard error
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(run::Args),
    New(new::Args),
    Exec(exec::Args),
    Shell(shell::Args),
    Diff(diff::Args),
    Review(review::Args),
    Apply(apply::Args),
    Undo(undo::Args),
    History(history::Args),
    Status(status::Args),
    Snapshot(snapshot::Args),
    Snapshots(snapshots::Args),
    Rollback(rollback::Args),
    Fork(fork::Args),
    Squash(squash::Args),
    Template(template::Args),
    Pool(pool::Args),
    Export(export::Args),
    Import(import::Args),
    Race(Box<race::Args>),
    Rebase(rebase::Args),
    Reject(reject::Args),
    Ls(ls::Args),
    Show(show::Args),
    Ps(ps::Args),
    Logs(logs::Args),
    Kill(kill::Args),
    Net(net::Args),
    Port(port::Args),
    Stop(stop::Args),
    Start(start::Args),
    Stats(stats::Args),
    Rm(rm::Args),
    Cp(cp::Args),
    Du(du::Args),
    Gc(gc::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    /// Wait until a sandbox wants the network; started by other commands in the background
    #[command(hide = true)]
    Attend {
        sandbox: String,
    },
    /// Work that keeps later commands fast; started by other commands in the background
    #[command(hide = true)]
    Tidy {
        /// Merge the layers of this sandbox
        #[arg(long)]
        squash: Option<String>,
        /// Delete layers that nothing needs
        #[arg(long)]
        layers: bool,
        /// Fill up the pool of this project
        #[arg(long)]
        pool: bool,
    },
}

/// Parses our own command line.
///
/// Describing all commands to the parser takes longer than everything else `exec` does on this side, so the commands that
/// are run thousands of times are parsed by themselves first. Whatever that does not accept (mistakes, `--help`) goes the
/// full way, which also words the message.
#[must_use]
pub fn parse() -> Cli {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let quick = match arguments.get(1).and_then(|a| a.to_str()) {
        Some("run") => only(&arguments, Command::Run),
        Some("exec") => only(&arguments, Command::Exec),
        Some("snapshot") => only(&arguments, Command::Snapshot),
        Some("rollback") => only(&arguments, Command::Rollback),
        Some("fork") => only(&arguments, Command::Fork),
        _ => None,
    };
    quick.unwrap_or_else(|| Cli::try_parse_from(&arguments).unwrap_or_else(|error| refuse(&error, &arguments)))
}

fn only<A: Args>(arguments: &[OsString], command: impl FnOnce(A) -> Command) -> Option<Cli> {
    let parsed = Only::<A>::try_parse_from(arguments.iter().skip(1)).ok()?;
    Some(Cli { json: parsed.json, command: command(parsed.args) })
}

/// Help and versions go to people; a mistake in JSON mode is a JSON document like every other failure.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> ! {
    let json = arguments.iter().take_while(|a| *a != "--").any(|a| a == "--json");
    if json && error.use_stderr() {
        let message = error.to_string();
        let first_line = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
        crate::output::usage_error(first_line);
        std::process::exit(2)
    }
    error.exit()
}

/// One command without the others.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true, disable_version_flag = true, disable_help_subcommand = true)]
struct Only<A: Args> {
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    args: A,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
