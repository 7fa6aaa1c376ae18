//! One file a command: its arguments (the doc comments are the help text) and what it does.

pub mod completions;
pub mod cp;
pub mod doctor;
pub mod exec;
pub mod gc;
pub mod kill;
pub mod logs;
pub mod ls;
pub mod new;
pub mod ps;
pub mod rm;
pub mod run;
pub mod sandbox_options;
pub mod shell;
pub mod show;
pub mod start;
pub mod stop;

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use whatif_engine::{Engine, EngineError};

use crate::args::{Cli, Command};
use crate::context;
use crate::output::Output;

pub type Outcome = Result<ExitCode, EngineError>;

pub fn dispatch(cli: Cli, output: &Output) -> Outcome {
    match cli.command {
        Command::Completions(args) => completions::execute(&args),
        Command::Doctor(args) => doctor::execute(&args, output),
        Command::Tidy => Engine::open(context::from_process()?)?.tidy().map(|()| ExitCode::SUCCESS),
        command => {
            let engine = Engine::open(context::from_process()?)?;
            let outcome = match command {
                Command::Run(args) => run::execute(&engine, args, output),
                Command::New(args) => new::execute(&engine, args, output),
                Command::Exec(args) => exec::execute(&engine, args, output),
                Command::Shell(args) => shell::execute(&engine, args, output),
                Command::Ls(args) => ls::execute(&engine, &args, output),
                Command::Show(args) => show::execute(&engine, &args, output),
                Command::Ps(args) => ps::execute(&engine, &args, output),
                Command::Logs(args) => logs::execute(&engine, &args, output),
                Command::Kill(args) => kill::execute(&engine, &args, output),
                Command::Stop(args) => stop::execute(&engine, &args, output),
                Command::Start(args) => start::execute(&engine, &args, output),
                Command::Rm(args) => rm::execute(&engine, &args, output),
                Command::Cp(args) => cp::execute(&engine, &args, output),
                Command::Gc(args) => gc::execute(&engine, &args, output),
                Command::Completions(_) | Command::Doctor(_) | Command::Tidy => unreachable!("handled above"),
            };
            if engine.wants_tidying() {
                tidy_in_background();
            }
            outcome
        }
    }
}

/// A command of its own, because a forked copy of us must not touch the open records.
fn tidy_in_background() {
    let Ok(executable) = std::env::current_exe() else { return };
    let null = std::process::Stdio::null;
    // Never waited for: it outlives us and belongs to init then.
    let _ = std::process::Command::new(executable).arg("tidy").stdin(null()).stdout(null()).stderr(null()).process_group(0).spawn();
}
