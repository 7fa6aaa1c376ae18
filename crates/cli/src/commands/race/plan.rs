//! From the command line, or from `experiment.toml`, to what is raced.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use whatif_engine::race::attempts::{Patch, Wanted};
use whatif_engine::race::file::File;
use whatif_engine::race::{ExperimentPlan, NewRace, RaceError, RaceName, metric};
use whatif_engine::{Engine, EngineError, NewSandbox};
use whatif_types::experiment::{CheckPlan, Kind};
use whatif_types::network::NetChoice;
use whatif_types::text::Text;
use whatif_types::{Explain, Limits, Span};

use crate::commands::sandbox_options::SandboxOptions;

const SUBCOMMANDS: [&str; 9] = ["ls", "show", "diff", "apply", "merge", "resume", "rerun", "rm", "help"];
/// Used when no attempt is named on the command line.
const FILE: &str = "experiment.toml";
const LARGEST_FILE: u64 = 1 << 20;
/// Patches are read as a whole.
const LARGEST_PATCH: u64 = 8 << 20;

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
    /// An attempt that takes a commit back, without committing
    #[arg(long, value_name = "[NAME=]COMMIT")]
    revert: Vec<String>,
    /// An attempt that gives this prompt to the command after --, for {prompt} or as its last argument
    #[arg(long, value_name = "[NAME=]TEXT")]
    prompt: Vec<String>,
    /// One attempt for each value: {NAME} in the command after -- is replaced
    #[arg(long, value_name = "NAME=A,B,C")]
    matrix: Vec<String>,
    /// So many attempts of the command after --
    #[arg(long, value_name = "NUMBER")]
    count: Option<u32>,
    /// A command that every attempt must pass
    #[arg(long, value_name = "[NAME=]CMD")]
    check: Vec<String>,
    /// A command that it is better to pass
    #[arg(long, value_name = "[NAME=]CMD")]
    optional_check: Vec<String>,
    /// A number in what the checks print: a regular expression, or $.a.path in JSON
    #[arg(long, value_name = "NAME[:higher]=REGEX|$.PATH")]
    metric: Vec<String>,
    /// How much a metric counts; duration, cpu, memory, lines, files, bytes and tests can be weighed too
    #[arg(long, value_name = "METRIC=NUMBER")]
    weight: Vec<String>,
    /// Run the checks of each attempt so often
    #[arg(long, value_name = "NUMBER")]
    repeats: Option<u32>,
    /// Run this first, once; all attempts begin where it ends
    #[arg(long, value_name = "CMD")]
    setup: Option<String>,
    /// Ask this command about attempts that are level: it reads JSON and prints a name
    #[arg(long, value_name = "CMD")]
    judge: Option<String>,
    /// An attempt that changes such a path cannot win
    #[arg(long, value_name = "GLOB")]
    protect: Vec<String>,
    /// So many attempts at a time; by default as many as there are processors
    #[arg(long, short = 'j', value_name = "NUMBER")]
    jobs: Option<u32>,
    /// Time for all of it (10m); what has not ended then is cancelled
    #[arg(long, value_name = "TIME")]
    budget: Option<Span>,
    /// End as soon as one passes
    #[arg(long)]
    first_success: bool,
    /// Do not go on with the checks of an attempt that failed a required one
    #[arg(long)]
    cancel_losers: bool,
    /// Read it from here
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
    pub fn resolve(self, engine: &Engine) -> Result<NewRace, EngineError> {
        if let Some(word) = self.scripts.iter().find(|script| SUBCOMMANDS.contains(&script.as_str())) {
            let message = format!("'{word}' after an option would be an attempt");
            let hint = format!("put the options after it: whatif race {word} …; to race such a command: --attempt NAME={word}");
            return Err(RaceError::usage(message, hint).into());
        }
        let file = self.find_file(engine)?;
        let mut plan = ExperimentPlan { repeats: 1, ..ExperimentPlan::default() };
        let mut from_file = FromFile::default();
        if let Some(path) = &file {
            let read = read_file(path)?;
            from_file = FromFile::of(&read, path, engine)?;
            if !self.sandbox.network.net.is_empty() {
                from_file.net.clear();
            }
            if self.file.is_none() {
                from_file.trust_little(path, engine)?;
            }
            plan = if self.file.is_some() { plan_of(read, path)? } else { plan_read_inside(read, path)? };
        }
        self.add_to(&mut plan, engine, file.is_some())?;
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

    fn find_file(&self, engine: &Engine) -> Result<Option<PathBuf>, EngineError> {
        if self.file.is_some() || self.names_attempts() {
            return Ok(self.file.clone());
        }
        let cwd = &engine.context.cwd;
        let found = [cwd.join(FILE), engine.context.project_of(cwd).join(FILE)].into_iter().find(|path| path.is_file());
        Ok(Some(found.ok_or_else(|| {
            RaceError::usage(
                "there is nothing to race",
                "name some attempts: whatif race 'COMMAND' 'COMMAND' --check 'COMMAND', or write an experiment.toml",
            )
        })?))
    }

    /// What the command line says goes on top of what the file says.
    fn add_to(&self, plan: &mut ExperimentPlan, engine: &Engine, has_file: bool) -> Result<(), EngineError> {
        if self.names_attempts() || !has_file {
            plan.attempts.extend(self.wanted(&engine.context.cwd)?.into_attempts().map_err(refused)?);
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
            let wrong = || RaceError::usage(format!("'{}' is no weight", text.escape_debug()), "write it as --weight duration=2");
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

    fn wanted(&self, cwd: &Path) -> Result<Wanted, EngineError> {
        let needs_name = |text: &String| {
            let wrong = || RaceError::usage(format!("'{}' has no name", text.escape_debug()), "write it as --attempt NAME=COMMAND");
            let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
            Ok::<_, EngineError>((name.to_owned(), rest.to_owned()))
        };
        let values = |text: &String| {
            let wrong =
                || RaceError::usage(format!("'{}' is no matrix", text.escape_debug()), "write it as --matrix VERSION=1.0,2.0");
            let (name, values) = text.split_once('=').ok_or_else(wrong)?;
            Ok::<_, EngineError>((name.to_owned(), values.split(',').map(str::to_owned).collect::<Vec<_>>()))
        };
        let patch = |text: &String| {
            let (name, path) = if cwd.join(text).is_file() { (None, text.clone()) } else { named(text) };
            let content = read_patch(&cwd.join(&path)).map_err(|why| cannot_read(&path, &why))?;
            Ok::<_, EngineError>(Patch { name, path, content })
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

/// What a file says besides the plan.
#[derive(Default)]
struct FromFile {
    name: Option<String>,
    net: Vec<NetChoice>,
    limits: Limits,
    /// The same file means the same wherever one stands.
    cwd: Option<PathBuf>,
}

impl FromFile {
    fn of(file: &File, path: &Path, engine: &Engine) -> Result<Self, EngineError> {
        let mut limits = file.limits.clone();
        limits.timeout = limits.timeout.or(file.timeout);
        let net = file.net.iter().map(|choice| parse_net(choice)).collect::<Result<_, _>>()?;
        let place = std::fs::canonicalize(path).ok().and_then(|path| path.parent().map(Path::to_owned));
        let project = engine.context.project_of(&engine.context.cwd);
        Ok(Self { name: file.name.clone(), net, limits, cwd: place.filter(|place| place.starts_with(&project)) })
    }

    /// A file that nobody named may have been written by whatever ran in the project: it can only take away.
    fn trust_little(&mut self, path: &Path, engine: &Engine) -> Result<(), EngineError> {
        let usual = engine.context.config.network.mode.clone().unwrap_or(NetChoice::Registries);
        if let Some(more) = self.net.iter().find(|choice| **choice != NetChoice::None && **choice != usual) {
            let message = format!("{} wants the network '{more}', and nobody said that it may", path.display());
            return Err(RaceError::usage(
                message,
                format!("if that is meant: --net {more}, or name the file: -f {}", path.display()),
            )
            .into());
        }
        self.limits = std::mem::take(&mut self.limits).at_most(&engine.context.config.limits);
        Ok(())
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

fn read_file(path: &Path) -> Result<File, EngineError> {
    let wrong = |why: &str| cannot_read(&path.display().to_string(), why);
    let bytes = read_at_most(path, LARGEST_FILE).map_err(|why| wrong(&why))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not text"))?;
    File::parse(&text).map_err(|error| in_file(path, error))
}

fn plan_of(file: File, path: &Path) -> Result<ExperimentPlan, EngineError> {
    let beside = path.parent().unwrap_or(Path::new("."));
    file.into_plan(&mut |name| read_patch(&beside.join(name))).map_err(|error| in_file(path, error))
}

/// A file that nobody named must not have anything read for it that its attempts could not read themselves.
fn plan_read_inside(file: File, path: &Path) -> Result<ExperimentPlan, EngineError> {
    let mut named = Vec::new();
    let mut plan = file
        .into_plan(&mut |name| {
            named.push(name.to_owned());
            Ok(Text::Plain("read inside".to_owned()))
        })
        .map_err(|error| in_file(path, error))?;
    let patches = plan.attempts.iter_mut().filter(|attempt| attempt.kind == Kind::Patch);
    for (attempt, name) in patches.zip(named) {
        let script = std::mem::take(&mut attempt.arguments);
        let around = ["/bin/sh", "-c", "exec \"$@\" < \"$0\""].map(Text::from);
        attempt.arguments = around.into_iter().chain([Text::from(&name)]).chain(script).collect();
        attempt.input = None;
    }
    Ok(plan)
}

fn read_patch(path: &Path) -> Result<Text, String> {
    let bytes = read_at_most(path, LARGEST_PATCH)?;
    Ok(String::from_utf8(bytes).map_or_else(|error| Text::Bytes(error.into_bytes()), Text::Plain))
}

fn read_at_most(path: &Path, longest: u64) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait for somebody at its other end.
    if !std::fs::metadata(path).map_err(|error| plain(&error))?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let read = || {
        let file = std::fs::File::open(path)?;
        let mut bytes = Vec::new();
        file.take(longest + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error: std::io::Error| plain(&error))?;
    if bytes.len() as u64 > longest { Err(format!("it is larger than {} MiB", longest >> 20)) } else { Ok(bytes) }
}

/// Without the number of the system's error.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

fn parse_net(choice: &str) -> Result<NetChoice, EngineError> {
    Ok(choice.parse().map_err(|why: String| RaceError::usage(why, "as with --net: none, registries, local, host, allow=RULE"))?)
}

fn cannot_read(path: &str, why: &str) -> EngineError {
    RaceError::usage(format!("cannot read '{}': {why}", path.escape_debug()), "name a file that is there").into()
}

fn in_file(path: &Path, error: impl Explain) -> EngineError {
    let hint = error.hints().into_iter().next().unwrap_or_else(|| "see 'experiment.toml' in docs/race.md".to_owned());
    RaceError::usage(format!("{}: {error}", path.display()), hint).into()
}

fn refused(error: impl Explain) -> EngineError {
    let hint = error.hints().into_iter().next().unwrap_or_else(|| "see: whatif race --help".to_owned());
    RaceError::usage(error.to_string(), hint).into()
}
