//! `whatif exec`.

use crate::exit::ExitCode;
use std::ffi::OsString;
use std::iter::once;
use std::path::PathBuf;

use serde_json::json;
use whatif_engine::ground::{GroundError, limits};
use whatif_engine::{CommandSpec, Detached, Engine, EngineError, Kept, Stdio};
use whatif_types::{Limits, Span};

use super::{Outcome, meant_and_told, variable};
use crate::args;
use crate::failure::Failure;
use crate::foreground::{self, Capture, Streams, Wanted};
use crate::output::{Output, Style};
use crate::{ending, summary, unreached};

#[derive(Debug, Default, clap::Args)]
#[command(
    override_usage = "whatif exec [OPTIONS] NAME [--] COMMAND [ARGUMENT]...\n       whatif exec [OPTIONS] -- COMMAND [ARGUMENT]..."
)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// Pass standard input to the command (the default for pipes and files, unless -t is given); with -d, 'whatif attach' can write
    /// to it
    #[arg(long, short)]
    interactive: bool,
    /// Give the command a terminal (the default if standard input and output are terminals, unless -d is given)
    #[arg(long, short)]
    tty: bool,
    /// Run the command in the background; see its output with 'whatif logs', return to it with 'whatif attach'
    #[arg(long, short)]
    detach: bool,
    /// Set a variable (NAME=VALUE), or pass one that looks like a secret (NAME)
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable::parse)]
    pub(super) env: Vec<String>,
    /// Start in this directory; by default the current one if it is in the project, otherwise the one where the sandbox was created
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,
    /// End the command after this time (30s, 5m, 2h), with exit code 124
    #[arg(long, value_name = "TIME")]
    pub(super) timeout: Option<Span>,
    /// Take a snapshot first
    #[arg(long)]
    auto_snapshot: bool,
    /// Afterwards, say how the command ended and what the sandbox changed.
    #[arg(skip)]
    pub(super) reports: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// What is meant where no option is given.
    pub fn plain(name: Option<String>, command: Vec<OsString>) -> Self {
        Self { name, command, ..Self::default() }
    }

    /// `whatif run --in NAME` is this, with standard input and a report.
    pub fn for_run_in(name: String, command: Vec<OsString>) -> Self {
        Self { interactive: true, reports: true, ..Self::plain(Some(name), command) }
    }

    /// `whatif shell` is this, with a terminal if there is one.
    pub fn for_shell(name: Option<String>, command: Vec<OsString>, env: Vec<String>) -> Self {
        Self { interactive: true, tty: foreground::is_interactive(), env, ..Self::plain(name, command) }
    }
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    limits::check(&Limits { timeout: args.timeout, ..Limits::none() })?;
    let mut spec = CommandSpec {
        arguments: args.command,
        env: args.env,
        cwd: args.cwd,
        stdio: [Stdio::Null; 3],
        terminal: None,
        timeout: args.timeout.map(Span::duration),
        called: None,
    };
    let entered = engine.lifecycle.enter_for(&meant_and_told(engine, args.name.as_deref(), output)?, &spec);
    let mut entered = entered.map_err(|error| hinted(error, args.name.as_deref(), &spec.arguments))?;
    let mut snapshot = None;
    if args.auto_snapshot || entered.sandbox.details.auto_snapshot {
        (entered, snapshot) = super::snapshot::before_command(engine, entered, output)?;
    }
    if args.detach {
        if args.interactive {
            spec.stdio[0] = Stdio::Kept;
        }
        spec.terminal = args.tty.then(foreground::size);
        let Detached { sandbox, pid, id } = engine.lifecycle.exec_detached(entered, &spec, Kept::Together)?;
        output.document(&json!({ "sandbox": sandbox.name, "pid": pid, "id": id, "snapshot": snapshot }));
        output.line(format!(
            "started as process {pid} in {}; its output: whatif logs {} {pid}; to return to it: whatif attach {} {id}",
            output.paint(Style::Bold, &sandbox.name),
            sandbox.name,
            sandbox.name
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let terminal = !output.json && (args.tty || foreground::is_interactive());
    let stdin = args.interactive || (!args.tty && foreground::has_piped_input());
    let mut streams = Streams::prepare(Wanted { stdin, capture: output.json, terminal }).map_err(no_streams)?;
    spec.stdio = foreground::passed(&streams).0;
    spec.terminal = terminal.then(foreground::size);
    let mut running = engine.lifecycle.exec(entered, &spec, &foreground::passed(&streams).1)?;
    streams.handed_over();
    let captured = streams.captured.clone();
    let mark = engine.network.network_mark(&running.sandbox);
    let exited = foreground::attend(&mut running, streams, engine, output)?;
    let network = engine.network.troubles_since(&running.sandbox, mark);
    if output.json {
        let mut document = ending::document(&exited);
        document["sandbox"] = json!(running.sandbox.name);
        document["snapshot"] = json!(snapshot);
        document["stdout"] = json!(captured.as_ref().map(Capture::stdout));
        document["stderr"] = json!(captured.as_ref().map(Capture::stderr));
        document["truncated"] = json!(captured.as_ref().is_some_and(Capture::is_truncated));
        document["denied"] = json!(network.denied);
        output.document(&document);
    } else if ending::was_limited(&exited) {
        for line in ending::lines(&exited, &running.sandbox.details.limits, args.timeout) {
            output.note(format!("{} {line}", output.paint_note(Style::Dim, "whatif:")));
        }
        ending::tell_remedy(&exited, output);
    }
    if let Some(ended) = exited.signal.and_then(|_| engine.ground.end_by_another_command(&running.sandbox)).filter(|_| !output.json)
    {
        // The prompt of a shell may be what stands on the line.
        let line_end = if terminal { "\n" } else { "" };
        output.note(format!("{line_end}{}", output.rendered(&ended, None)));
    }
    unreached::tell(&network, &running.sandbox, true, output);
    engine.lifecycle.settle_command(&running.sandbox, &exited)?;
    if args.reports && !output.json {
        if exited.code != 0 && exited.signal.is_none() && !ending::was_limited(&exited) {
            let tag = output.paint_note(Style::Dim, "whatif:");
            output.note(format!("{tag} the command failed with exit code {}", exited.code));
        }
        if let Ok(summary) = engine.ground.summarize(&running.sandbox) {
            summary::tell(engine, &running.sandbox, &summary, output);
        }
    }
    Ok(super::run::exit_code(&exited))
}

/// Of `exec make test`, the first word names the sandbox, which may not have been meant.
fn hinted(error: EngineError, name: Option<&str>, arguments: &[OsString]) -> Failure {
    let program = name.filter(|_| matches!(error, EngineError::Ground(GroundError::NoSuchSandbox { .. })));
    let Some(program) = program.filter(|name| args::is_program(name.as_ref())) else { return error.into() };
    let words = once(program.into()).chain(arguments.iter().map(|word| word.to_string_lossy()));
    let words: Vec<_> = words.collect();
    Failure::Hinted(error, format!("the first word names the sandbox; without one: whatif exec -- {}", words.join(" ")).into())
}

pub fn no_streams(errno: rustix::io::Errno) -> EngineError {
    EngineError::io("use", "the standard streams", errno.into())
}
