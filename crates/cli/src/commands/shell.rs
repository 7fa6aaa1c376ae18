//! `whatif shell`.

mod prompt;

use std::ffi::OsString;

use whatif_engine::Engine;

use self::prompt::{Named, naming};
use super::{Outcome, meant, variable};
use crate::output::{Output, Style};
use crate::{foreground, summary};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// Set a variable (NAME=VALUE), or pass one that looks like a secret (NAME)
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable::parse)]
    env: Vec<String>,
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| OsString::from("/bin/sh"));
    // Before anything is said: there may be none, or its time may be up.
    let sandbox = engine.lifecycle.enter(&meant(engine, args.name.as_deref())?)?.sandbox;
    let name = output.paint_note(Style::Bold, &sandbox.name);
    output.note(format!(
        "{} a shell in {name}; reality stays as it is. Leave with 'exit'.",
        output.paint_note(Style::Dim, "whatif:")
    ));
    let Named { command, mut env } = match foreground::is_interactive() && !output.json {
        true => naming(&sandbox.name, shell, engine.caller().is_root()),
        false => Named { command: vec![shell], env: Vec::new() },
    };
    env.extend(args.env);
    let exec = super::exec::Args::for_shell(Some(sandbox.name.clone()), command, env);
    let outcome = super::exec::execute(engine, exec, output)?;
    if !output.json
        && let Ok(summary) = engine.ground.summarize(&sandbox)
    {
        summary::tell(engine, &sandbox, &summary, output);
    }
    Ok(outcome)
}
