//! `whatif new`.

use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::{Engine, Made};

use super::Outcome;
use super::sandbox_options::SandboxOptions;
use crate::output::{Output, Style, printable};
use crate::summary;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the sandbox; made up if not given
    #[arg(value_name = "NAME", conflicts_with = "name")]
    positional_name: Option<String>,
    /// Return the existing sandbox if one was created with the same key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    let mut new = args.sandbox.into_new(engine)?;
    new.name = new.name.or(args.positional_name);
    new.idempotency_key = args.idempotency_key;
    let (sandbox, was_made_before) = match engine.lifecycle.create_once(&new)? {
        Made::Now(sandbox) => (sandbox, false),
        Made::Before(sandbox) => (sandbox, true),
    };
    let moved = super::template::tell_moved(engine, &sandbox, output);
    super::tell_disk_alert(engine, output);
    super::grant_options::tell(&sandbox, output);
    let name = sandbox.name.clone();
    if output.json {
        let mut document = json!(engine.lifecycle.listed(sandbox)?);
        document["template_moved"] = json!(moved);
        output.document(&document);
    } else {
        output.line(output.paint(Style::Bold, &name));
        if was_made_before {
            let key = printable(&new.idempotency_key.unwrap_or_default());
            let asked = new.name.filter(|asked| *asked != name).map(|asked| format!(", so no '{}'", printable(&asked)));
            output.note(format!(
                "whatif: {name} was made before with the key '{key}'; no other sandbox was made{}",
                asked.unwrap_or_default()
            ));
        }
        super::port::tell(&sandbox, output);
        summary::tell_removal(engine, &sandbox, output);
        output.note(format!("  use it: whatif exec {name} -- COMMAND   open a shell: whatif shell {name}"));
    }
    Ok(ExitCode::SUCCESS)
}
