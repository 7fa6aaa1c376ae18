//! `whatif ps`.

use crate::exit::ExitCode;

use whatif_engine::lifecycle::show::ProcessList;
use whatif_engine::{Engine, Exited};
use whatif_types::CommandId;

use super::{Outcome, meant_and_told};
use crate::ending;
use crate::output::{Output, Style, bytes, printable};
use crate::table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// Include commands that ended recently, with what they used
    #[arg(long, short)]
    all: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let running = engine.lifecycle.processes(&meant_and_told(engine, args.name.as_deref(), output)?)?;
    output.document(&running);
    let ProcessList { ended, processes, sandbox } = running;
    if args.all && !ended.is_empty() {
        output.line(table::render(&ended_rows(&ended, output)));
    }
    if processes.is_empty() {
        output.note(format!("nothing runs in {sandbox}"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["PID", "PARENT", "STATE", "CPU", "MEMORY", "ID", "COMMAND"].map(|h| output.paint(Style::Dim, h)).to_vec()];
    for p in &processes {
        let cpu = format!("{:.1}s", p.cpu_ms as f64 / 1000.0);
        rows.push(vec![
            p.pid.to_string(),
            p.parent.to_string(),
            p.state.to_string(),
            cpu,
            bytes(p.memory_bytes),
            id(p.id),
            printable(&p.command),
        ]);
    }
    output.line(table::render(&rows));
    Ok(ExitCode::SUCCESS)
}

/// Of a command that can be attached to.
fn id(id: Option<CommandId>) -> String {
    id.map_or_else(|| "-".to_owned(), |id| id.to_string())
}

fn ended_rows(ended: &[Exited], output: &Output) -> Vec<Vec<String>> {
    let headings = ["ENDED", "CODE", "TOOK", "CPU", "MEMORY", "WRITTEN", "ID", "COMMAND"];
    let mut rows = vec![headings.map(|h| output.paint(Style::Dim, h)).to_vec()];
    for e in ended {
        let seconds = |ms: u64| format!("{:.1}s", ms as f64 / 1000.0);
        let why = e.limit_hit.map(|hit| format!(" ({})", format!("{hit:?}").to_lowercase())).unwrap_or_default();
        rows.push(vec![
            e.pid.to_string(),
            format!("{}{why}", ending::code(e)),
            seconds(e.usage.wall_ms),
            seconds(e.usage.cpu_ms),
            bytes(e.usage.peak_memory_bytes),
            bytes(e.usage.written_bytes),
            id(e.id),
            printable(&e.command),
        ]);
    }
    rows
}
