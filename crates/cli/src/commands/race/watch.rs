//! A race in the foreground: a live table for people, a line for each event for programs, and an end when somebody wants one.

use crate::exit::ExitCode;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use whatif_engine::races::{Event, Experiment, Flow, Raced, Ranking};
use whatif_engine::{Engine, EngineError};
use whatif_types::text::Text;

use crate::commands::Outcome;
use crate::output::{Output, Style};
use crate::race::{Board, Detail, Live, Shown, Standing};

/// Like a program that was ended by an interrupt.
pub const EXIT_INTERRUPTED: u8 = 130;

pub fn run(engine: &Engine, experiment: &Experiment, env: &[String], output: &Output) -> Outcome {
    let mut watching = Watching::start(experiment, output)?;
    let raced = engine.races.race(experiment, env, &mut |event| watching.take(event));
    drop(watching);
    let Raced { experiment, ranking, interrupted } = raced?;
    let standing = if interrupted { Standing::Interrupted } else { Standing::Ended };
    if !output.json {
        crate::race::report(Shown { experiment: &experiment, ranking: &ranking, standing, is_latest: true }, Detail::Short, output);
    }
    Ok(if interrupted { ExitCode::from(EXIT_INTERRUPTED) } else { by_winner(&ranking) })
}

/// There is one, or there is none.
pub fn by_winner(ranking: &Ranking) -> ExitCode {
    if ranking.winner.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whoever watches a race.
pub struct Watching<'a> {
    output: &'a Output,
    board: Board,
    live: Option<Live>,
    signals: std::os::fd::OwnedFd,
    project: PathBuf,
    is_stopping: bool,
}

impl<'a> Watching<'a> {
    pub fn start(experiment: &Experiment, output: &'a Output) -> Result<Self, EngineError> {
        let numbers = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
        let signals =
            whatif_sys::signals::as_descriptor(&numbers).map_err(|source| EngineError::io("watch for", "signals", source))?;
        Ok(Self {
            output,
            board: Board::new(experiment),
            live: Live::start(output),
            signals,
            project: experiment.project.clone(),
            is_stopping: false,
        })
    }

    /// A report that is written into the project is a change of reality, but nobody's surprise.
    fn is_our_own_doing(&self, event: &Event) -> bool {
        let Event::RealityMoved { paths } = event else { return false };
        let ours = [rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr())];
        let is_ours = |path: &Text| {
            let at = rustix::fs::stat(self.project.join(path.to_path()));
            at.is_ok_and(|at| ours.iter().flatten().any(|our| (our.st_dev, our.st_ino) == (at.st_dev, at.st_ino)))
        };
        paths.iter().all(is_ours)
    }

    pub fn take(&mut self, event: Option<&Event>) -> Flow {
        let event = event.filter(|event| !self.is_our_own_doing(event));
        if let Some(event) = event {
            self.board.take(event, Instant::now());
            if self.output.json {
                tell_program(event, self.output);
            } else if self.live.is_none() {
                crate::race::told(event, self.output);
            }
        }
        if let Some(live) = &mut self.live {
            live.draw(&self.board);
        }
        let is_wanted = !whatif_sys::signals::take(&self.signals).is_empty();
        if is_wanted && self.is_stopping {
            // Whoever asks twice does not want to wait. What runs notices, and the next command clears it away.
            self.live = None;
            std::process::exit(EXIT_INTERRUPTED.into());
        }
        if is_wanted {
            self.is_stopping = true;
            if let Some(live) = &mut self.live {
                live.clear();
            }
            self.output.note(format!("{} stopping; what has ended is kept", self.output.paint_note(Style::Yellow, "whatif:")));
        }
        if self.is_stopping { Flow::Stop } else { Flow::GoOn }
    }
}

/// One line for an event.
pub fn tell_program(event: &Event, output: &Output) {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    value["at_ms"] = serde_json::json!(now);
    output.document(&value);
}
