//! `whatif kill`.

use std::process::ExitCode;

use serde_json::json;
use whatif_engine::Engine;

use super::Outcome;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox: its name or the beginning of its id
    name: String,
    /// The process, by the number 'whatif ps' shows
    #[arg(value_parser = process)]
    pid: i32,
    /// The signal, by name or number
    #[arg(long, short, default_value = "TERM", value_parser = signal)]
    signal: i32,
}

const NAMES: [(&str, i32); 12] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
];

fn process(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| "expected the number of a process, as 'whatif ps' shows it".to_owned())
}

fn signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by_name = NAMES.iter().find(|(n, _)| *n == name).map(|(_, number)| *number);
    by_name.or_else(|| text.parse().ok().filter(|n| (1..=31).contains(n))).ok_or_else(|| format!("'{text}' is not a signal"))
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    engine.kill(Some(&args.name), args.pid, args.signal)?;
    output.document(&json!({ "pid": args.pid, "signal": args.signal }));
    Ok(ExitCode::SUCCESS)
}
