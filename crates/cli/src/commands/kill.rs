//! `whatif kill`.

use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::Engine;
use whatif_types::Chosen;

use super::Outcome;
use crate::chosen;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: String,
    /// The process number as in 'whatif ps', or the id of a command (c1)
    #[arg(value_name = "PID|ID", value_parser = chosen::parse)]
    process: Chosen,
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

/// HUP, INT, QUIT and TERM: a process that ignores them goes on.
const ENDING: [i32; 4] = [1, 2, 3, 15];

fn signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by_name = NAMES.iter().find(|(n, _)| *n == name).map(|(_, number)| *number);
    by_name.or_else(|| text.parse().ok().filter(|n| (1..=31).contains(n))).ok_or_else(|| format!("'{text}' is not a signal"))
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let pid = engine.lifecycle.kill(&args.name.as_str().into(), args.process, args.signal)?;
    output.document(&json!({ "pid": pid, "signal": args.signal }));
    if output.json {
        return Ok(ExitCode::SUCCESS);
    }
    let name = NAMES
        .iter()
        .find(|(_, number)| *number == args.signal)
        .map_or_else(|| args.signal.to_string(), |(name, _)| (*name).to_owned());
    let process = match args.process {
        Chosen::Id(id) => id.to_string(),
        Chosen::Pid(pid) => pid.to_string(),
    };
    output.line(format!("sent {name} to {process}"));
    if ENDING.contains(&args.signal) && engine.lifecycle.outlives_signal(&args.name.as_str().into(), pid) {
        output.note(format!("  it still runs; to end it by force: whatif kill {} {} -s KILL", args.name, process));
    }
    Ok(ExitCode::SUCCESS)
}
