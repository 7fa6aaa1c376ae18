//! `whatif run`.

use crate::exit::ExitCode;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use whatif_engine::{CommandSpec, Engine, Exited, Finished, Keep};
use whatif_types::boot::Protection;
use whatif_types::explain::whole_message;
use whatif_types::text::Text;
use whatif_types::{Identity, NetMode, Sandbox};

use super::Outcome;
use super::once::Verb;
use super::sandbox_options::SandboxOptions;
use crate::foreground::{self, Capture, Streams, Wanted};
use crate::output::{Output, Style, printable, visible_path};
use crate::{ending, exit, summary, unreached};

#[derive(Debug, Default, clap::Args)]
#[command(override_usage = "whatif run [OPTIONS] [--] COMMAND [ARGUMENT]...")]
pub struct Args {
    /// Run in this existing sandbox
    #[arg(long = "in", value_name = "NAME", conflicts_with_all = ["name", "rm", "keep", "net", "reach", "publish", "secret", "label", "provider", "backend", "mask", "expose", "device", "gpu", "allow", "template", "cpus", "memory", "pids", "disk", "inodes", "ttl", "idle", "preset", "require_limits", "idempotency_key"])]
    existing: Option<String>,
    /// Remove the sandbox afterwards, even if something changed
    #[arg(long, conflicts_with = "keep")]
    rm: bool,
    /// Keep the sandbox, even if nothing changed
    #[arg(long)]
    keep: bool,
    /// Print no report
    #[arg(long, short)]
    quiet: bool,
    /// Do this once: the same command with this key gives the same answer for a day, without doing it again
    #[arg(long, value_name = "KEY", value_parser = super::once::key)]
    idempotency_key: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

/// However the command ended, it ran. Nobody can tell how long it may take.
const RUN: Verb = Verb { name: "run", within: Duration::from_secs(86_400), settles: |_| true };

impl Args {
    /// What is meant where no option is given.
    pub fn plain(command: Vec<OsString>) -> Self {
        Self { command, ..Self::default() }
    }
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    if let Some(name) = args.existing {
        let mut exec = super::exec::Args::for_run_in(name, args.command);
        (exec.timeout, exec.env, exec.cwd) = (args.sandbox.limits.timeout(), args.sandbox.env, args.sandbox.cwd);
        exec.reports = !args.quiet;
        return super::exec::execute(engine, exec, output);
    }
    let mut args = args;
    let key = args.idempotency_key.take();
    let asked = format!("{args:?}");
    super::once::once(engine, key.as_deref(), RUN, &asked, output, || run(engine, args, output))
}

fn run(engine: &Engine, args: Args, output: &Output) -> Outcome {
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
    super::grant_options::tell(&run.running.sandbox, output);
    warn_about_backend(&run.running.sandbox.details.backend_reason, run.running.sandbox.details.backend, output);
    warn_about_proc(&run.running.sandbox.details.protection, output);
    warn_about_owner(&run.running.sandbox, output);
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
        report(engine, &finished, &exited, is_closed, output);
        return offer_review(engine, &finished, &exited, output);
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

fn warn_about_proc(protection: &Protection, output: &Output) {
    if protection.borrowed.iter().any(|(view, _)| view == Path::new("/proc")) {
        let tag = output.paint_note(Style::Yellow, "whatif:");
        output.note(format!(
            "{tag} /proc inside is the container's, read-only: it lists the container's other processes, and numbers processes differently"
        ));
    }
}

/// Root of a container is one user among others there, and the project often is another one's.
fn warn_about_owner(sandbox: &Sandbox, output: &Output) {
    let Identity::Own { uid: 0, .. } = sandbox.details.identity else { return };
    // Only a remark; what cannot be looked at is told where it matters.
    let Some(owner) = std::fs::metadata(&sandbox.project).ok().map(|found| found.uid()).filter(|uid| *uid != 0) else { return };
    let tag = output.paint_note(Style::Yellow, "whatif:");
    output.note(format!(
        "{tag} {} belongs to uid {owner}, whose files root of this container cannot change inside; start whatif as that user",
        visible_path(&sandbox.project)
    ));
}

/// One paragraph: how it ended, what changed, what to do next.
fn report(engine: &Engine, finished: &Finished, exited: &Exited, is_closed: bool, output: &Output) {
    let tag = output.paint_note(Style::Dim, "whatif:");
    let (name, changes) = (&finished.sandbox.name, &finished.summary);
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
        let what = match changes.changed_files {
            _ if finished.unseen.is_some() => "what it changed is not known".to_owned(),
            0 => "nothing changed".to_owned(),
            _ => summary::in_words(changes),
        };
        let noise = if !changes.matters && changes.changed_files > 0 { " (caches and logs only)" } else { "" };
        let why = match (finished.removed, changes.matters) {
            (true, _) => ": another command removed it",
            (false, true) => ", as asked",
            (false, false) => "",
        };
        output.note(format!("{tag} {what}{noise}; reality is untouched and the sandbox is gone{why}"));
        tell_left_in_tmp(finished, exited, output);
        used.into_iter().for_each(|line| output.note(line));
        return;
    }
    tell_unseen(finished, output);
    let running = if finished.left_processes { ", still running" } else { "" };
    let what = match &finished.unseen {
        None if changes.changed_files == 0 => "nothing changed".to_owned(),
        None => summary::in_words(changes),
        Some(_) => "what it changed is not known".to_owned(),
    };
    output.note(format!("{tag} {what}; reality is untouched. Kept as {}{running}", output.paint_note(Style::Bold, name)));
    summary::tell_examples(changes, &finished.sandbox.project, output);
    tell_left_in_tmp(finished, exited, output);
    used.into_iter().for_each(|line| output.note(line));
    summary::tell_removal(engine, &finished.sandbox, output);
    summary::tell_next(engine, &finished.sandbox, changes, finished.left_processes, output);
}

/// A sandbox has a /tmp of its own, in memory: it ends with the last process.
fn tell_left_in_tmp(finished: &Finished, exited: &Exited, output: &Output) {
    let left = finished.left_in_tmp(exited);
    if let [first, ..] = left.as_slice() {
        let more = if left.len() > 1 { " and more" } else { "" };
        let name = printable(&first.to_path().to_string_lossy());
        output.note(format!("  gone with the sandbox's private /tmp: {name}{more}"));
    }
}

/// On a terminal, what was changed can be looked through at once.
fn offer_review(engine: &Engine, finished: &Finished, exited: &Exited, output: &Output) -> Outcome {
    let is_worth_it = finished.kept && finished.unseen.is_none() && finished.summary.changed_files > 0;
    if is_worth_it && exited.signal.is_none() && foreground::is_interactive() && super::rm::asks_a_person() {
        // What was typed for the command is no answer.
        foreground::forget_typed();
        if super::rm::agreed("Review now?")? {
            let code = super::review::execute(engine, &super::review::Args::of(finished.sandbox.name.clone()), output)?;
            if code != ExitCode::SUCCESS {
                return Ok(code);
            }
        }
    }
    Ok(exit_code(exited))
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
    document["left_in_tmp"] = json!(finished.left_in_tmp(exited));
    document["missed_network"] = json!(exited.missed_network);
    document["denied"] = json!(finished.network.denied);
    document["left_processes"] = json!(finished.left_processes);
    document["changes"] = json!(finished.summary);
    document["stdout"] = json!(captured.map(Capture::stdout));
    document["stderr"] = json!(captured.map(Capture::stderr));
    document["truncated"] = json!(captured.is_some_and(Capture::is_truncated));
    document
}
