//! `whatif race` and what belongs to it.

mod apply;
mod diff;
mod file;
mod ls;
mod merge;
mod plan;
mod resume;
mod rm;
mod show;
mod watch;

use whatif_engine::Engine;
use whatif_engine::races::Experiment;

use super::Outcome;
use crate::output::Output;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(mut_arg("publish", |arg| arg.hide(true)))]
#[command(
    after_help = "Examples:\n  whatif race 'npm i left-pad@1' 'npm i left-pad@2' --check 'npm test'\n  whatif race --attempt fix='sed -i s/a-b/a+b/ m.py' --patch theirs=fix.patch --revert HEAD --check 'pytest -q'\n  whatif race --matrix V=1.2,1.3,2.0 --check 'cargo test' -- cargo update -p serde --precise {V}\n  whatif race --prompt 'fix the test' --prompt 'rewrite it' --check 'make test' -- agent -p {prompt}\n  whatif race                       what experiment.toml says\n  whatif race apply best            make the winner real"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: plan::Options,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Ls(ls::Args),
    Show(show::Args),
    Diff(diff::Args),
    Apply(Box<apply::Args>),
    Merge(merge::Args),
    Resume(resume::Args),
    Rerun(resume::RerunArgs),
    Rm(rm::Args),
}

/// Which race is meant.
#[derive(Debug, clap::Args)]
struct Which {
    /// The race; by default the latest of this project
    #[arg(long, value_name = "NAME")]
    race: Option<String>,
}

/// Variables whose values are written down nowhere.
#[derive(Debug, clap::Args)]
struct Variables {
    /// Set a variable, as when the race was started
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
}

impl Which {
    fn find(&self, engine: &Engine) -> Result<Experiment, whatif_engine::EngineError> {
        engine.races.find_race(self.race.as_deref())
    }
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    match args.command {
        None => start(engine, args.options, output),
        Some(Command::Ls(args)) => ls::execute(engine, &args, output),
        Some(Command::Show(args)) => show::execute(engine, &args, output),
        Some(Command::Diff(args)) => diff::execute(engine, args, output),
        Some(Command::Apply(args)) => apply::execute(engine, *args, output),
        Some(Command::Merge(args)) => merge::execute(engine, &args, output),
        Some(Command::Resume(args)) => resume::execute(engine, &args, output),
        Some(Command::Rerun(args)) => resume::rerun(engine, &args, output),
        Some(Command::Rm(args)) => rm::execute(engine, &args, output),
    }
}

fn start(engine: &Engine, options: plan::Options, output: &Output) -> Outcome {
    let new = options.resolve(engine)?;
    super::grant_options::tell_of(&new.sandbox.grants, output);
    // Their values are known to us alone.
    let set: Vec<String> = new.sandbox.env.iter().filter(|entry| entry.contains('=')).cloned().collect();
    let experiment = engine.races.new_race(new)?;
    super::tell_disk_alert(engine, output);
    watch::run(engine, &experiment, &set, output)
}
