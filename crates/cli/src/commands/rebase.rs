use crate::exit::ExitCode;

use whatif_engine::changes::shell_in;
use whatif_engine::{Engine, shown_path};

use super::{Outcome, meant};
use crate::output::{Output, Style, counted, visible_path};
use crate::progress::Clock;
use crate::spelled;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id; by default the latest of this project
    name: Option<String>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let which = meant(engine, args.name.as_deref())?;
    let clock = Clock::start("rebasing", args.name.as_deref().unwrap_or("the latest sandbox"), output);
    let rebased = engine.changes.rebase(&which)?;
    drop(clock);
    let project = &rebased.sandbox.project;
    output.document(&rebased.document());
    for path in &rebased.merged {
        output.line(format!("{}  {}", output.paint(Style::Cyan, "merged  "), visible_path(shown_path(path, project))));
    }
    for path in &rebased.marked {
        output.line(format!("{}  {}", output.paint(Style::Red, "conflict"), visible_path(shown_path(path, project))));
    }
    for (path, why) in &rebased.kept {
        output.line(format!("kept      {}: {why}", visible_path(shown_path(path, project))));
    }
    for (path, why) in &rebased.open {
        output.line(format!("{}  {}: {why}", output.paint(Style::Red, "conflict"), visible_path(shown_path(path, project))));
    }
    let name = &rebased.sandbox.name;
    let unsettled = rebased.marked.len() + rebased.open.len();
    if unsettled == 0 {
        let but = if rebased.kept.is_empty() { "" } else { ", but for what it keeps" };
        output.line(format!("{} now stands on reality as it is{but}", output.paint(Style::Bold, name)));
        return Ok(ExitCode::SUCCESS);
    }
    if !rebased.marked.is_empty() {
        output.note(format!(
            "{} to settle: edit in the sandbox what is between '<<<<<<<' and '>>>>>>>' ({}), or keep reality's: whatif apply {name} --ours PATH",
            counted(rebased.marked.len() as u64, "path"),
            spelled::call(&shell_in(&rebased.sandbox)),
        ));
    }
    if !rebased.open.is_empty() {
        let open = counted(rebased.open.len() as u64, "path");
        output.note(format!("{open} open: choose when you apply, with --theirs PATH, --ours PATH or --skip PATH"));
    }
    Ok(ExitCode::FAILURE)
}
