//! `whatif ps`.

use std::process::ExitCode;

use whatif_engine::Engine;

use super::Outcome;
use crate::output::{Output, Style, bytes, printable};
use crate::table;

/// List the processes of a sandbox
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox: its name or the beginning of its id
    name: Option<String>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let (sandbox, processes) = engine.processes(args.name.as_deref())?;
    output.document(&processes);
    if processes.is_empty() {
        output.note(format!("nothing runs in {}", sandbox.name));
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["PID", "PARENT", "STATE", "CPU", "MEMORY", "COMMAND"].map(|h| output.paint(Style::Dim, h)).to_vec()];
    for p in &processes {
        let cpu = format!("{:.1}s", p.cpu_ms as f64 / 1000.0);
        rows.push(vec![
            p.pid.to_string(),
            p.parent.to_string(),
            p.state.to_string(),
            cpu,
            bytes(p.memory_bytes),
            printable(&p.command),
        ]);
    }
    output.line(table::render(&rows));
    Ok(ExitCode::SUCCESS)
}
