//! How a command ended and what it used, in words.

use serde_json::{Value, json};
use whatif_engine::Exited;
use whatif_types::{LimitHit, Limits, Span, Usage};

use crate::exit;
use crate::output::{Output, Style, bytes};
use crate::spelled;

/// The exit code as `run` and `exec` return it.
pub fn code(exited: &Exited) -> String {
    if exited.timed_out { format!("{} (timeout)", exit::TIMED_OUT) } else { exited.code.to_string() }
}

/// What is worth saying about the end of a command in a sandbox with these limits.
pub fn lines(exited: &Exited, limits: &Limits, timeout: Option<Span>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(hit) = exited.limit_hit {
        let limit = limits.describe(hit);
        lines.push(match hit {
            _ if exited.code == 0 => format!("a process inside was killed: {limit}"),
            LimitHit::Ttl => format!("ended: {limit}"),
            _ => format!("killed: {limit}"),
        });
    } else if exited.timed_out {
        let limit = timeout.or(limits.timeout).map_or_else(String::new, |t| format!(" of {t}"));
        lines.push(format!("ended: the time limit{limit} was reached"));
    } else if let Some(signal) = exited.signal {
        lines.push(format!("the command was killed by signal {signal}"));
    }
    if exited.pids_refused {
        let limit = limits.pids.map_or_else(|| "default limit".to_owned(), |p| format!("limit of {p}"));
        lines.push(format!("the {limit} on processes was reached: something could not be started"));
    }
    if let Some(hit) = exited.room_refused {
        lines.push(format!("the {} was reached: something could not be written", limits.describe(hit)));
    }
    lines
}

/// What to do next, where a limit ended it.
pub fn tell_remedy(exited: &Exited, output: &Output) {
    if let Some(remedy) = exited.limit_hit.or(exited.room_refused).and_then(LimitHit::remedy) {
        output.note(format!("  {} {}", output.paint_note(Style::Cyan, "hint:"), spelled::sentence(&remedy)));
    }
}

/// Whether a limit had something to do with it.
pub fn was_limited(exited: &Exited) -> bool {
    exited.limit_hit.is_some() || exited.timed_out || exited.pids_refused || exited.room_refused.is_some()
}

/// Whether a command used so much that it is worth a line.
pub fn is_notable(usage: &Usage) -> bool {
    usage.wall_ms >= 1000 || usage.cpu_ms >= 1000 || usage.written_bytes >= 1 << 20
}

pub fn usage(usage: &Usage) -> String {
    let seconds = |ms: u64| if ms < 1000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1000.0) };
    format!(
        "{} of CPU time in {}, {} of memory, {} written",
        seconds(usage.cpu_ms),
        seconds(usage.wall_ms),
        bytes(usage.peak_memory_bytes),
        bytes(usage.written_bytes)
    )
}

/// What the JSON of every finished command has in common.
pub fn document(exited: &Exited) -> Value {
    json!({
        "exit_code": exited.code,
        "signal": exited.signal,
        "timed_out": exited.timed_out,
        "limit_hit": exited.limit_hit,
        "pids_refused": exited.pids_refused,
        "room_refused": exited.room_refused,
        "usage": exited.usage,
    })
}
