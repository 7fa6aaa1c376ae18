//! `whatif exec`.

use crate::exit::ExitCode;
use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::json;
use whatif_engine::ground::limits;
use whatif_engine::{CommandSpec, Detached, Engine, EngineError, Stdio};
use whatif_types::{Limits, Span};

use super::{Outcome, meant};
use crate::foreground::{self, Capture, Streams, Wanted};
use crate::output::{Output, Style};
use crate::{ending, unreached};

#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// The sandbox: its name or the beginning of its id
    name: Option<String>,
    /// Give the command our standard input; with -d, one that 'whatif attach' can write to
    #[arg(long, short)]
    interactive: bool,
    /// Give the command a terminal of its own (without -d the default when we have one at both ends)
    #[arg(long, short)]
    tty: bool,
    /// Leave it running in the background; 'whatif logs' has its output, 'whatif attach' returns to it
    #[arg(long, short)]
    detach: bool,
    /// Carry a variable although it looks like a secret (NAME), or set one (NAME=VALUE)
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Directory to start in, instead of this one or, outside the project, the one that the sandbox was made in
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// End the command after this time (30s, 5m, 2h); the exit code is 124 then
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// Take a snapshot first, to be able to step back
    #[arg(long)]
    auto_snapshot: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// What is meant where no option is given.
    pub fn plain(name: Option<String>, command: Vec<OsString>) -> Self {
        Self { name, command, ..Self::default() }
    }

    /// `whatif run --in NAME` is this, with standard input.
    pub fn for_run_in(name: String, command: Vec<OsString>, timeout: Option<Span>, env: Vec<String>, cwd: Option<PathBuf>) -> Self {
        Self { interactive: true, env, cwd, timeout, ..Self::plain(Some(name), command) }
    }

    /// `whatif shell` is this, with a terminal if there is one.
    pub fn for_shell(name: Option<String>, command: Vec<OsString>, env: Vec<String>) -> Self {
        Self { interactive: true, tty: foreground::is_interactive(), env, ..Self::plain(name, command) }
    }
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    limits::check(&Limits { timeout: args.timeout, ..Limits::none() })?;
    let mut entered = engine.lifecycle.enter(&meant(engine, args.name.as_deref())?)?;
    let mut snapshot = None;
    if args.auto_snapshot || entered.sandbox.details.auto_snapshot {
        (entered, snapshot) = super::snapshot::before_command(engine, entered, output)?;
    }
    let mut spec = CommandSpec {
        arguments: args.command,
        env: args.env,
        cwd: args.cwd,
        stdio: [Stdio::Null; 3],
        terminal: None,
        timeout: args.timeout.map(Span::duration),
        called: None,
    };
    if args.detach {
        if args.interactive {
            spec.stdio[0] = Stdio::Kept;
        }
        spec.terminal = args.tty.then(foreground::size);
        let Detached { sandbox, pid, id } = engine.lifecycle.exec_detached(entered, &spec)?;
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
    let mut streams = Streams::prepare(Wanted { stdin: args.interactive, capture: output.json, terminal }).map_err(no_streams)?;
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
    Ok(super::run::exit_code(&exited))
}

pub fn no_streams(errno: rustix::io::Errno) -> EngineError {
    EngineError::io("use", "the standard streams", errno.into())
}
