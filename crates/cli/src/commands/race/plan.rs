//! From the command line to what is raced.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use whatif_engine::races::attempts::{Patch, Wanted};
use whatif_engine::races::{ExperimentPlan, NewRace, PlanError, RaceError, RaceName, metric};
use whatif_engine::{Engine, NewSandbox};
use whatif_sys::absence;
use whatif_types::experiment::CheckPlan;
use whatif_types::text::Text;
use whatif_types::{Explain, Span};

use super::file::{ExperimentFile, FromFile, Trust, cannot_read, read_patch};
use crate::commands::sandbox_options::SandboxOptions;
use crate::failure::Failure;
use crate::spelled;

const SUBCOMMANDS: [&str; 9] = ["ls", "show", "diff", "apply", "merge", "resume", "rerun", "rm", "help"];
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Attempts: one command each, for the shell
    #[arg(value_name = "CMD")]
    scripts: Vec<String>,
    /// An attempt with a name
    #[arg(long, value_name = "NAME=CMD")]
    attempt: Vec<String>,
    /// An attempt that applies a patch
    #[arg(long, value_name = "[NAME=]FILE")]
    patch: Vec<String>,
    /// An attempt that reverts a commit, without committing
    #[arg(long, value_name = "[NAME=]COMMIT")]
    revert: Vec<String>,
    /// An attempt that gives this prompt to the command after --, for {prompt} or as its last argument
    #[arg(long, value_name = "[NAME=]TEXT")]
    prompt: Vec<String>,
    /// One attempt for each value: {NAME} in the command after -- is replaced
    #[arg(long, value_name = "NAME=A,B,C")]
    matrix: Vec<String>,
    /// Number of attempts to run of the command after --
    #[arg(long, value_name = "NUMBER")]
    count: Option<u32>,
    /// A command that every attempt must pass
    #[arg(long, value_name = "[NAME=]CMD")]
    check: Vec<String>,
    /// A command that improves an attempt's rank if it passes
    #[arg(long, value_name = "[NAME=]CMD")]
    optional_check: Vec<String>,
    /// A number to read from the output of the checks, by a regular expression or a path in JSON ($.a.path)
    #[arg(long, value_name = "NAME[:higher]=REGEX|$.PATH")]
    metric: Vec<String>,
    /// Weight of a metric in the ranking; also for duration, cpu, memory, lines, files, bytes and tests
    #[arg(long, value_name = "METRIC=NUMBER")]
    weight: Vec<String>,
    /// Number of times to run the checks of each attempt
    #[arg(long, value_name = "NUMBER")]
    repeats: Option<u32>,
    /// Run this once at first; all attempts start from the result
    #[arg(long, value_name = "CMD")]
    setup: Option<String>,
    /// Let this command choose among equally ranked attempts: it reads JSON and prints a name
    #[arg(long, value_name = "CMD")]
    judge: Option<String>,
    /// Disqualify attempts that change a path that matches
    #[arg(long, value_name = "GLOB")]
    protect: Vec<String>,
    /// Number of attempts to run at the same time; by default the number of processors
    #[arg(long, short = 'j', value_name = "NUMBER")]
    jobs: Option<u32>,
    /// Cancel what has not finished after this time (10m)
    #[arg(long, value_name = "TIME")]
    budget: Option<Span>,
    /// Stop as soon as one attempt passes
    #[arg(long)]
    first_success: bool,
    /// Skip the remaining checks of an attempt that failed a required one
    #[arg(long)]
    cancel_losers: bool,
    /// Read the race from this file
    #[arg(long, short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// A command that is an attempt, or what --matrix, --prompt and --count repeat
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

impl Options {
    /// Everything that was asked for.
    pub fn resolve(self, engine: &Engine) -> Result<NewRace, Failure> {
        if let Some(word) = self.scripts.iter().find(|script| SUBCOMMANDS.contains(&script.as_str())) {
            let message = format!("'{word}' after an option would be an attempt");
            let hint = format!("put the options after it: whatif race {word} …; to race such a command: --attempt NAME={word}");
            return Err(Failure::usage("missing_argument", message, hint));
        }
        let says_net = !self.sandbox.network.net.is_empty();
        let (mut plan, from_file) = match self.find_file(engine)? {
            Some(file) => file.read(engine, says_net)?,
            None => (ExperimentPlan { repeats: 1, ..ExperimentPlan::default() }, FromFile::default()),
        };
        self.add_to(&mut plan, engine)?;
        let given = self.sandbox.name.clone();
        let name = match (given, from_file.name) {
            (Some(name), _) => RaceName::Exactly(name),
            (None, Some(name)) => RaceName::LikeThis(name),
            (None, None) => RaceName::Generated,
        };
        let mut new = self.sandbox.into_new(engine)?;
        new.limits = new.limits.or(from_file.limits);
        new.cwd = new.cwd.or(from_file.cwd);
        if new.net.is_empty() {
            new.net = from_file.net;
        }
        Ok(NewRace { name, plan, sandbox: NewSandbox { name: None, ..new } })
    }

    fn names_attempts(&self) -> bool {
        !(self.scripts.is_empty()
            && self.attempt.is_empty()
            && self.patch.is_empty()
            && self.revert.is_empty()
            && self.prompt.is_empty()
            && self.matrix.is_empty()
            && self.count.is_none()
            && self.command.is_empty())
    }

    /// One that is named, or one that is there if no attempt is.
    fn find_file(&self, engine: &Engine) -> Result<Option<ExperimentFile>, Failure> {
        if let Some(path) = &self.file {
            return Ok(Some(ExperimentFile { path: path.clone(), trust: Trust::Named }));
        }
        if self.names_attempts() {
            return Ok(None);
        }
        let found = ExperimentFile::find(engine.caller())?;
        Ok(Some(found.ok_or(RaceError::Plan(PlanError::Nothing))?))
    }

    /// What the command line says goes on top of what the file says.
    fn add_to(&self, plan: &mut ExperimentPlan, engine: &Engine) -> Result<(), Failure> {
        if self.names_attempts() {
            plan.attempts.extend(self.wanted(&engine.caller().cwd)?.into_attempts().map_err(refused)?);
        }
        for (texts, required) in [(&self.check, true), (&self.optional_check, false)] {
            for text in texts {
                let (name, run) = named(text);
                let name = name.unwrap_or_else(|| run.clone());
                plan.checks.push(CheckPlan { name, run, required, timeout: None, report: None });
            }
        }
        for text in &self.metric {
            plan.metrics.push(metric::parse(text).map_err(refused)?);
        }
        for text in &self.weight {
            let wrong = || {
                Failure::usage(
                    "invalid_value",
                    format!("'{}' is no weight", text.escape_debug()),
                    "write it as --weight duration=2",
                )
            };
            let (name, number) = text.split_once('=').ok_or_else(wrong)?;
            plan.weights.insert(name.to_owned(), number.trim().parse().map_err(|_| wrong())?);
        }
        plan.repeats = self.repeats.unwrap_or(plan.repeats);
        plan.jobs = self.jobs.or(plan.jobs);
        plan.budget = self.budget.or(plan.budget);
        plan.setup = self.setup.clone().or(plan.setup.take());
        plan.judge = self.judge.clone().or(plan.judge.take());
        plan.protect.extend(self.protect.iter().cloned());
        plan.first_success |= self.first_success;
        plan.cancel_losers |= self.cancel_losers;
        Ok(())
    }

    fn wanted(&self, cwd: &Path) -> Result<Wanted, Failure> {
        let needs_name = |text: &String| {
            let wrong = || {
                Failure::usage(
                    "invalid_value",
                    format!("'{}' has no name", text.escape_debug()),
                    "write it as --attempt NAME=COMMAND",
                )
            };
            let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
            Ok::<_, Failure>((name.to_owned(), rest.to_owned()))
        };
        let values = |text: &String| {
            let wrong = || {
                Failure::usage(
                    "invalid_value",
                    format!("'{}' is no matrix", text.escape_debug()),
                    "write it as --matrix VERSION=1.0,2.0",
                )
            };
            let (name, values) = text.split_once('=').ok_or_else(wrong)?;
            Ok::<_, Failure>((name.to_owned(), values.split(',').map(str::to_owned).collect::<Vec<_>>()))
        };
        let patch = |text: &String| {
            // What cannot be looked at is not split: reading it says why.
            let is_file = absence::is_file(&cwd.join(text)).unwrap_or(true);
            let (name, path) = if is_file { (None, text.clone()) } else { named(text) };
            let content = read_patch(&cwd.join(&path)).map_err(|why| cannot_read(&path, &why))?;
            Ok::<_, Failure>(Patch { name, path, content })
        };
        Ok(Wanted {
            scripts: self.scripts.clone(),
            named: self.attempt.iter().map(needs_name).collect::<Result<_, _>>()?,
            patches: self.patch.iter().map(patch).collect::<Result<_, _>>()?,
            reverts: self.revert.iter().map(|text| named(text)).collect(),
            prompts: self.prompt.iter().map(|text| named(text)).collect(),
            matrix: self.matrix.iter().map(values).collect::<Result<_, _>>()?,
            count: self.count,
            command: self.command.iter().map(Text::from).collect(),
        })
    }
}

/// `NAME=rest`, if what is before the first `=` can be a name. In capitals it is a variable of the command.
fn named(text: &str) -> (Option<String>, String) {
    let is_variable = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let is_name = |name: &str| whatif_types::name::validate(name).is_ok();
    match text.split_once('=') {
        Some((name, rest)) if is_name(name) && (!is_variable(name) || name.chars().all(|c| c.is_ascii_digit())) => {
            (Some(name.to_owned()), rest.to_owned())
        }
        _ => (None, text.to_owned()),
    }
}

fn refused(error: impl Explain) -> Failure {
    let message = error.wording().map_or_else(|| error.to_string(), |wording| spelled::sentence(&wording));
    let remedy = error.remedies().into_iter().next().unwrap_or_else(|| "see: whatif race --help".into());
    Failure::usage("missing_argument", message, remedy)
}
