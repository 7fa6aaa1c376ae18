//! `whatif stats`.

use crate::exit::ExitCode;
use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use whatif_engine::Engine;
use whatif_engine::lifecycle::stats::UsedNow;
use whatif_types::Selector;
use whatif_types::timestamp::{age, countdown};

use super::Outcome;
use crate::output::{Output, Style, bytes};
use crate::table;

const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandboxes; by default all that run
    names: Vec<String>,
    /// Go on showing, once a second; with --json one line each time
    #[arg(long, short)]
    follow: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let these: Vec<Selector> = args.names.iter().map(|name| name.as_str().into()).collect();
    let (mut before, mut now) = engine.lifecycle.two_samples(&these)?;
    loop {
        let mut rows = now.since(&before);
        if args.follow {
            rows.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
        }
        output.document(&rows);
        if !output.json {
            show(&rows, args.follow, output);
        }
        if !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(INTERVAL);
        before = std::mem::replace(&mut now, engine.lifecycle.sample(&these)?);
    }
}

fn show(rows: &[UsedNow], follow: bool, output: &Output) {
    if rows.is_empty() && !follow {
        return output.note("no sandbox runs");
    }
    let headings = ["NAME", "CPUS", "MEMORY", "PROCESSES", "CHANGES", "WRITTEN", "CPU TIME", "UP", "ENDS IN"];
    let mut lines = vec![headings.map(|h| output.paint(Style::Dim, h)).to_vec()];
    for UsedNow { cpus, used } in rows {
        let (stats, limits) = (&used.stats, &used.limits);
        lines.push(vec![
            output.paint(Style::Bold, &used.name),
            of(format!("{cpus:.2}"), limits.cpus),
            of(bytes(stats.memory_bytes), limits.memory),
            of(stats.processes, limits.pids),
            stats.changes_bytes.map_or_else(|| "-".to_owned(), |b| of(bytes(b), limits.disk)),
            bytes(stats.written_bytes),
            format!("{:.1}s", stats.cpu_ms as f64 / 1000.0),
            age(stats.uptime_ms),
            used.remaining_ms.map_or_else(|| "-".to_owned(), countdown),
        ]);
    }
    if follow && let Some(height) = screen_height() {
        let (room, all) = (height.saturating_sub(3).max(1), rows.len());
        if all > room {
            lines.truncate(room + 1);
            lines.push(vec![format!("… and {} more", all - room)]);
        }
        let _ = write!(std::io::stdout(), "\x1b[H\x1b[J");
    }
    output.line(table::render(&lines));
}

/// Used, of what may be used.
fn of(used: impl Display, limit: Option<impl Display>) -> String {
    limit.map_or_else(|| used.to_string(), |limit| format!("{used} / {limit}"))
}

/// The lines of a terminal that can be written over.
fn screen_height() -> Option<usize> {
    let is_plain = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (!is_plain && size.ws_row > 0).then_some(size.ws_row.into())
}
