//! One file a command: its arguments (the doc comments are the help text) and what it does.

pub mod apply;
pub mod completions;
pub mod cp;
pub mod diff;
pub mod doctor;
pub mod du;
pub mod exec;
pub mod export;
pub mod fork;
pub mod gc;
pub mod history;
pub mod import;
pub mod kill;
pub mod limit_options;
pub mod logs;
pub mod ls;
pub mod net;
pub mod network_options;
pub mod new;
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

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use whatif_engine::stack::Unknown;
use whatif_engine::{Engine, EngineError, Sandbox};

use whatif_types::SandboxId;

use crate::args::{Cli, Command};
use crate::context;
use crate::output::{Output, Style, printable};

pub type Outcome = Result<ExitCode, EngineError>;

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
        Command::Completions(args) => completions::execute(&args),
        Command::Attend { sandbox } => attend(&sandbox),
        Command::Tidy { squash, layers, pool } => tidy(squash.as_deref(), layers, pool),
    }
}

fn with_engine(output: &Output, work: impl FnOnce(&Engine) -> Outcome) -> Outcome {
    let engine = Engine::open(context::from_process()?)?;
    for trouble in &engine.troubles {
        output.note(format!("{} {}", output.paint_note(Style::Yellow, "whatif:"), printable(&trouble.message)));
    }
    let outcome = work(&engine);
    if engine.wants_tidying() {
        in_background(&["tidy"]);
    }
    outcome.map_err(|error| engine.explain_removal(error))
}

fn tidy(squash: Option<&str>, layers: bool, pool: bool) -> Outcome {
    let engine = Engine::open(context::from_process()?)?;
    if let Some(name) = squash {
        engine.squash_due(name)?;
    }
    if layers {
        engine.remove_unneeded_layers(Unknown::Keep)?;
        engine.clear_race_locks();
    }
    if pool {
        engine.fill_pool()?;
    }
    engine.tidy()?;
    Ok(ExitCode::SUCCESS)
}

fn attend(sandbox: &str) -> Outcome {
    if let Some(id) = SandboxId::parse(sandbox) {
        Engine::open(context::from_process()?)?.supervise_when_wanted(&id)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Nobody stays who could be told when processes of this sandbox want the network.
pub fn attend_in_background(sandbox: &Sandbox) {
    if sandbox.details.is_supervised() {
        in_background(&["attend", sandbox.id.as_str()]);
    }
}

/// A command of its own, because a forked copy of us must not touch the open records.
pub fn in_background(arguments: &[&str]) {
    let Ok(executable) = std::env::current_exe() else { return };
    let null = std::process::Stdio::null;
    // Never waited for: it outlives us and belongs to init then.
    let _ =
        std::process::Command::new(executable).args(arguments).stdin(null()).stdout(null()).stderr(null()).process_group(0).spawn();
}

/// One that was taken from the pool is made up for when nobody waits.
pub fn fill_pool_if_due(engine: &Engine, sandbox: &Sandbox) {
    if engine.wants_filling(&sandbox.project) {
        in_background(&["tidy", "--pool"]);
    }
}

/// Whoever makes something new is told when there is more than there should be.
pub fn tell_disk_alert(engine: &Engine, output: &Output) {
    if let Some(alert) = engine.disk_alert() {
        output.note(format!("{} {alert}; 'whatif du' shows where it is", output.paint_note(Style::Yellow, "whatif:")));
    }
}

/// Many layers make a sandbox slow; merging them can wait until nobody does.
pub fn squash_if_due(engine: &Engine, sandbox: &Sandbox) {
    if engine.wants_squashing(sandbox).unwrap_or(false) {
        in_background(&["tidy", "--squash", sandbox.name.as_str()]);
    }
}
