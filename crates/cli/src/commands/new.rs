//! `whatif new`.

use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::Engine;

use super::Outcome;
use super::sandbox_options::SandboxOptions;
use crate::output::{Output, Style};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name it; a memorable one is made up otherwise
    #[arg(value_name = "NAME", conflicts_with = "name")]
    positional_name: Option<String>,
    /// Making it twice with the same key gives the same sandbox
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    let mut new = args.sandbox.into_new(engine)?;
    new.name = new.name.or(args.positional_name);
    new.idempotency_key = args.idempotency_key;
    let sandbox = engine.lifecycle.create(&new)?;
    let moved = super::template::tell_moved(engine, &sandbox, output);
    super::tell_disk_alert(engine, output);
    let name = sandbox.name.clone();
    if output.json {
        let mut document = json!(engine.lifecycle.listed(sandbox)?);
        document["template_moved"] = json!(moved);
        output.document(&document);
    } else {
        output.line(output.paint(Style::Bold, &name));
        super::port::tell(&sandbox, output);
        output.note(format!("  use it: whatif exec {name} -- COMMAND   open a shell: whatif shell {name}"));
    }
    Ok(ExitCode::SUCCESS)
}
