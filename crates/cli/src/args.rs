//! The command line as a whole; each command's own arguments stand in its file.

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Parser, Subcommand};

use crate::commands::{completions, cp, doctor, exec, gc, kill, logs, ls, new, ps, rm, run, shell, show, start, stop};

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
    Ls(ls::Args),
    Show(show::Args),
    Ps(ps::Args),
    Logs(logs::Args),
    Kill(kill::Args),
    Stop(stop::Args),
    Start(start::Args),
    Rm(rm::Args),
    Cp(cp::Args),
    Gc(gc::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    /// Work that keeps later commands fast; started by other commands in the background
    #[command(hide = true)]
    Tidy,
}
