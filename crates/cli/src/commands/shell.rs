//! `whatif shell`.

use std::ffi::OsString;

use whatif_engine::Engine;

use super::{Outcome, meant};
use crate::output::{Output, Style};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox: its name or the beginning of its id
    name: Option<String>,
    /// Carry a variable although it looks like a secret (NAME), or set one (NAME=VALUE)
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| OsString::from("/bin/sh"));
    // Before anything is said: there may be none, or its time may be up.
    let name = engine.lifecycle.enter(&meant(engine, args.name.as_deref())?)?.sandbox.name;
    output.note(output.paint_note(Style::Dim, "whatif: a shell in the sandbox; reality stays as it is. Leave with 'exit'."));
    super::exec::execute(engine, super::exec::Args::for_shell(Some(name), vec![shell], args.env), output)
}
