use std::path::PathBuf;

use whatif_engine::Engine;
use whatif_sys::absence;

use super::Which;
use crate::commands::{Outcome, diff};
use crate::output::Output;

/// Show what an attempt changed, or how two attempts differ
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    after_help = "Examples:\n  whatif race diff best          what the winner changed\n  whatif race diff fix rewrite   what makes the second of the first\n  whatif race diff fix src       only what is in src"
)]
#[command(mut_arg("subjects", |arg| arg.value_name("ATTEMPT").required(true).help("An attempt ('best' is the winner), or two; then paths")))]
pub struct Args {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    diff: diff::Args,
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    let experiment = args.which.find(engine)?;
    let sandbox = |word: &PathBuf| {
        let number = engine.races.find_attempt(&experiment, &word.to_string_lossy())?;
        engine.races.sandbox_to_show(&experiment, number).map(|sandbox| sandbox.name)
    };
    let words = args.diff.subjects();
    let Some(first) = words.first() else { return diff::execute(engine, &args.diff, output) };
    let one = sandbox(first)?;
    let is_attempt = |word: &PathBuf| engine.races.find_attempt(&experiment, &word.to_string_lossy()).is_ok();
    let number = engine.races.find_attempt(&experiment, &first.to_string_lossy())?;
    let outcome = experiment.records[number].outcome.as_ref();
    let is_changed = |word: &PathBuf| {
        outcome.is_some_and(|outcome| outcome.changes.list.iter().any(|file| file.path.to_path().starts_with(word)))
    };
    // What cannot be looked at is a path: something is there.
    let is_path = |word: &PathBuf| absence::leads_somewhere(&engine.caller().cwd.join(word)).unwrap_or(true) || is_changed(word);
    let (subject, paths) = match words.get(1) {
        // What is neither is a misspelt attempt.
        Some(second) if is_attempt(second) || !is_path(second) => (format!("{one}..{}", sandbox(second)?), &words[2..]),
        _ => (one, &words[1..]),
    };
    let subjects = [PathBuf::from(subject)].into_iter().chain(paths.iter().cloned()).collect();
    diff::execute(engine, &args.diff.about(subjects), output)
}
