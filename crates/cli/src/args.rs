//! The command line as a whole; each command's own arguments stand in its file.

mod command_words;
mod program;

use std::ffi::OsString;
use std::io::Write;

pub use self::program::is_program;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::commands::{
    apply, attach, audit, completions, cp, diff, doctor, du, events, exec, export, fork, gc, history, import, kill, logs, ls, man,
    net, new, pool, port, ps, race, rebase, reject, review, rm, rollback, run, serve, shell, show, snapshot, snapshots, squash,
    start, stats, status, stop, template, undo,
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
    after_help = "Examples:\n  whatif run make install           try something; reality stays as it is\n  whatif exec -- cat /etc/hosts     look around in the latest sandbox of this project\n  whatif rm swift-otter             remove a sandbox\n\n'whatif PROGRAM …' is short for 'whatif run PROGRAM …' if PROGRAM is not one of the commands above.\nTo run a program with the same name as a command: whatif run rm -r build"
)]
pub struct Cli {
    /// Print one JSON document on standard output, and errors as JSON on standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// The program that was named in the place of a command.
    #[arg(skip)]
    pub program: Option<String>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
// Each is described to the parser only once it is the one.
#[command(defer = true)]
pub enum Command {
    /// Run a command in a new sandbox
    ///
    /// Keeps the sandbox if the command changed something that matters or left a process running, and removes it otherwise.
    Run(run::Args),
    /// Create a sandbox and leave it running
    New(new::Args),
    /// Run a command in a sandbox
    ///
    /// The first word after the options names the sandbox. Without a name, write '--' first: the latest sandbox of this project is used.
    Exec(exec::Args),
    /// Open a shell in a sandbox
    ///
    /// The first word after the options names the sandbox. Without a name, write '--' first: the latest sandbox of this project is used.
    Shell(shell::Args),
    /// Show what a sandbox changed
    ///
    /// Lists first what needs attention: files that tools on the host execute, new setuid files, links that lead out of the project.
    /// Ignored files, such as build output, are counted but not listed.
    Diff(diff::Args),
    /// Accept or reject changes, file by file and hunk by hunk
    ///
    /// Decisions are saved at once, and the next `whatif apply` follows them. A decision expires when the change that it is about
    /// is no longer the same. With --json, prints the decisions made so far.
    Review(review::Args),
    /// Apply a sandbox's changes to reality
    ///
    /// Applies the project's own changes. Ignored files, changes outside the project, and files that tools on the host would
    /// execute are left out and listed with the option that includes them. If reality changed meanwhile, text files are merged; if
    /// both sides changed the same lines, nothing is written. An apply happens completely or not at all. `whatif undo` reverses it.
    Apply(apply::Args),
    /// Reverse an apply
    ///
    /// Restores exactly what was there before. If any of these files changed since, nothing is written. An undo is itself in the
    /// history and can be undone.
    Undo(undo::Args),
    /// List applies, newest first
    History(history::Args),
    /// Show what happened to sandboxes, oldest first
    ///
    /// Includes what other terminals and the daemon did. The latest 50,000 events are kept.
    Events(events::Args),
    /// Show who applied, undid, reviewed, rejected and removed what
    ///
    /// Each entry contains the hash of the one before it, so that 'whatif audit --verify' finds entries that were changed.
    Audit(audit::Args),
    /// Show what changed in reality since a sandbox was created
    Status(status::Args),
    /// Save the sandbox's current state under a name
    ///
    /// Return to it with `whatif rollback`, or start other sandboxes from it with `whatif fork`. Takes milliseconds, whatever the
    /// size. Processes and files in /tmp are not saved.
    Snapshot(snapshot::Args),
    /// List the snapshots of a sandbox as a tree
    Snapshots(snapshots::Args),
    /// Return a sandbox to one of its snapshots
    ///
    /// Ends everything that runs in the sandbox. The state before is saved as a snapshot too, so that you can go back to it.
    Rollback(rollback::Args),
    /// Create sandboxes from the state of another one, or from a snapshot
    ///
    /// They share all files until they change them, and start when they are first used.
    Fork(fork::Args),
    /// Merge the layers of a sandbox into one
    ///
    /// Its files stay as they are, except for their link counts. Snapshots keep their own layers. `whatif` does this by itself in
    /// the background when there are many layers.
    Squash(squash::Args),
    /// Manage templates: starting points with dependencies installed and caches warm
    Template(template::Args),
    /// Manage the pool of sandboxes that are kept ready
    ///
    /// With 'size = 3' under '[pool]' in the configuration, three sandboxes are kept ready for each project that you use. They are
    /// created in the background.
    Pool(pool::Args),
    /// Write a sandbox, snapshot or template to a file, for another machine
    ///
    /// The file contains every change, and the earlier content of changed text files. `whatif import` turns it into a sandbox again,
    /// on a machine that has the same project at the same path.
    Export(export::Args),
    /// Create a sandbox or template from an archive
    ///
    /// Verifies the whole archive before it uses any part. As always, only `whatif apply` brings the changes to reality.
    Import(import::Args),
    /// Try several solutions in parallel and keep the best
    ///
    /// Each attempt runs in its own sandbox; all start from the same state. Each is then judged by the same checks, in a fork that
    /// is discarded. Reality stays unchanged until you apply one.
    Race(Box<race::Args>),
    /// Bring a sandbox up to date with reality
    ///
    /// If both changed a file, the sandbox gets both changes. If the changes conflict, the file gets both versions between conflict
    /// markers, as in git; resolve them with `whatif exec` or `whatif shell`.
    Rebase(rebase::Args),
    /// Mark a sandbox's changes as rejected
    ///
    /// Ends everything that runs in it. The sandbox is kept unless you pass --delete or set `reject = "delete"` under [policy].
    Reject(reject::Args),
    /// List sandboxes, newest first
    Ls(ls::Args),
    /// Show everything about a sandbox
    ///
    /// Without a name, shows the latest sandbox of this project.
    Show(show::Args),
    /// List the processes of a sandbox
    Ps(ps::Args),
    /// Print the output of a command started with 'exec -d'
    ///
    /// The latest 8 to 16 MiB are kept. Standard error says how much is missing.
    Logs(logs::Args),
    /// Attach to a command started with 'exec -d'
    ///
    /// Prints the output that is kept (the latest 8 to 16 MiB), then follows it, passes your input on, and ends with the command's
    /// exit code. Several clients can attach; the command waits for the slowest, so that none misses any output. Press Ctrl-] three
    /// times within a second, or end this program, to detach: the command goes on.
    Attach(attach::Args),
    /// Send a signal to a process of a sandbox
    Kill(kill::Args),
    /// Show which hosts a sandbox talked to, and change its rules
    ///
    /// Without a name, shows the latest sandbox of this project.
    Net(net::Args),
    /// Publish a port of a sandbox at 127.0.0.1, or list published ports
    Port(port::Args),
    /// End everything that runs in a sandbox, and keep its changes
    Stop(stop::Args),
    /// Start a stopped sandbox again, with its changes
    Start(start::Args),
    /// Show what running sandboxes use, and their limits
    Stats(stats::Args),
    /// Remove sandboxes with their changes and processes
    Rm(rm::Args),
    /// Copy files into or out of a sandbox
    ///
    /// Write a path in a sandbox as NAME:PATH. Directories are copied with everything in them, except links that lead out of them.
    Cp(cp::Args),
    /// Show how much disk space sandboxes take
    Du(du::Args),
    /// Remove what is no longer needed, and repair the records
    ///
    /// Removes sandboxes by the rules under [gc] in the configuration: by default approved and rejected ones, a week after their
    /// last use, and stopped ones without changes after two weeks. Running sandboxes and those with the label 'keep' always stay.
    /// Other commands apply the same rules in the background, at most once an hour.
    Gc(gc::Args),
    /// Test what sandboxes need, and print fixes for what is missing
    Doctor(doctor::Args),
    /// Serve the sandboxes of this user over HTTP, for programs on this machine
    ///
    /// Executes whatifd, a program of its own. Commands in sandboxes go on when it ends.
    Serve(serve::Args),
    /// Print a completion script for a shell
    ///
    /// For bash: whatif completions bash > ~/.local/share/bash-completion/completions/whatif
    Completions(completions::Args),
    /// Write the manual pages to a directory
    ///
    /// For yourself: whatif man ~/.local/share/man/man1
    Man(man::Args),
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
        /// Remove what the rules do not keep
        #[arg(long)]
        collect: bool,
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
    let program = program::named(&arguments);
    let arguments = command_words::marked(arguments, program.as_ref());
    let program = program.map(|program| program.to_string_lossy().into_owned());
    Cli { program, ..parsed(&arguments) }
}

fn parsed(arguments: &[OsString]) -> Cli {
    let quick = match arguments.get(1).and_then(|a| a.to_str()) {
        Some("run") => only(arguments, Command::Run),
        Some("exec") => only(arguments, Command::Exec),
        Some("snapshot") => only(arguments, Command::Snapshot),
        Some("rollback") => only(arguments, Command::Rollback),
        Some("fork") => only(arguments, Command::Fork),
        _ => None,
    };
    quick.unwrap_or_else(|| Cli::try_parse_from(arguments).unwrap_or_else(|error| refuse(error, arguments)))
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
    Some(Cli { json: false, program: None, command })
}

fn only<A: Args>(arguments: &[OsString], command: impl FnOnce(A) -> Command) -> Option<Cli> {
    let parsed = Only::<A>::try_parse_from(arguments.iter().skip(1)).ok()?;
    Some(Cli { json: parsed.json, program: None, command: command(parsed.args) })
}

/// Help and versions go to people; a mistake in JSON mode is a JSON document like every other failure.
fn refuse(mut error: clap::Error, arguments: &[OsString]) -> ! {
    let json = arguments.iter().take_while(|a| *a != "--").any(|a| a == "--json");
    let tips: Vec<_> = tips(&error, arguments).into_iter().map(Into::into).collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    if json && error.use_stderr() {
        let message = error.to_string();
        // Usage and advice follow after an empty line.
        let lines = message.lines().map(str::trim).take_while(|line| !line.is_empty());
        crate::output::usage_error(
            code(error.kind()),
            lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: "),
            hints(&error),
        );
        std::process::exit(2)
    }
    if error.print().and_then(|()| std::io::stdout().flush()).is_err() && !error.use_stderr() {
        crate::output::lost_help();
        std::process::exit(crate::exit::FAILED.into())
    }
    std::process::exit(error.exit_code())
}

/// The tips that a person reads below the message.
fn hints(error: &clap::Error) -> Vec<String> {
    let suggested = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let similar = suggested.into_iter().flat_map(|kind| match error.get(kind) {
        Some(ContextValue::String(word)) => vec![word.clone()],
        Some(ContextValue::Strings(words)) => words.clone(),
        _ => Vec::new(),
    });
    let mut hints: Vec<String> = similar.map(|word| format!("similar: '{word}'")).collect();
    if let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested) {
        hints.extend(tips.iter().map(ToString::to_string));
    }
    hints
}

/// Why a command line was refused, for programs.
fn code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidSubcommand => "unknown_command",
        ErrorKind::UnknownArgument => "unknown_option",
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "missing_argument"
        }
        ErrorKind::ArgumentConflict => "conflicting_options",
        ErrorKind::InvalidValue
        | ErrorKind::ValueValidation
        | ErrorKind::NoEquals
        | ErrorKind::TooManyValues
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues => "invalid_value",
        _ => "invalid_command_line",
    }
}

/// What was most likely meant by a command line that makes no sense.
fn tips(error: &clap::Error, arguments: &[OsString]) -> Vec<String> {
    let words: Vec<&str> = arguments.iter().map_while(|word| word.to_str()).take_while(|word| *word != "--").collect();
    let mut root = Cli::command();
    root.build();
    let command = words.iter().skip(1).try_fold(&root, |command, word| command.find_subcommand(word).ok_or(command));
    let (Ok(command) | Err(command)) = command;
    let mut tips = Vec::new();
    let refused = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(refused)) if error.kind() == ErrorKind::UnknownArgument => Some(refused.as_str()),
        _ => None,
    };
    if let Some(joined) = refused.filter(|refused| refused.starts_with('-')).and_then(|r| joined_value(r, &words, command)) {
        return vec![format!("a value that begins with '-' is joined to its option: '{}'", printable(&joined))];
    }
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && command_words::verb(arguments).is_some_and(|verb| arguments[verb] == word.as_str())
    {
        if error.get(ContextKind::SuggestedSubcommand).is_none() {
            tips.extend(jumbled(word, &root).map(|meant| format!("a similar subcommand exists: '{meant}'")));
        }
        tips.push(format!("no program '{}' was found either; to run one: whatif PROGRAM …", printable(word)));
    }
    if matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument)
        && let Some(lone) = command_words::only_a_name(arguments)
    {
        let rest: Vec<_> = lone.iter().map(|word| printable(&word.to_string_lossy())).collect();
        tips.push(format!("the first word names the sandbox; without one: whatif exec -- {}", rest.join(" ")));
    }
    if refused.is_some()
        && let Some(same) = program::named_like_a_command(arguments)
    {
        tips.push(format!("to run the program '{0}' in a sandbox: whatif run {0} …", printable(&same.to_string_lossy())));
    }
    tips
}

/// A command with the same letters in another order, which the parser does not take for similar if it is short.
fn jumbled<'a>(word: &str, root: &'a clap::Command) -> Option<&'a str> {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let commands = root.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    commands.into_iter().find(|name| sorted(name) == sorted(word))
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
        tips(&Cli::try_parse_from(&words).expect_err("it is refused"), &words).into_iter().next()
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
    fn exec_without_a_command_says_how_to_name_none() {
        for words in [&["whatif", "exec", "ls"][..], &["whatif", "exec", "--json", "-i", "ls"]] {
            let tip = "the first word names the sandbox; without one: whatif exec -- ls";
            assert_eq!(tip_for(words).as_deref(), Some(tip), "{words:?}");
        }
        let tip = "the first word names the sandbox; without one: whatif exec -- ls -z";
        assert_eq!(tip_for(&["whatif", "exec", "ls", "-z"]).as_deref(), Some(tip));
        assert_eq!(tip_for(&["whatif", "exec", "--unknown", "--", "ls"]), None);
    }

    #[test]
    fn what_is_neither_a_command_nor_a_program_is_told_so() {
        let tips_for = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            tips(&Cli::try_parse_from(&words).expect_err("it is refused"), &words)
        };
        let tip = "no program 'nosuchprog' was found either; to run one: whatif PROGRAM …";
        assert_eq!(tips_for(&["whatif", "nosuchprog", "-x"]), [tip]);
        assert_eq!(tips_for(&["whatif", "rnu"])[0], "a similar subcommand exists: 'run'");
        assert_eq!(tips_for(&["whatif", "template", "nosuchprog"]), [""; 0]);
    }

    #[test]
    fn a_program_named_like_a_command_is_run_by_run() {
        let tip = "to run the program 'rm' in a sandbox: whatif run rm …";
        assert_eq!(tip_for(&["whatif", "rm", "-rf", "build"]).as_deref(), Some(tip));
        assert_eq!(tip_for(&["whatif", "reject", "-rf", "build"]), None, "there is no such program");
        assert_eq!(tip_for(&["whatif", "apply", "--dry-run", "h", "h", "h2"]), None);
    }
}
