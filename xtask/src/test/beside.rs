//! A step that is performed while others are. What it says is kept, and shown only if it fails.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::{Step, shown};
use crate::failure::{Failure, on};
use crate::workspace::Workspace;

pub struct Beside {
    name: &'static str,
    again: String,
    said: PathBuf,
    child: Child,
    started: Instant,
}

impl Beside {
    pub fn start(step: Step, workspace: &Workspace) -> Result<Self, Failure> {
        let Step { name, mut command } = step;
        let again = shown(&command);
        let said = workspace.target.join("beside.log");
        std::fs::create_dir_all(&workspace.target).map_err(on("make", &workspace.target))?;
        let log = File::create(&said).map_err(on("make", &said))?;
        let errors = log.try_clone().map_err(on("share", &said))?;
        println!("\n=== {name}: {again}");
        let child = start(command.stdout(log).stderr(errors), &again)?;
        Ok(Self { name, again, said, child, started: Instant::now() })
    }

    /// How long it took since it was started.
    pub fn wait(mut self) -> Result<Duration, Failure> {
        let status = self.child.wait().map_err(|e| Failure::new(format!("failed to wait for {}: {e}", self.again)))?;
        let took = self.started.elapsed();
        if status.success() {
            return Ok(took);
        }
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        Err(Failure::new(format!("{said}\nstep '{}' failed ({status}); again: {}", self.name, self.again)))
    }
}

impl Drop for Beside {
    /// If another step has failed, nobody waits for this one.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(command: &mut Command, again: &str) -> Result<Child, Failure> {
    command.spawn().map_err(|e| Failure::new(format!("failed to start {again}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn performed(script: &str) -> Result<Duration, Failure> {
        let target = std::env::temp_dir().join(format!("whatif-beside-{}-{}", std::process::id(), script.len()));
        let workspace = Workspace { root: "/".into(), target: target.clone() };
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let ended = Beside::start(Step { name: "script", command }, &workspace).and_then(Beside::wait);
        let _ = std::fs::remove_dir_all(target);
        ended
    }

    #[test]
    fn what_it_says_is_shown_if_it_fails() {
        assert!(performed("echo fine").is_ok());
        let failed = performed("echo broken >&2; exit 3");
        assert!(
            matches!(failed, Err(Failure::Failed(problem)) if problem.starts_with("broken") && problem.contains("'script' failed"))
        );
    }
}
