//! The command line as a whole; each command's own arguments stand in its file.

use std::ffi::OsString;
use std::io::Write;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::commands::{
    apply, attach, completions, cp, diff, doctor, du, exec, export, fork, gc, history, import, kill, logs, ls, net, new, pool,
    port, ps, race, rebase, reject, review, rm, rollback, run, shell, show, snapshot, snapshots, squash, start, stats, status,
    stop, template, undo,
};
use crate::output::printable;

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
// Each is described to the parser only once it is the one.
#[command(defer = true)]
pub enum Command {
    /// Run a command in a fresh copy of reality
    ///
    /// The sandbox is kept when the command changed something that matters or left a process running, and removed when not.
    Run(run::Args),
    /// Make a sandbox and leave it running
    New(new::Args),
    /// Run a command in a sandbox
    ///
    /// Without a name: in the latest sandbox of this project.
    Exec(exec::Args),
    /// Open a shell in a sandbox
    ///
    /// Without a name: in the latest sandbox of this project.
    Shell(shell::Args),
    /// Show what a sandbox changed
    ///
    /// Lists what must not be overlooked first: files that tools on the host execute, new setuid files, links that leave the
    /// project. Build output that the project ignores is counted, not listed.
    Diff(diff::Args),
    /// Look through what a sandbox changed and decide, file by file and hunk by hunk
    ///
    /// Decisions are stored as they are made and used by the next `whatif apply`. A decision lapses when what it was about
    /// changes. With --json, prints the decisions made so far instead.
    Review(review::Args),
    /// Make changes of a sandbox real
    ///
    /// Takes the project's own changes. Build output, changes outside the project, and what tools on the host would execute are
    /// left out and listed, with the option that takes them. Where reality moved meanwhile, text is merged; where both changed the
    /// same lines, nothing at all is written. All of it happens or none of it, and `whatif undo` takes it back.
    Apply(apply::Args),
    /// Take an apply back
    ///
    /// Restores exactly what was there. If any of it changed since, nothing is written. An undo is an apply of its own: it is in
    /// the history, and can be undone.
    Undo(undo::Args),
    /// List what was applied, newest first
    History(history::Args),
    /// Tell how far reality has moved since a sandbox was made
    Status(status::Args),
    /// Give what a sandbox is now a name, to return to it or to start others from it
    ///
    /// Takes the same short time however much the sandbox has changed. What is in memory only (processes, /tmp) is not part of it.
    Snapshot(snapshot::Args),
    /// List the snapshots of a sandbox, as the tree they make
    Snapshots(snapshots::Args),
    /// Return a sandbox to one of its snapshots
    ///
    /// Everything that runs in it is ended. What it was before is kept as a snapshot of its own, so this can be undone.
    Rollback(rollback::Args),
    /// Start new sandboxes from where another one is, or was
    ///
    /// They share everything until they change it, and start when they are first used.
    Fork(fork::Args),
    /// Merge the layers of a sandbox into one; its files stay as they are, but for their link counts
    ///
    /// Done by itself in the background when there are many. Snapshots keep their own layers.
    Squash(squash::Args),
    /// Prepared starts for new sandboxes: dependencies installed, caches warm
    Template(template::Args),
    /// Sandboxes kept ready, so that making one is claiming one
    ///
    /// With 'size = 3' under '[pool]' in the configuration, each project that sandboxes are made in keeps three ready. They are
    /// filled up in the background.
    Pool(pool::Args),
    /// Write a sandbox, a snapshot or a template into one file, for another machine
    ///
    /// The file holds everything that was changed, and what the changed text files were before. 'whatif import' makes it a sandbox
    /// again where the same project lies at the same place.
    Export(export::Args),
    /// Make a sandbox or a template of an archive
    ///
    /// Nothing of it is used before all of it was verified. What it changes goes to reality only by 'whatif apply', as always.
    Import(import::Args),
    /// Try several ways at once, and keep the best
    ///
    /// Each attempt runs in its own sandbox, and all begin with the same. Then each is judged by the same checks, in a fork that
    /// is thrown away. Nothing is real until it is applied.
    Race(Box<race::Args>),
    /// Move a sandbox onto reality as it is now
    ///
    /// Where both changed a file, the sandbox gets both changes. Where they collide, it gets both versions between markers, as git
    /// writes them; settle that with `whatif exec` or `whatif shell`.
    Rebase(rebase::Args),
    /// Say that nobody wants the changes of a sandbox
    ///
    /// Ends what runs in it. By default it is kept for another look; `[policy] reject = "delete"` or --delete removes it.
    Reject(reject::Args),
    /// List the sandboxes, newest first
    Ls(ls::Args),
    /// Show everything about a sandbox
    ///
    /// Without a name: about the latest sandbox of this project.
    Show(show::Args),
    /// List the processes of a sandbox
    Ps(ps::Args),
    /// Print the output of a command started with 'exec -d'
    ///
    /// The latest 8 to 16 MiB are kept. What is missing is counted on standard error.
    Logs(logs::Args),
    /// Return to a command started with 'exec -d': its output, its input, its end
    ///
    /// Shows what is kept of its output (the latest 8 to 16 MiB), then what comes, and ends with the command's exit code. Several
    /// can be attached; a command waits for the slowest of them, so none misses anything. Ctrl-] three times within a second
    /// leaves it running, and so does ending this program.
    Attach(attach::Args),
    /// Send a signal to a process of a sandbox
    Kill(kill::Args),
    /// Show whom a sandbox talked to, and change whom it may talk to
    ///
    /// Without a name: the latest sandbox of this project.
    Net(net::Args),
    /// Make a port inside reachable at this machine's loopback, or list those that are
    Port(port::Args),
    /// End everything that runs in a sandbox; its changes stay
    Stop(stop::Args),
    /// Start a stopped sandbox again, with the changes it had
    Start(start::Args),
    /// Show what running sandboxes use, beside what they may use
    Stats(stats::Args),
    /// Throw sandboxes away, with their changes and everything that runs in them
    Rm(rm::Args),
    /// Copy files into a sandbox or out of it
    ///
    /// Paths in a sandbox are written NAME:PATH. Directories are copied whole; links are not carried across.
    Cp(cp::Args),
    /// Show what takes how much room on the disk
    Du(du::Args),
    /// Reconcile the records with what is really there, and remove what nothing needs
    ///
    /// Sandboxes go by the rules of the configuration, [gc]: by default those that are approved or rejected, a week after their last
    /// use. Those that run and those with the label 'keep' stay in any case.
    Gc(gc::Args),
    /// Test everything a sandbox needs, and say how to fix what is missing
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    ///
    /// For bash: whatif completions bash > ~/.local/share/bash-completion/completions/whatif
    Completions(completions::Args),
    /// Wait until a sandbox wants the network; started by other commands in the background
    #[command(hide = true)]
    Attend { sandbox: String },
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
/// Even the names of all commands take the parser a twentieth of what `exec` takes, so the commands that are run thousands of
/// times are parsed by themselves first. Whatever that does not accept (mistakes, `--help`) goes the full way, which also words
/// the message.
#[must_use]
pub fn parse() -> Cli {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(plain) = plain(&arguments) {
        return plain;
    }
    let quick = match arguments.get(1).and_then(|a| a.to_str()) {
        Some("run") => only(&arguments, Command::Run),
        Some("exec") => only(&arguments, Command::Exec),
        Some("snapshot") => only(&arguments, Command::Snapshot),
        Some("rollback") => only(&arguments, Command::Rollback),
        Some("fork") => only(&arguments, Command::Fork),
        _ => None,
    };
    quick.unwrap_or_else(|| Cli::try_parse_from(&arguments).unwrap_or_else(|error| refuse(error, &arguments)))
}

/// `run -- COMMAND` and `exec [NAME] -- COMMAND` need no parser: it would take a tenth of all that they take.
fn plain(arguments: &[OsString]) -> Option<Cli> {
    let end = arguments.iter().take(4).position(|word| word == "--")?;
    let (before, command) = (&arguments[1..end], arguments[end + 1..].to_vec());
    let words = before.iter().map(|word| word.to_str()).collect::<Option<Vec<&str>>>()?;
    let command = match words.as_slice() {
        _ if command.is_empty() => return None,
        ["run"] => Command::Run(run::Args::plain(command)),
        ["exec"] => Command::Exec(exec::Args::plain(None, command)),
        ["exec", name] if !name.starts_with('-') => Command::Exec(exec::Args::plain(Some((*name).to_owned()), command)),
        _ => return None,
    };
    Some(Cli { json: false, command })
}

fn only<A: Args>(arguments: &[OsString], command: impl FnOnce(A) -> Command) -> Option<Cli> {
    let parsed = Only::<A>::try_parse_from(arguments.iter().skip(1)).ok()?;
    Some(Cli { json: parsed.json, command: command(parsed.args) })
}

/// Help and versions go to people; a mistake in JSON mode is a JSON document like every other failure.
fn refuse(mut error: clap::Error, arguments: &[OsString]) -> ! {
    let json = arguments.iter().take_while(|a| *a != "--").any(|a| a == "--json");
    if let Some(tip) = tip(&error, arguments) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    if json && error.use_stderr() {
        let message = error.to_string();
        // Usage and advice follow after an empty line.
        let lines = message.lines().map(str::trim).take_while(|line| !line.is_empty());
        crate::output::usage_error(lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: "));
        std::process::exit(2)
    }
    if error.print().and_then(|()| std::io::stdout().flush()).is_err() && !error.use_stderr() {
        crate::output::lost_help();
        std::process::exit(crate::exit::FAILED.into())
    }
    std::process::exit(error.exit_code())
}

/// What was most likely meant by a word that has no place where it stands.
fn tip(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let refused = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(refused) if error.kind() == ErrorKind::UnknownArgument => refused,
        _ => return None,
    };
    let words: Vec<&str> = arguments.iter().map_while(|word| word.to_str()).take_while(|word| *word != "--").collect();
    let has_end = words.len() < arguments.len();
    let mut root = Cli::command();
    root.build();
    let command = words.iter().skip(1).try_fold(&root, |command, word| command.find_subcommand(word).ok_or(command));
    let (Ok(command) | Err(command)) = command;
    if refused.starts_with('-') {
        let joined = joined_value(refused, &words, command)?;
        return Some(format!("a value that begins with '-' is joined to its option: '{}'", printable(&joined)));
    }
    let runs_a_command = command.get_positionals().any(clap::Arg::is_last_set);
    (runs_a_command && !has_end).then(|| format!("put '--' before the command: '-- {}'", printable(refused)))
}

/// Where a value was taken for an option: `--files -dash`.
fn joined_value(refused: &str, words: &[&str], command: &clap::Command) -> Option<String> {
    let takes_a_value = |long: &str| command.get_arguments().any(|a| a.get_long() == Some(long) && a.get_action().takes_values());
    let is_meant = |(option, value): &(&&str, &&str)| {
        let is_option = option.strip_prefix("--").is_some_and(takes_a_value);
        is_option && !value.starts_with("--") && value.starts_with(refused)
    };
    words.iter().zip(words.iter().skip(1)).find(is_meant).map(|(option, value)| format!("{option}={value}"))
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
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_read_without_the_parser_is_read_alike() {
        let mut plainly = 0;
        for line in [
            "whatif run -- make -j 2 -- x",
            "whatif exec -- ls",
            "whatif exec s -- ls -- -l --json",
            "whatif exec run -- ls",
            "whatif run --",
            "whatif exec s --",
            "whatif run s -- ls",
            "whatif exec a b -- ls",
            "whatif exec --json -- ls",
            "whatif --json run -- ls",
            "whatif exec -i -- ls",
            "whatif new -- ls",
            "whatif -- run ls",
            "whatif run",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let Some(read) = plain(&words) else { continue };
            plainly += 1;
            let parsed = Cli::try_parse_from(&words).expect("it is sound");
            assert_eq!(format!("{read:?}"), format!("{parsed:?}"), "{line}");
        }
        assert_eq!(plainly, 4);
        let empty = [OsString::from("whatif"), "exec".into(), "".into(), "--".into(), "ls".into()];
        assert_eq!(plain(&empty).is_some(), Cli::try_parse_from(&empty).is_ok());
    }

    fn tip_for(words: &[&str]) -> Option<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        tip(&Cli::try_parse_from(&words).expect_err("it is refused"), &words)
    }

    #[test]
    fn a_value_that_looks_like_an_option_is_to_be_joined_to_its_own() {
        let joined = |words: &[&str]| {
            let tip = tip_for(words)?;
            Some(tip.strip_prefix("a value that begins with '-' is joined to its option: ")?.to_owned())
        };
        assert_eq!(joined(&["whatif", "apply", "s", "--files", "-dash", "--yes"]).as_deref(), Some("'--files=-dash'"));
        assert_eq!(joined(&["whatif", "undo", "--skip", "-x"]).as_deref(), Some("'--skip=-x'"));
        assert_eq!(joined(&["whatif", "apply", "-x"]), None);
        assert_eq!(joined(&["whatif", "apply", "--unknown"]), None);
        assert_eq!(joined(&["whatif", "apply", "--dry-run", "-x"]), None, "that option takes none");
    }

    #[test]
    fn a_command_without_its_dashes_is_told_where_they_go() {
        for words in [&["whatif", "run", "--rm", "ls", "-l"][..], &["whatif", "run", "ls"]] {
            assert_eq!(tip_for(words).as_deref(), Some("put '--' before the command: '-- ls'"), "{words:?}");
        }
        assert_eq!(tip_for(&["whatif", "run", "ls -l"]).as_deref(), Some("put '--' before the command: '-- ls -l'"));
        assert_eq!(tip_for(&["whatif", "exec", "-it", "h", "bash"]).as_deref(), Some("put '--' before the command: '-- bash'"));
        assert_eq!(tip_for(&["whatif", "apply", "--dry-run", "h", "h", "h2"]), None, "it runs nothing");
    }
}
