//! `whatif fork`.

use crate::exit::ExitCode;
use std::time::Duration;

use serde_json::json;
use whatif_engine::Engine;
use whatif_engine::history::fork::Fork;
use whatif_engine::lifecycle::shift::Live;

use super::Outcome;
use super::once::Verb;
use super::snapshot::{live, tell_disturbed, was_copied};
use crate::output::{Output, Style};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  whatif fork swift-otter           from what it is now\n  whatif fork swift-otter@green try --count 3"
)]
pub struct Args {
    /// A sandbox, or a snapshot: LABEL or NAME@LABEL
    #[arg(value_name = "NAME|LABEL")]
    source: String,
    /// Name of the new sandbox; made up if not given
    #[arg(value_name = "NEW")]
    name: Option<String>,
    /// Number of sandboxes to create; a given name gets -1, -2, …
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = count)]
    count: usize,
    /// Show a path that is hidden by default; not inherited from the source
    #[arg(long, value_name = "PATH", value_parser = super::path_rule::parse)]
    expose: Vec<String>,
    /// How to treat running processes: copy (they continue; the changes are copied), refuse, or stop (end them)
    #[arg(long, value_name = "copy|refuse|stop", value_parser = live, default_value = "copy")]
    live: Live,
    /// Do this once: the same command with this key gives the same answer for a day, without doing it again
    #[arg(long, value_name = "KEY", value_parser = super::once::key)]
    idempotency_key: Option<String>,
}

/// One that failed may be tried again.
const FORK: Verb = Verb { name: "fork", within: Duration::from_secs(600), settles: |code| code == ExitCode::SUCCESS };

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let asked = (&args.source, &args.name, args.count, &args.expose, format!("{:?}", args.live));
    super::once::once(engine, args.idempotency_key.as_deref(), FORK, &asked, output, || fork(engine, args, output))
}

fn fork(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let fork = Fork { source: &args.source, name: args.name.as_deref(), count: args.count, expose: &args.expose, live: args.live };
    let forked = engine.history.fork(&fork)?;
    output.document(&json!({
        "from": format!("{}@{}", forked.parent.name, forked.from.label),
        "copied": forked.disturbed.as_ref().is_some_and(was_copied),
        "ended": forked.disturbed.as_ref().map_or(&[][..], |d| &d.ended),
        "sandboxes": forked.sandboxes.iter().map(|s| json!({ "id": s.id, "name": s.name })).collect::<Vec<_>>(),
    }));
    if let Some(one) = forked.sandboxes.first() {
        // All are like the one they come from.
        super::grant_options::tell(one, output);
    }
    for sandbox in &forked.sandboxes {
        output.line(output.paint(Style::Bold, &sandbox.name));
    }
    tell_disturbed(forked.disturbed.as_ref(), output);
    if let [only] = forked.sandboxes.as_slice() {
        output.note(format!("  use it: whatif exec {} -- COMMAND", only.name));
    }
    if !forked.parent.details.set_env.is_empty() {
        let names = forked.parent.details.set_env.join(", ");
        output.note(format!("  not carried along, as only {} knows their values: {names}", forked.parent.name));
    }
    super::tell_disk_alert(engine, output);
    Ok(ExitCode::SUCCESS)
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("'{text}' is not a number of sandboxes; 1 to 10000")),
        Ok(number @ 1..=10_000) => Ok(number),
        Ok(_) => Err("10000 at most".to_owned()),
    }
}
