use crate::exit::ExitCode;

use whatif_engine::races::{Merged, Part, RaceError};
use whatif_engine::{Engine, EngineError};

use super::show::is_latest;
use super::watch::{EXIT_INTERRUPTED, Watching};
use super::{Variables, Which};
use crate::apply_report::show_conflict;
use crate::commands::Outcome;
use crate::failure::Failure;
use crate::output::{Output, visible_path};
use crate::race::{self, Detail, Shown};

/// Combine parts of several attempts into one more attempt, and judge it like the others
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  whatif race merge fix rewrite --files 'fix=src/*' --files 'rewrite=docs/*'")]
pub struct Args {
    /// The attempts
    #[arg(required = true, num_args = 2.., value_name = "ATTEMPT")]
    attempts: Vec<String>,
    /// Take only these paths of an attempt; of one that is not mentioned, everything
    #[arg(long, value_name = "ATTEMPT=GLOB")]
    files: Vec<String>,
    /// Name of the new attempt
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    variables: Variables,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let experiment = args.which.find(engine)?;
    let parts = args.parts()?;
    let mut watching = Watching::start(&experiment, output)?;
    let (name, env) = (args.name.as_deref(), &args.variables.env);
    let merged = engine.races.merge_attempts(&experiment, &parts, name, env, &mut |event| watching.take(event));
    drop(watching);
    if let Err(EngineError::Race(RaceError::Clash { one, other, clashes })) = &merged {
        for clash in clashes {
            show_conflict(&visible_path(&clash.path.to_path()), clash.why, &clash.regions, [one, other], output);
        }
    }
    let Some(Merged { experiment, number }) = merged? else { return Ok(ExitCode::from(EXIT_INTERRUPTED)) };
    let ranking = engine.races.ranking(&experiment);
    if !output.json {
        let shown = Shown {
            experiment: &experiment,
            ranking: &ranking,
            standing: engine.races.standing(&experiment)?,
            is_latest: is_latest(engine, &experiment),
        };
        race::report(shown, Detail::Short, output);
    }
    let verdict = experiment.records[number].outcome.as_ref().map(|outcome| &outcome.verdict);
    let passes = verdict == Some(&whatif_types::experiment::Verdict::Passed);
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    fn parts(&self) -> Result<Vec<Part>, Failure> {
        let mut parts: Vec<Part> =
            self.attempts.iter().map(|attempt| Part { attempt: attempt.clone(), files: Vec::new() }).collect();
        for text in &self.files {
            let wrong =
                |hint: String| Failure::usage("invalid_value", format!("'{}' does not say whose", text.escape_debug()), hint);
            let (attempt, pattern) = text.split_once('=').ok_or_else(|| wrong("write it as --files 'ATTEMPT=GLOB'".to_owned()))?;
            let part = parts.iter_mut().find(|part| part.attempt == attempt);
            let part = part.ok_or_else(|| wrong(format!("the attempts of this merge are {}", self.attempts.join(", "))))?;
            part.files.push(pattern.to_owned());
        }
        Ok(parts)
    }
}
