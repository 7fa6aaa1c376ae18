//! `whatif logs`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use whatif_engine::{Engine, EngineError};

use super::Outcome;
use crate::output::{Output, printable};

/// How often a followed log is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Print the output of a command started with 'exec -d'
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox: its name or the beginning of its id
    name: Option<String>,
    /// Which process; the latest otherwise
    pid: Option<i32>,
    /// Go on printing until the command ends
    #[arg(long, short)]
    follow: bool,
    /// Print escape sequences as they are, even to a terminal
    #[arg(long)]
    raw: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let (sandbox, pid, path) = engine.log(args.name.as_deref(), args.pid)?;
    let failed = |source: io::Error| EngineError::Io { action: "read", path: path.clone(), source };
    let mut file = File::open(&path).map_err(failed)?;
    if output.json {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        output.document(&json!({ "sandbox": sandbox.name, "pid": pid, "output": String::from_utf8_lossy(&bytes) }));
        return Ok(ExitCode::SUCCESS);
    }
    let escape = !args.raw && io::IsTerminal::is_terminal(&io::stdout());
    loop {
        // Asked before reading, so that nothing written before the end is missed.
        let running = args.follow && engine.is_running(&sandbox, pid);
        print_rest(&mut file, escape).map_err(failed)?;
        if !running {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(INTERVAL);
    }
}

fn print_rest(file: &mut File, escape: bool) -> io::Result<()> {
    let mut buffer = [0; 64 << 10];
    let mut out = io::stdout().lock();
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return out.flush();
        }
        if escape {
            let text = String::from_utf8_lossy(&buffer[..length]).replace("\r\n", "\n");
            for part in text.split_inclusive(['\t', '\n']) {
                let plain = part.trim_end_matches(['\t', '\n']);
                out.write_all(printable(plain).as_bytes())?;
                out.write_all(&part.as_bytes()[plain.len()..])?;
            }
        } else {
            out.write_all(&buffer[..length])?;
        }
    }
}
