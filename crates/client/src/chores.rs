//! Chores of the engine, each done by a command of its own in the background: a forked copy of us must not touch the open records.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use whatif_engine::ground::chores::{Chore, Chores};
use whatif_sys::children;
use whatif_types::SandboxId;

#[derive(Debug, Default)]
pub struct InBackground {
    /// However many sandboxes a command removes, their layers are looked for once, when all are gone.
    layers_are_left: AtomicBool,
    /// The same for what the rules do not keep.
    collects: AtomicBool,
}

impl InBackground {
    /// At the end of a command.
    pub fn start_the_rest(&self) {
        if self.layers_are_left.swap(false, Ordering::Relaxed) {
            start(&Chore::RemoveLayers);
        }
        if self.collects.swap(false, Ordering::Relaxed) {
            start(&Chore::Collect);
        }
    }
}

impl Chores for InBackground {
    fn start(&self, chore: Chore) {
        match chore {
            Chore::Collect => self.collects.store(true, Ordering::Relaxed),
            Chore::RemoveLayers => self.layers_are_left.store(true, Ordering::Relaxed),
            other => start(&other),
        }
    }
}

/// Never waited for: it outlives us. If we stay, it is collected when the engine collects what it started.
fn start(chore: &Chore) {
    let Ok(executable) = std::env::current_exe() else { return };
    let mut command = Command::new(executable);
    command.args(arguments(chore)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    if let Ok(child) = command.spawn() {
        children::leave_alone(&child);
    }
}

/// The command line that `of` understands.
fn arguments(chore: &Chore) -> Vec<&str> {
    match chore {
        Chore::Squash(sandbox) => vec!["tidy", "--squash", sandbox],
        Chore::RemoveLayers => vec!["tidy", "--layers"],
        Chore::Collect => vec!["tidy", "--collect"],
        Chore::FillPool => vec!["tidy", "--pool"],
        Chore::Attend(sandbox) => vec!["attend", sandbox.as_str()],
        Chore::Tidy => vec!["tidy"],
    }
}

/// The chore that the arguments of this process ask for, without its name. Whoever tidies also does what the records want done.
#[must_use]
pub fn of(arguments: &[&str]) -> Option<Vec<Chore>> {
    Some(match arguments {
        ["attend", sandbox] => vec![Chore::Attend(SandboxId::parse(sandbox)?)],
        ["tidy"] => vec![Chore::Tidy],
        ["tidy", "--squash", sandbox] => vec![Chore::Squash((*sandbox).to_owned()), Chore::Tidy],
        ["tidy", "--layers"] => vec![Chore::RemoveLayers, Chore::Tidy],
        ["tidy", "--collect"] => vec![Chore::Collect, Chore::Tidy],
        ["tidy", "--pool"] => vec![Chore::FillPool, Chore::Tidy],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_is_understood() {
        let sandbox = SandboxId::parse("0123456789ab").unwrap();
        let chores = [
            Chore::Squash("fox".into()),
            Chore::RemoveLayers,
            Chore::Collect,
            Chore::FillPool,
            Chore::Attend(sandbox),
            Chore::Tidy,
        ];
        for chore in chores {
            assert_eq!(of(&arguments(&chore)).and_then(|all| all.first().cloned()), Some(chore));
        }
        assert_eq!(of(&["serve"]), None);
    }
}
