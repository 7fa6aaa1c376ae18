//! `whatif doctor --fix`: shows what would be changed, asks, does it, and says how to take it back.

use crate::exit::ExitCode;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::json;
use whatif_engine::EngineError;
use whatif_engine::doctor::fix::{Machine, NoPlan, Step};

use crate::commands::{Outcome, rm};
use crate::failure::Failure;
use crate::output::{Output, Style, counted, printable};

pub fn execute(is_root: bool, is_approved: bool, output: &Output) -> Outcome {
    let program = program()?;
    let machine = Machine::this();
    let steps = machine.plan_for(is_root, &program).map_err(refused)?;
    if steps.is_empty() {
        output.document(&document(&steps, false));
        output.line("nothing to change: no setting of this machine keeps ordinary users from making sandboxes");
        return Ok(ExitCode::SUCCESS);
    }
    let count = counted(steps.len() as u64, "change");
    output.line(format!("{count} to the settings of this machine:"));
    for step in &steps {
        output.line(format!("  {}", printable(&step.in_words())));
    }
    say_who_else(&steps, output);
    if !is_root {
        let hint = format!("as root: sudo {} doctor --fix", spelled(&program));
        return Err(Failure::usage("not_allowed", "only root may change the settings of this machine", hint));
    }
    if !is_approved {
        if output.json || !rm::asks_a_person() {
            let hint = format!("without a question: {} doctor --fix --yes", spelled(&program));
            return Err(Failure::usage("needs_confirmation", format!("no terminal to confirm {count} on"), hint));
        }
        if !rm::agreed("Change it?")? {
            output.note("nothing was changed");
            return Ok(ExitCode::FAILURE);
        }
    }
    for step in &steps {
        machine.perform(step)?;
        output.line(format!("{} {}", output.paint(Style::Green, "done:"), printable(&step.in_words())));
        output.line(format!("  take it back: {}", step.taken_back()));
    }
    output.document(&document(&steps, true));
    output.line("see whether it is enough, as an ordinary user: whatif doctor");
    Ok(ExitCode::SUCCESS)
}

/// Below what `doctor` found: most of it can be done by a command.
pub fn offer(is_root: bool, output: &Output) {
    // Only an offer: what keeps it from being made is told to those who take it.
    let Ok(program) = program() else { return };
    if Machine::this().plan_for(is_root, &program).is_ok_and(|steps| !steps.is_empty()) {
        let sudo = if is_root { "" } else { "sudo " };
        output.line(format!(
            "to let whatif change this, after it has shown what and asked: {sudo}{} doctor --fix",
            spelled(&program)
        ));
    }
}

/// AppArmor knows programs by their real path.
fn program() -> Result<PathBuf, EngineError> {
    std::env::current_exe().map_err(|source| EngineError::io("find", "/proc/self/exe", source))
}

fn refused(why: NoPlan) -> Failure {
    match why {
        NoPlan::Failed(error) => error.into(),
        other => Failure::usage("not_allowed", other.to_string(), other.remedy()),
    }
}

/// A profile is about a path: whoever can put another program there gets what it allows.
fn say_who_else(steps: &[Step], output: &Output) {
    for step in steps {
        let Step::Profile { program } = step else { continue };
        // Only a remark: what cannot be looked at cannot be told.
        let Ok(found) = std::fs::metadata(program) else { continue };
        if found.uid() != 0 || found.permissions().mode() & 0o022 != 0 {
            let owner = found.uid();
            output.note(format!(
                "  anyone who can replace this file can make user namespaces with it, too: it belongs to uid {owner}. \
                 In /usr/local/bin only root can"
            ));
        }
    }
}

fn spelled(program: &Path) -> String {
    let path = program.to_string_lossy();
    if path.contains(' ') { format!("'{path}'") } else { path.into_owned() }
}

fn document(steps: &[Step], is_done: bool) -> serde_json::Value {
    let steps: Vec<_> = steps.iter().map(|step| json!({ "what": step.in_words(), "take_back": step.taken_back() })).collect();
    json!({ "steps": steps, "done": is_done })
}
