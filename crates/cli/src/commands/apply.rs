use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use whatif_engine::apply::{ApplyRequest, HunkChoice, Prepared, Reason};
use whatif_engine::commit::CommitOptions;
use whatif_engine::error::signal_name;
use whatif_engine::{Engine, EngineError};
use whatif_types::Explain;

use super::Outcome;
use crate::apply_report::{
    applied_document, nothing_document, plan_document, refuse_conflicts, report, say_left_out, say_uncommitted, show_plan,
};
use crate::interrupt::{self, Interrupts};
use crate::output::{Output, Style, counted, done, printable, visible_path};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  whatif apply                          look at a summary, then decide\n  whatif apply v --files 'src/*' --yes  only these\n  whatif apply v --hunks main.rs:1,3    only these hunks\n  whatif apply v --dry-run              only the plan"
)]
pub struct Args {
    /// The sandbox; by default the latest of this project
    name: Option<String>,
    /// Take only paths that fit; what is named counts as approved
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    files: Vec<String>,
    /// Leave out paths that fit
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    exclude: Vec<String>,
    /// Take only these hunks of a file, as `whatif diff` numbers them on a terminal, or with --json --patch
    #[arg(long, value_name = "FILE:N,M", value_parser = parse_hunks)]
    hunks: Vec<HunkChoice>,
    /// Take everything in the project, ignored and risky changes too
    #[arg(long)]
    all: bool,
    /// Take what needs its own approval too
    #[arg(long)]
    risky: bool,
    /// Take changes outside the project too
    #[arg(long)]
    outside: bool,
    /// Take ignored build output too
    #[arg(long)]
    ignored: bool,
    /// In a conflict, keep reality's version of paths that fit
    #[arg(long, value_name = "GLOB")]
    ours: Vec<String>,
    /// In a conflict, take the sandbox's version of paths that fit
    #[arg(long, value_name = "GLOB")]
    theirs: Vec<String>,
    /// Leave paths that fit for later
    #[arg(long, value_name = "GLOB")]
    skip: Vec<String>,
    /// Refuse unless the change set still is the one with this digest
    #[arg(long)]
    digest: Option<String>,
    /// Do not ask
    #[arg(long, short = 'y')]
    yes: bool,
    /// Only print what would happen
    #[arg(long)]
    dry_run: bool,
    /// Do not run the configured checks
    #[arg(long)]
    no_checks: bool,
    /// Commit what was applied to git
    #[arg(long)]
    commit: bool,
    /// The commit's message; {sandbox}, {command}, {files} and {summary} are replaced
    #[arg(long, short = 'm', value_name = "TEMPLATE", requires = "commit")]
    message: Option<String>,
    /// Run git's commit hooks
    #[arg(long, requires = "commit")]
    hooks: bool,
}

fn parse_hunks(text: &str) -> Result<HunkChoice, String> {
    let wrong = || "expected FILE:N,M with the numbers of hunks".to_owned();
    let (path, numbers) = text.rsplit_once(':').ok_or_else(wrong)?;
    let numbers = numbers.split(',').map(|n| n.trim().parse().map_err(|_| wrong())).collect::<Result<Vec<usize>, _>>()?;
    Ok(HunkChoice { path: path.to_owned(), numbers })
}

impl Args {
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn takes_ignored(&self) -> bool {
        self.ignored || self.all
    }

    /// The same of another sandbox.
    pub fn of(self, sandbox: String) -> Self {
        Self { name: Some(sandbox), ..self }
    }

    /// A name that follows the patterns of an option is one more pattern.
    fn explain_swallowed_name(&self, engine: &Engine, error: EngineError) -> EngineError {
        let EngineError::Usage { message, .. } = &error else { return error };
        let last = [("--files", self.files.last()), ("--exclude", self.exclude.last())];
        // Where the records cannot be read, the error at hand is still true.
        let is_sandbox = |pattern: &String| self.name.is_none() && engine.is_sandbox(pattern).unwrap_or(false);
        match last.into_iter().find_map(|(option, pattern)| Some((option, pattern.filter(|p| is_sandbox(p))?))) {
            Some((option, name)) => {
                let hint = format!("'{name}' is a sandbox: write it before {option}, as in 'whatif apply {name} {option} GLOB'");
                EngineError::Usage { message: message.clone(), hint }
            }
            None => error,
        }
    }

    fn request(&self) -> ApplyRequest {
        ApplyRequest {
            name: self.name.clone(),
            files: self.files.clone(),
            exclude: self.exclude.clone(),
            hunks: self.hunks.clone(),
            all: self.all,
            risky: self.risky,
            outside: self.outside,
            ignored: self.ignored,
            ours: self.ours.clone(),
            theirs: self.theirs.clone(),
            skip: self.skip.clone(),
            digest: self.digest.clone(),
        }
    }
}

/// An apply that was approved beforehand is planned again if reality moves between its plan and its first step.
const ATTEMPTS: usize = 3;

/// How it ended.
pub enum Ending {
    Applied {
        /// All but what is never taken by itself: ignored files, and what lies outside the project.
        is_whole: bool,
        /// The signal that came too late to stop it.
        interrupted: Option<i32>,
    },
    /// There was nothing to apply, or nothing was to be.
    Nothing,
    Refused(ExitCode),
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    Ok(match perform(engine, args, output)? {
        Ending::Applied { interrupted, .. } => after(interrupted),
        Ending::Nothing => ExitCode::SUCCESS,
        Ending::Refused(code) => code,
    })
}

/// Who interrupts a command learns from its exit code that it was, also when it came to its end.
pub fn after(interrupted: Option<i32>) -> ExitCode {
    interrupted.map_or(ExitCode::SUCCESS, |signal| ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)))
}

pub fn perform(engine: &Engine, args: &Args, output: &Output) -> Result<Ending, EngineError> {
    let mut attempt = 1;
    loop {
        match once(engine, args, output) {
            Err(EngineError::Apply(error)) if args.yes && attempt < ATTEMPTS && has_moved(&error) => attempt += 1,
            other => return other,
        }
    }
}

/// Whether the plan failed because reality is not what it was planned for, as far as that can be told from the outside.
fn has_moved(error: &dyn Explain) -> bool {
    matches!(error.code(), "changed_meanwhile" | "cannot_apply")
}

fn once(engine: &Engine, args: &Args, output: &Output) -> Result<Ending, EngineError> {
    let mut request = args.request();
    let so_far = interrupt::nothing_changed_so_far(output);
    // Nobody is asked, so nothing has to come between the plan and the apply. Checks may take long, and others need not wait.
    let is_at_once = args.yes && !args.dry_run && (args.no_checks || !engine.has_checks(&request)?);
    let prepared = match is_at_once {
        true => Interrupts::default().during(output, |watch| engine.prepare_apply_in_turn(&request, watch)),
        false => engine.prepare_apply(&request),
    };
    let mut prepared = prepared.map_err(|error| args.explain_swallowed_name(engine, error))?;
    for note in prepared.notes() {
        output.note(format!("{} {}", output.paint_note(Style::Yellow, "whatif:"), printable(note)));
    }
    if !prepared.conflicts.is_empty() {
        return Ok(Ending::Refused(refuse_conflicts(prepared, output)));
    }
    if args.dry_run {
        if !prepared.is_empty() {
            engine.check_apply(&prepared)?;
        }
        let commits = match args.commit {
            true => Some(engine.check_commit(&engine.prepare_commit(prepared.project())?, &prepared)?),
            false => None,
        };
        show_plan(&prepared, output);
        if let Some(files) = commits {
            output.line(format!("to be committed: {}", counted(files as u64, "file")));
        }
        output.document(&plan_document(&prepared));
        return Ok(Ending::Nothing);
    }
    if prepared.is_empty() {
        output.line("nothing to apply");
        say_left_out(&prepared, output);
        output.document(&nothing_document(&prepared));
        return Ok(Ending::Nothing);
    }
    if !args.yes && !engine.is_auto_approved(&prepared)? {
        if output.json || !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Err(EngineError::Usage {
                message: "nobody can be asked here, and nothing was approved".to_owned(),
                hint: "look at it first (--dry-run shows the plan), then approve with --yes".to_owned(),
            });
        }
        match ask(engine, &mut request, prepared, output)? {
            Some(approved) => prepared = approved,
            None => {
                output.note("nothing was applied");
                return Ok(Ending::Refused(ExitCode::FAILURE));
            }
        }
    }
    let committer = if args.commit { Some(engine.prepare_commit(prepared.project())?) } else { None };
    if !args.no_checks {
        super::checks::run(engine, &prepared, output)?;
    }
    // From here on there is something to put back: the lock of git's index, and soon the files.
    let interrupts = Interrupts::watch();
    drop(so_far);
    let left_out = prepared.left_out_by_reason();
    let options = CommitOptions { message: args.message.clone(), hooks: args.hooks };
    let (applied, committed) = interrupts.during(output, |watch| match &committer {
        Some(committer) => {
            let (applied, committed) = engine.apply_and_commit(committer, prepared, &options, watch)?;
            Ok((applied, Some(committed)))
        }
        None => Ok((engine.apply(prepared, watch)?, None)),
    })?;
    let interrupted = interrupts.came();
    drop(interrupts);
    if let Some(id) = &applied.id {
        done(format!("applied as {id}"));
    }
    if let Some(committed) = &committed {
        say_uncommitted(committed, &applied.sandbox.project, output);
    }
    let commit = committed.and_then(|c| c.id);
    report(&applied, &left_out, commit.as_deref(), output);
    output.document(&applied_document(&applied, &left_out, commit.as_deref()));
    let is_whole = left_out.keys().all(|(reason, _)| matches!(reason, Reason::Ignored | Reason::Outside));
    if let Some(signal) = interrupted {
        output.note(format!("interrupted by {} too late to stop it: everything is applied", signal_name(signal)));
    }
    Ok(Ending::Applied { is_whole, interrupted })
}

/// A summary and a question; what needs its own approval is asked about on its own.
fn ask(
    engine: &Engine,
    request: &mut ApplyRequest,
    mut prepared: Prepared,
    output: &Output,
) -> Result<Option<Prepared>, EngineError> {
    show_plan(&prepared, output);
    prepared.let_go_on();
    let risky = prepared.left_out.iter().filter(|l| l.reason == Reason::Risky).count();
    if risky > 0 {
        let question = format!("Also take what needs its own approval ({})?", counted(risky as u64, "change"));
        if agreed(&question) {
            request.risky = true;
            drop(prepared);
            prepared = engine.prepare_apply(request)?;
            if !prepared.conflicts.is_empty() {
                refuse_conflicts(prepared, output);
                return Ok(None);
            }
            prepared.let_go_on();
        }
    }
    let question = format!("Apply {} to {}?", counted(prepared.steps.len() as u64, "change"), visible_path(prepared.project()));
    Ok(agreed(&question).then_some(prepared))
}

/// Only a clear yes is one.
pub fn agreed(question: &str) -> bool {
    let mut answer = String::new();
    let _ = write!(std::io::stderr(), "{question} [y/N] ");
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}
