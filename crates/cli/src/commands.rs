//! One file a command: its arguments (the doc comments are the help text) and what it does.

pub mod apply;
pub mod attach;
pub mod audit;
pub mod completions;
pub mod cp;
pub mod diff;
pub mod doctor;
pub mod du;
pub mod events;
pub mod exec;
pub mod export;
pub mod fork;
pub mod gc;
pub mod grant_options;
pub mod history;
pub mod import;
pub mod kill;
pub mod limit_options;
pub mod logs;
pub mod ls;
pub mod man;
pub mod net;
pub mod network_options;
pub mod new;
mod once;
pub mod path_rule;
pub mod pool;
pub mod port;
pub mod ps;
pub mod race;
pub mod rebase;
pub mod reject;
pub mod review;
pub mod rm;
pub mod rollback;
pub mod run;
pub mod sandbox_options;
pub mod serve;
pub mod shell;
pub mod show;
pub mod snapshot;
pub mod snapshots;
pub mod squash;
pub mod start;
pub mod stats;
pub mod status;
pub mod stop;
pub mod template;
pub mod undo;
pub mod variable;

use crate::exit::ExitCode;
use std::sync::Arc;

use whatif_client::caller::{self, NoPlace};
use whatif_client::chores::InBackground;
use whatif_engine::ground::chores::Chore;
use whatif_engine::state_place::Remark;
use whatif_engine::{Caller, Engine, EngineError, StatePlace};
use whatif_types::{SandboxId, Selector};

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::output::{Output, Style, printable};
use crate::spelled;

pub type Outcome = Result<ExitCode, Failure>;

pub fn dispatch(cli: Cli, output: &Output) -> Outcome {
    match cli.command {
        Command::Run(args) => with_engine(output, |engine| run::execute(engine, args, output)),
        Command::New(args) => with_engine(output, |engine| new::execute(engine, args, output)),
        Command::Exec(args) => with_engine(output, |engine| exec::execute(engine, args, output)),
        Command::Shell(args) => with_engine(output, |engine| shell::execute(engine, args, output)),
        Command::Ls(args) => with_engine(output, |engine| ls::execute(engine, &args, output)),
        Command::Show(args) => with_engine(output, |engine| show::execute(engine, &args, output)),
        Command::Review(args) => with_engine(output, |engine| review::execute(engine, &args, output)),
        Command::Net(args) => with_engine(output, |engine| net::execute(engine, &args, output)),
        Command::Port(args) => with_engine(output, |engine| port::execute(engine, &args, output)),
        Command::Ps(args) => with_engine(output, |engine| ps::execute(engine, &args, output)),
        Command::Logs(args) => with_engine(output, |engine| logs::execute(engine, &args, output)),
        Command::Attach(args) => with_engine(output, |engine| attach::execute(engine, &args, output)),
        Command::Kill(args) => with_engine(output, |engine| kill::execute(engine, &args, output)),
        Command::Race(args) => with_engine(output, |engine| race::execute(engine, *args, output)),
        Command::Stop(args) => with_engine(output, |engine| stop::execute(engine, &args, output)),
        Command::Stats(args) => with_engine(output, |engine| stats::execute(engine, &args, output)),
        Command::Start(args) => with_engine(output, |engine| start::execute(engine, &args, output)),
        Command::Rm(args) => with_engine(output, |engine| rm::execute(engine, &args, output)),
        Command::Cp(args) => with_engine(output, |engine| cp::execute(engine, &args, output)),
        Command::Gc(args) => with_engine(output, |engine| gc::execute(engine, &args, output)),
        Command::Diff(args) => with_engine(output, |engine| diff::execute(engine, &args, output)),
        Command::Apply(args) => with_engine(output, |engine| apply::execute(engine, &args, output)),
        Command::Undo(args) => with_engine(output, |engine| undo::execute(engine, &args, output)),
        Command::History(args) => with_engine(output, |engine| history::execute(engine, &args, output)),
        Command::Events(args) => with_engine(output, |engine| events::execute(engine, &args, output)),
        Command::Audit(args) => with_engine(output, |engine| audit::execute(engine, &args, output)),
        Command::Status(args) => with_engine(output, |engine| status::execute(engine, &args, output)),
        Command::Snapshot(args) => with_engine(output, |engine| snapshot::execute(engine, &args, output)),
        Command::Snapshots(args) => with_engine(output, |engine| snapshots::execute(engine, &args, output)),
        Command::Rollback(args) => with_engine(output, |engine| rollback::execute(engine, &args, output)),
        Command::Fork(args) => with_engine(output, |engine| fork::execute(engine, &args, output)),
        Command::Squash(args) => with_engine(output, |engine| squash::execute(engine, &args, output)),
        Command::Template(args) => with_engine(output, |engine| template::execute(engine, &args, output)),
        Command::Pool(args) => with_engine(output, |engine| pool::execute(engine, &args, output)),
        Command::Export(args) => with_engine(output, |engine| export::execute(engine, &args, output)),
        Command::Import(args) => with_engine(output, |engine| import::execute(engine, &args, output)),
        Command::Du(args) => with_engine(output, |engine| du::execute(engine, &args, output)),
        Command::Rebase(args) => with_engine(output, |engine| rebase::execute(engine, &args, output)),
        Command::Reject(args) => with_engine(output, |engine| reject::execute(engine, &args, output)),
        Command::Doctor(args) => doctor::execute(&args, output),
        Command::Serve(args) => serve::execute(&args, output),
        Command::Completions(args) => completions::execute(&args),
        Command::Man(args) => man::execute(&args, output),
        Command::Attend { sandbox } => do_chores(SandboxId::parse(&sandbox).map(Chore::Attend)),
        Command::Tidy { squash, layers, pool, collect } => {
            let named = [
                squash.map(Chore::Squash),
                layers.then_some(Chore::RemoveLayers),
                pool.then_some(Chore::FillPool),
                collect.then_some(Chore::Collect),
            ];
            do_chores(named.into_iter().flatten().chain([Chore::Tidy]))
        }
    }
}

fn with_engine(output: &Output, work: impl FnOnce(&Engine) -> Outcome) -> Outcome {
    let chores = Arc::new(InBackground::default());
    let caller = caller::from_process()?;
    let place = state_place(&caller)?;
    let remark = place.remark_if_new()?;
    let engine = Engine::open(&place.path, caller, chores.clone())?;
    // Not before it is clear that this place is used: inside a sandbox none is.
    if let Some(Remark { what, fix }) = remark {
        output.note(format!("{} {}", output.paint_note(Style::Yellow, "whatif:"), printable(&format!("{what}; {fix}"))));
    }
    for trouble in engine.upkeep.recover()? {
        output.note(format!("{} {}", output.paint_note(Style::Yellow, "whatif:"), printable(&spelled::sentence(&trouble.message))));
    }
    let outcome = engine.ground.call(|| match work(&engine) {
        Err(Failure::Engine(error)) => Err(error),
        other => Ok(other),
    });
    engine.upkeep.tidy_if_due();
    chores.start_the_rest();
    outcome?
}

/// Where sandboxes of this caller are kept.
pub fn state_place(caller: &Caller) -> Result<StatePlace, Failure> {
    caller::state_place(caller).map_err(|error| match error {
        NoPlace::Engine(error) => error.into(),
        NoPlace::Relative { named, meant } => Failure::usage(
            "home_relative",
            format!("WHATIF_HOME is the relative path '{}'", printable(&named.to_string_lossy())),
            format!("set it to an absolute path: export WHATIF_HOME={}", printable(&meant.to_string_lossy())),
        ),
    })
}

/// What another command started in the background.
fn do_chores(chores: impl IntoIterator<Item = Chore>) -> Outcome {
    let caller = caller::from_process()?;
    let engine = Engine::open(&state_place(&caller)?.path, caller, Arc::new(InBackground::default()))?;
    engine.upkeep.recover()?;
    for chore in chores {
        engine.upkeep.do_chore(&chore)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The sandbox that is meant by a word on the command line, or by none.
fn meant(engine: &Engine, word: Option<&str>) -> Result<Selector, EngineError> {
    engine.caller().selector(word)
}

/// The same for a command whose output does not say which one it is.
fn meant_and_told(engine: &Engine, word: Option<&str>, output: &Output) -> Result<Selector, EngineError> {
    if word.is_some() {
        return meant(engine, word);
    }
    let caller = engine.caller();
    let latest = engine.ground.latest_of(&caller.project_of(&caller.cwd)?)?;
    output.note(output.paint_note(Style::Dim, format!("whatif: in {}, the sandbox used last", latest.name)));
    Ok((&latest).into())
}

/// Whoever makes something new is told when there is more than there should be.
pub fn tell_disk_alert(engine: &Engine, output: &Output) {
    if let Some(alert) = engine.ground.disk_alert() {
        output.note(format!("{} {alert}; 'whatif du' shows where it is", output.paint_note(Style::Yellow, "whatif:")));
    }
}
