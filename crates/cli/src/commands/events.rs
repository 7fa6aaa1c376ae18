//! `whatif events`.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use whatif_engine::ground::events::EventDocument;
use whatif_engine::{Engine, EngineError};

use super::Outcome;
use crate::exit::ExitCode;
use crate::output::{Output, Style, has_lost_output, printable};

/// Events that are read at once.
const BATCH: usize = 500;
/// How often it is looked for more.
const PAUSE: Duration = Duration::from_millis(100);
/// However little seems to happen.
const LONGEST: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  whatif events -f              print events as they happen\n  whatif events fix -n 5        the last five about the sandbox fix\n  whatif events --after 120     go on where event 120 was the last one"
)]
pub struct Args {
    /// Show only events about this sandbox, template or race
    name: Option<String>,
    /// Print further events as they happen
    #[arg(long, short)]
    follow: bool,
    /// Start after the event with this number
    #[arg(long, value_name = "NUMBER", conflicts_with = "tail")]
    after: Option<u64>,
    /// Print only the last N events
    #[arg(long, short = 'n', value_name = "N", default_value = "100")]
    tail: usize,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let is_wanted = |event: &EventDocument| args.name.as_ref().is_none_or(|name| event.subject == *name);
    let (found, mut last) = match args.after {
        Some(after) => all_after(engine, after, usize::MAX, &is_wanted)?,
        None => latest(engine, args.tail, &is_wanted)?,
    };
    if !args.follow {
        found.iter().for_each(|event| output.line(shown(event, output)));
        output.document(&json!({ "events": found, "next": last }));
        return Ok(ExitCode::SUCCESS);
    }
    found.iter().for_each(|event| print(event, output));
    let (mut mark, mut looked) = (None, Instant::now());
    while !has_lost_output() {
        let now = engine.ground.events_mark()?;
        if mark.as_ref() == Some(&now) && looked.elapsed() < LONGEST {
            std::thread::sleep(PAUSE);
            continue;
        }
        (mark, looked) = (Some(now), Instant::now());
        let (found, to) = all_after(engine, last, usize::MAX, &is_wanted)?;
        found.iter().for_each(|event| print(event, output));
        last = to;
    }
    Ok(ExitCode::SUCCESS)
}

/// The last ones that are wanted, and the number of the last event of all.
fn latest(
    engine: &Engine,
    count: usize,
    is_wanted: &dyn Fn(&EventDocument) -> bool,
) -> Result<(Vec<EventDocument>, u64), EngineError> {
    let first = engine.ground.first_event()?;
    all_after(engine, first.saturating_sub(1), count, is_wanted)
}

/// Of those after a number the last `most`.
fn all_after(
    engine: &Engine,
    mut after: u64,
    most: usize,
    is_wanted: &dyn Fn(&EventDocument) -> bool,
) -> Result<(Vec<EventDocument>, u64), EngineError> {
    let mut found = Vec::new();
    loop {
        let events = engine.ground.events(after, BATCH)?;
        let Some(last) = events.last() else { return Ok((found, after)) };
        after = last.number;
        found.extend(events.into_iter().map(EventDocument::from).filter(is_wanted));
        found.drain(..found.len().saturating_sub(most));
    }
}

fn print(event: &EventDocument, output: &Output) {
    output.line(shown(event, output));
    output.document(event);
}

fn shown(event: &EventDocument, output: &Output) -> String {
    let at = event.at.replace('T', " ");
    format!(
        "{} {} {:<19} {}{}  {}",
        output.paint(Style::Dim, format!("{:>6}", event.number)),
        at.trim_end_matches('Z'),
        event.kind,
        output.paint(Style::Bold, printable(&event.subject)),
        facts(&event.about),
        output.paint(Style::Dim, format!("{} ({})", printable(&event.by), printable(&event.via))),
    )
}

/// The facts on one line, without those that every event has.
pub fn facts(about: &Map<String, Value>) -> String {
    let told = about.iter().filter(|(name, _)| !["sandbox", "project"].contains(&name.as_str()));
    told.map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("  {}={}", printable(name), printable(&value))
    })
    .collect()
}
