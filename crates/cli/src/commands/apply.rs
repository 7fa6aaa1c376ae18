use crate::exit::ExitCode;
use std::path::Path;
use std::time::Duration;

use whatif_engine::changes::apply::{
    ApplyRequest, ByReason, HunkChoice, Prepared, Reason, applied_document, nothing_document, plan_document,
};
use whatif_engine::changes::commit::CommitOptions;
use whatif_engine::changes::gate::{ApplyWish, Made, MadeReal, Planned};
use whatif_engine::changes::signal_name;
use whatif_engine::{Engine, EngineError};
use whatif_types::Selector;

use super::once::Verb;
use super::{Outcome, meant};
use crate::apply_report::{refuse_conflicts, report, say_left_out, say_not_in_packages, say_uncommitted, show_plan};
use crate::changes;
use crate::exit;
use crate::failure::Failure;
use crate::interrupt::Following;
use crate::output::{Output, counted, done};
use crate::person::Person;

#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    after_help = "Examples:\n  whatif apply                          look at a summary, then decide\n  whatif apply v --files 'src/*' --yes  only these\n  whatif apply v --hunks main.rs:1,3    only these hunks\n  whatif apply v --dry-run              only the plan"
)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id; by default the latest of this project
    name: Option<String>,
    /// Apply only paths that match; a path that is named exactly counts as approved
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    files: Vec<String>,
    /// Leave out paths that match
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    exclude: Vec<String>,
    /// Apply only these hunks of a file, numbered as in `whatif diff FILE` and `whatif diff --patch`
    #[arg(long, value_name = "FILE:N,M", value_parser = parse_hunks)]
    hunks: Vec<HunkChoice>,
    /// Apply only the files of these packages, wherever they are: a package's name, or apt, pip, npm or cargo for all of its packages
    #[arg(long, value_name = "NAME", num_args = 1..)]
    package: Vec<String>,
    /// Apply everything in the project, including ignored and risky changes
    #[arg(long)]
    all: bool,
    /// Include changes that need review because tools on your machine would execute them
    #[arg(long)]
    risky: bool,
    /// Include changes outside the project
    #[arg(long)]
    outside: bool,
    /// Include ignored files, such as build output
    #[arg(long)]
    ignored: bool,
    /// On a conflict, keep reality's version of paths that match
    #[arg(long, value_name = "GLOB")]
    ours: Vec<String>,
    /// On a conflict, take the sandbox's version of paths that match
    #[arg(long, value_name = "GLOB")]
    theirs: Vec<String>,
    /// Leave paths that match for a later apply
    #[arg(long, value_name = "GLOB")]
    skip: Vec<String>,
    /// Fail unless the change set has this digest
    #[arg(long)]
    digest: Option<String>,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    yes: bool,
    /// Print the plan and change nothing
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
    /// Do this once: the same command with this key gives the same answer for a day, without doing it again
    #[arg(long, value_name = "KEY", value_parser = super::once::key)]
    idempotency_key: Option<String>,
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

    /// What was accepted in a review, which asks once more.
    pub fn accepted(name: String, outside: bool) -> Self {
        Self { name: Some(name), outside, ..Self::default() }
    }

    pub fn takes_ignored(&self) -> bool {
        self.ignored || self.all
    }

    /// The same of another sandbox.
    pub fn of(self, sandbox: String) -> Self {
        Self { name: Some(sandbox), ..self }
    }

    /// A name that follows the patterns of an option is one more pattern, and another sandbox would be applied.
    fn refuse_swallowed_name(&self, engine: &Engine) -> Result<(), Failure> {
        if self.name.is_some() {
            return Ok(());
        }
        for (option, pattern) in
            [("--files", self.files.last()), ("--exclude", self.exclude.last()), ("--package", self.package.last())]
        {
            if let Some(name) = pattern
                && engine.changes.is_sandbox(name)?
            {
                let hint = format!(
                    "write the sandbox before {option}, as in 'whatif apply {name} {option} GLOB'; for the path say '{option} ./{name}'"
                );
                return Err(Failure::usage(
                    "ambiguous_command_line",
                    format!("which sandbox is meant? '{name}' after {option} is the name of one"),
                    hint,
                ));
            }
        }
        Ok(())
    }

    fn wish(&self, engine: &Engine) -> Result<ApplyWish, EngineError> {
        let commit = self.commit.then(|| CommitOptions { message: self.message.clone(), hooks: self.hooks });
        let request = self.request(meant(engine, self.name())?);
        Ok(ApplyWish { request, is_approved: self.yes, is_checked: !self.no_checks, commit })
    }

    fn request(&self, sandbox: Selector) -> ApplyRequest {
        ApplyRequest {
            sandbox,
            files: self.files.clone(),
            exclude: self.exclude.clone(),
            hunks: self.hunks.clone(),
            packages: self.package.clone(),
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

/// What was refused may be tried again.
const APPLY: Verb = Verb { name: "apply", within: Duration::from_secs(3600), settles: |code| code == ExitCode::SUCCESS };

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let asked = Args { idempotency_key: None, ..args.clone() };
    super::once::once(engine, args.idempotency_key.as_deref(), APPLY, &asked, output, || apply(engine, args, output))
}

fn apply(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    Ok(match perform(engine, args, output)? {
        Ending::Applied { interrupted, .. } => after(interrupted),
        Ending::Nothing => ExitCode::SUCCESS,
        Ending::Refused(code) => code,
    })
}

/// Who interrupts a command learns from its exit code that it was, also when it came to its end.
pub fn after(interrupted: Option<i32>) -> ExitCode {
    interrupted.map_or(ExitCode::SUCCESS, |signal| ExitCode::from(exit::of_signal(signal)))
}

pub fn perform(engine: &Engine, args: &Args, output: &Output) -> Result<Ending, Failure> {
    args.refuse_swallowed_name(engine)?;
    let wish = args.wish(engine)?;
    let mut following = Following::new(output);
    if args.dry_run {
        let planned = engine.changes.plan_apply(&wish)?;
        return Ok(tell_plan(planned, args, output));
    }
    let made = engine.changes.make_real(&wish, &mut Person::new(output), &mut following);
    let made = following.explained(made)?;
    let interrupted = following.ended();
    let made = match made {
        Made::Applied(made) => made,
        Made::Conflicts(prepared) => return Ok(Ending::Refused(refuse_conflicts(*prepared, output))),
        Made::Nothing(prepared) => {
            let why = why_nothing(engine, args, &prepared)?;
            output.line(format!("nothing to apply from {}{why}", prepared.sandbox.name));
            say_left_out(&prepared, output);
            say_beyond_packages(args, &prepared.left_out_by_reason(), prepared.project(), output);
            output.document(&nothing_document(&prepared));
            return Ok(Ending::Nothing);
        }
        Made::Declined => {
            output.note("nothing was applied");
            return Ok(Ending::Refused(ExitCode::FAILURE));
        }
    };
    let MadeReal { applied, committed, left_out } = &*made;
    if let Some(id) = &applied.id {
        done(format!("applied as {id}"));
    }
    if let Some(committed) = committed {
        say_uncommitted(committed, &applied.sandbox.project, output);
    }
    let commit = committed.as_ref().and_then(|c| c.id.as_deref());
    report(applied, left_out, commit, output);
    say_beyond_packages(args, left_out, &applied.sandbox.project, output);
    output.document(&applied_document(applied, left_out, commit));
    if let Some(signal) = interrupted {
        output.note(format!("interrupted by {} too late to stop it: everything is applied", signal_name(signal)));
    }
    Ok(Ending::Applied { is_whole: made.is_whole(), interrupted })
}

/// What was asked for may be real already.
fn why_nothing(engine: &Engine, args: &Args, prepared: &Prepared) -> Result<String, EngineError> {
    if !args.package.is_empty() && prepared.left_out.iter().all(|one| one.reason == Reason::NotChosen) {
        return Ok(format!(": {} was applied before", args.package.join(", ")));
    }
    let applies = if prepared.left_out.is_empty() { engine.changes.applies_of(&prepared.sandbox)? } else { Vec::new() };
    Ok(if applies.is_empty() { String::new() } else { format!(": {}", changes::all_applied("it", &applies)) })
}

/// Who asks for a package is told what else there is: it may have brought programs that are not on its list.
fn say_beyond_packages(args: &Args, left_out: &ByReason, project: &Path, output: &Output) {
    if !args.package.is_empty() {
        say_not_in_packages(left_out, project, output);
    }
}

fn tell_plan(planned: Planned, args: &Args, output: &Output) -> Ending {
    let Planned { prepared, to_commit } = planned;
    if !prepared.conflicts.is_empty() {
        return Ending::Refused(refuse_conflicts(prepared, output));
    }
    show_plan(&prepared, output);
    say_beyond_packages(args, &prepared.left_out_by_reason(), prepared.project(), output);
    if let Some(files) = to_commit {
        output.line(format!("to be committed: {}", counted(files as u64, "file")));
    }
    output.document(&plan_document(&prepared));
    Ending::Nothing
}
