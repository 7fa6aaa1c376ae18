//! Chores of the engine, each done by a command of its own in the background: a forked copy of us must not touch the open records.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use whatif_engine::ground::chores::{Chore, Chores};

#[derive(Debug, Default)]
pub struct InBackground {
    /// However many sandboxes a command removes, their layers are looked for once, when all are gone.
    layers_are_left: AtomicBool,
}

impl InBackground {
    /// At the end of a command.
    pub fn start_the_rest(&self) {
        if self.layers_are_left.swap(false, Ordering::Relaxed) {
            start(&Chore::RemoveLayers);
        }
    }
}

impl Chores for InBackground {
    fn start(&self, chore: Chore) {
        match chore {
            Chore::RemoveLayers => self.layers_are_left.store(true, Ordering::Relaxed),
            other => start(&other),
        }
    }
}

/// Never waited for: it outlives us and belongs to init then.
fn start(chore: &Chore) {
    let Ok(executable) = std::env::current_exe() else { return };
    let mut command = Command::new(executable);
    match chore {
        Chore::Squash(sandbox) => command.args(["tidy", "--squash", sandbox]),
        Chore::RemoveLayers => command.args(["tidy", "--layers"]),
        Chore::FillPool => command.args(["tidy", "--pool"]),
        Chore::Attend(sandbox) => command.args(["attend", sandbox.as_str()]),
        Chore::Tidy => command.arg("tidy"),
    };
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
}
