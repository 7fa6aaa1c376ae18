//! `whatif run`.

use crate::exit::ExitCode;
use std::ffi::OsString;

use serde_json::json;
use whatif_engine::{ChangeKind, CommandSpec, Engine, Exited, Finished, Keep};
use whatif_types::NetMode;
use whatif_types::explain::whole_message;
use whatif_types::text::Text;

use super::Outcome;
use super::sandbox_options::SandboxOptions;
use crate::foreground::{self, Capture, Streams, Wanted};
use crate::output::{Output, Style, bytes, counted, printable, visible_path};
use crate::{ending, exit, unreached};

#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Run in this existing sandbox instead of a fresh one
    #[arg(long = "in", value_name = "NAME", conflicts_with_all = ["name", "rm", "keep", "net", "reach", "publish", "secret", "label", "provider", "backend", "mask", "expose", "template", "cpus", "memory", "pids", "disk", "inodes", "ttl", "idle", "preset", "require_limits"])]
    existing: Option<String>,
    /// Remove the sandbox afterwards, whatever changed
    #[arg(long, conflicts_with = "keep")]
    rm: bool,
    /// Keep the sandbox, even if nothing changed
    #[arg(long)]
    keep: bool,
    /// Print no report
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

impl Args {
    /// What is meant where no option is given.
    pub fn plain(command: Vec<OsString>) -> Self {
        Self { command, ..Self::default() }
    }
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    if let Some(name) = args.existing {
        let exec =
            super::exec::Args::for_run_in(name, args.command, args.sandbox.limits.timeout(), args.sandbox.env, args.sandbox.cwd);
        return super::exec::execute(engine, exec, output);
    }
    let keep = match (args.keep, args.rm) {
        (true, _) => Keep::Always,
        (_, true) => Keep::Never,
        _ => Keep::IfItMatters,
    };
    let terminal = foreground::is_interactive() && !output.json;
    let mut streams = Streams::prepare(Wanted { stdin: true, capture: output.json, terminal }).map_err(super::exec::no_streams)?;
    let spec = CommandSpec {
        arguments: args.command,
        env: Vec::new(),
        cwd: None,
        stdio: foreground::passed(&streams).0,
        terminal: terminal.then(foreground::size),
        timeout: None,
        called: None,
    };
    let mut run = engine.lifecycle.run(&args.sandbox.into_new(engine)?, &spec, &foreground::passed(&streams).1)?;
    let moved = super::template::tell_moved(engine, &run.running.sandbox, output);
    streams.handed_over();
    let captured = streams.captured.clone();
    warn_about_backend(&run.running.sandbox.details.backend_reason, run.running.sandbox.details.backend, output);
    if !args.quiet {
        super::port::tell(&run.running.sandbox, output);
    }
    let exited = foreground::attend(&mut run.running, streams, engine, output)?;
    let finished = engine.lifecycle.finish(run, &exited, keep)?;
    if output.json {
        let mut document = document(&finished, &exited, captured.as_ref());
        document["template_moved"] = json!(moved);
        output.document(&document);
    } else if !args.quiet {
        let is_closed = exited.missed_network && engine.network.is_network_closed(&finished.sandbox.project);
        report(&finished, &exited, is_closed, output);
    } else {
        tell_unseen(&finished, output);
        if ending::was_limited(&exited) {
            // Why it was ended is no report; without it nobody would know.
            why_it_ended(&finished, &exited).iter().for_each(|line| output.note(format!("whatif: {line}")));
            ending::tell_remedy(&exited, output);
        }
    }
    Ok(exit_code(&exited))
}

pub fn exit_code(exited: &Exited) -> ExitCode {
    if exited.timed_out {
        return ExitCode::from(exit::TIMED_OUT);
    }
    ExitCode::from(u8::try_from(exited.code).unwrap_or(u8::MAX))
}

fn warn_about_backend(reason: &Option<String>, backend: whatif_types::Backend, output: &Output) {
    if let Some(reason) = reason {
        output.note(format!("{} using the '{backend}' backend, because: {reason}", output.paint_note(Style::Yellow, "whatif:")));
    }
}

/// One paragraph: how it ended, what changed, what to do next.
fn report(finished: &Finished, exited: &Exited, is_closed: bool, output: &Output) {
    let tag = output.paint_note(Style::Dim, "whatif:");
    let (name, summary) = (&finished.sandbox.name, &finished.summary);
    for line in why_it_ended(finished, exited) {
        output.note(format!("{tag} {line}"));
    }
    ending::tell_remedy(exited, output);
    if exited.missed_network && finished.sandbox.details.net == NetMode::None {
        let remedy = if is_closed {
            "the project's .whatif.toml allows none"
        } else {
            "to allow one: --net allow=HOST, or --net registries"
        };
        output.note(format!("{tag} it tried to reach a network and had none; {remedy}"));
    }
    unreached::tell(&finished.network, &finished.sandbox, finished.kept, output);
    let is_said = ending::is_notable(&exited.usage) || !finished.sandbox.details.limits.is_unlimited();
    let used = is_said.then(|| output.paint_note(Style::Dim, format!("  used {}", ending::usage(&exited.usage))));
    if !finished.kept {
        tell_unseen(finished, output);
        let what = match summary.changed_files {
            _ if finished.unseen.is_some() => "what it changed is not known".to_owned(),
            0 => "nothing changed".to_owned(),
            some => format!("{} changed", counted(some, "path")),
        };
        let noise = if !summary.matters && summary.changed_files > 0 { " (caches and logs only)" } else { "" };
        let why = match (finished.removed, summary.matters) {
            (true, _) => ": another command removed it",
            (false, true) => ", as asked",
            (false, false) => "",
        };
        output.note(format!("{tag} {what}{noise}; reality is untouched and the sandbox is gone{why}"));
        used.into_iter().for_each(|line| output.note(line));
        return;
    }
    tell_unseen(finished, output);
    let running = if finished.left_processes { ", still running" } else { "" };
    let what = match &finished.unseen {
        None => format!("{} changed ({})", counted(summary.changed_files, "path"), bytes(summary.size_bytes)),
        Some(_) => "what it changed is not known".to_owned(),
    };
    output.note(format!("{tag} {what}; reality is untouched. Kept as {}{running}", output.paint_note(Style::Bold, name)));
    for change in &summary.examples {
        let (mark, style) = match change.kind {
            ChangeKind::Add => ("+", Style::Green),
            ChangeKind::Delete => ("-", Style::Red),
            _ => ("~", Style::Yellow),
        };
        output.note(format!("  {}", output.paint_note(style, format!("{mark} {}", printable(&change.path.to_string_lossy())))));
    }
    let more = summary.changed_files.saturating_sub(summary.examples.len() as u64);
    if more > 0 && !summary.examples.is_empty() {
        output.note(format!("  … and {more} more"));
    }
    used.into_iter().for_each(|line| output.note(line));
    output.note(format!("  look: whatif diff {name}   keep it: whatif apply {name}   go on: whatif exec {name} -- COMMAND   drop it: whatif rm {name}"));
}

/// What could not be looked at is why a sandbox is kept in which nothing may have changed.
fn tell_unseen(finished: &Finished, output: &Output) {
    let tag = output.paint_note(Style::Red, "whatif:");
    if let Some(error) = &finished.unseen {
        output.note(format!("{tag} what it changed could not be found out: {}", printable(&whole_message(error))));
    }
    for unreadable in &finished.summary.unreadable {
        output.note(format!("{tag} {} could not be read ({})", visible_path(&unreadable.path), unreadable.why()));
    }
}

fn why_it_ended(finished: &Finished, exited: &Exited) -> Vec<String> {
    let mut lines = ending::lines(exited, &finished.sandbox.details.limits, None);
    if lines.is_empty() && exited.code != 0 {
        lines.push(format!("the command failed with exit code {}", exited.code));
    }
    lines
}

fn document(finished: &Finished, exited: &Exited, captured: Option<&Capture>) -> serde_json::Value {
    let mut document = ending::document(exited);
    document["sandbox"] = json!({ "id": finished.sandbox.id, "name": finished.sandbox.name, "project": Text::from(&finished.sandbox.project), "status": finished.sandbox.status });
    document["kept"] = json!(finished.kept);
    document["removed"] = json!(finished.removed);
    document["unseen"] = json!(finished.unseen.as_ref().map(|error| whole_message(error)));
    document["missed_network"] = json!(exited.missed_network);
    document["denied"] = json!(finished.network.denied);
    document["left_processes"] = json!(finished.left_processes);
    document["changes"] = json!(finished.summary);
    document["stdout"] = json!(captured.map(Capture::stdout));
    document["stderr"] = json!(captured.map(Capture::stderr));
    document["truncated"] = json!(captured.is_some_and(Capture::is_truncated));
    document
}
