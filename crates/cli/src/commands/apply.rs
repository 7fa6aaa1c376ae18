use crate::exit::ExitCode;

use whatif_engine::changes::apply::{ApplyRequest, HunkChoice};
use whatif_engine::changes::commit::CommitOptions;
use whatif_engine::changes::gate::{ApplyWish, Made, MadeReal, Planned};
use whatif_engine::changes::signal_name;
use whatif_engine::{Engine, EngineError};
use whatif_types::Selector;

use super::{Outcome, meant};
use crate::apply_report::{
    applied_document, nothing_document, plan_document, refuse_conflicts, report, say_left_out, say_uncommitted, show_plan,
};
use crate::exit;
use crate::failure::Failure;
use crate::interrupt::Following;
use crate::output::{Output, counted, done};
use crate::person::Person;

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

    /// A name that follows the patterns of an option is one more pattern, and another sandbox would be applied.
    fn refuse_swallowed_name(&self, engine: &Engine) -> Result<(), Failure> {
        if self.name.is_some() {
            return Ok(());
        }
        for (option, pattern) in [("--files", self.files.last()), ("--exclude", self.exclude.last())] {
            if let Some(name) = pattern
                && engine.changes.is_sandbox(name)?
            {
                let hint = format!(
                    "write the sandbox before {option}, as in 'whatif apply {name} {option} GLOB'; for the path say '{option} ./{name}'"
                );
                return Err(Failure::usage(format!("which sandbox is meant? '{name}' after {option} is the name of one"), hint));
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

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
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
        return Ok(tell_plan(planned, output));
    }
    let made = engine.changes.make_real(&wish, &mut Person::new(output), &mut following);
    let made = following.explained(made)?;
    let interrupted = following.ended();
    let made = match made {
        Made::Applied(made) => made,
        Made::Conflicts(prepared) => return Ok(Ending::Refused(refuse_conflicts(*prepared, output))),
        Made::Nothing(prepared) => {
            output.line("nothing to apply");
            say_left_out(&prepared, output);
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
    output.document(&applied_document(applied, left_out, commit));
    if let Some(signal) = interrupted {
        output.note(format!("interrupted by {} too late to stop it: everything is applied", signal_name(signal)));
    }
    Ok(Ending::Applied { is_whole: made.is_whole(), interrupted })
}

fn tell_plan(planned: Planned, output: &Output) -> Ending {
    let Planned { prepared, to_commit } = planned;
    if !prepared.conflicts.is_empty() {
        return Ending::Refused(refuse_conflicts(prepared, output));
    }
    show_plan(&prepared, output);
    if let Some(files) = to_commit {
        output.line(format!("to be committed: {}", counted(files as u64, "file")));
    }
    output.document(&plan_document(&prepared));
    Ending::Nothing
}
