//! `whatif stats`.

use crate::exit::ExitCode;
use std::collections::HashMap;
use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

use whatif_engine::{Engine, Used};
use whatif_types::timestamp::{age, countdown};

use super::Outcome;
use crate::output::{Output, Style, bytes};
use crate::table;

/// How long CPU time is looked at to say how much of it is used now.
const MOMENT: Duration = Duration::from_millis(200);
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
    let mut before = Sample::take(engine, args)?;
    std::thread::sleep(MOMENT);
    loop {
        let now = Sample::take(engine, args)?;
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
        before = now;
        std::thread::sleep(INTERVAL);
    }
}

struct Sample {
    at: Instant,
    used: Vec<Used>,
}

impl Sample {
    fn take(engine: &Engine, args: &Args) -> Result<Self, whatif_engine::EngineError> {
        Ok(Self {
            at: Instant::now(),
            used: engine.lifecycle.stats(&args.names.iter().map(|name| name.as_str().into()).collect::<Vec<_>>())?,
        })
    }

    /// Each sandbox with the processors it used since the other sample.
    fn since(&self, before: &Self) -> Vec<Row> {
        let earlier: HashMap<&str, u64> = before.used.iter().map(|u| (u.name.as_str(), u.stats.cpu_ms)).collect();
        let elapsed = self.at.duration_since(before.at).as_secs_f64() * 1000.0;
        let cpus = |u: &Used| {
            u.stats.cpu_ms.saturating_sub(earlier.get(u.name.as_str()).copied().unwrap_or(u.stats.cpu_ms)) as f64 / elapsed
        };
        self.used.iter().map(|used| Row { cpus: (cpus(used) * 100.0).round() / 100.0, used: used.clone() }).collect()
    }
}

#[derive(serde::Serialize)]
struct Row {
    /// Processors used just now.
    cpus: f64,
    #[serde(flatten)]
    used: Used,
}

fn show(rows: &[Row], follow: bool, output: &Output) {
    if rows.is_empty() && !follow {
        return output.note("no sandbox runs");
    }
    let headings = ["NAME", "CPUS", "MEMORY", "PROCESSES", "CHANGES", "WRITTEN", "CPU TIME", "UP", "ENDS IN"];
    let mut lines = vec![headings.map(|h| output.paint(Style::Dim, h)).to_vec()];
    for Row { cpus, used } in rows {
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
