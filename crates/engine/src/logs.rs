//! The output of commands that were started in the background.

use std::path::PathBuf;

use whatif_types::{Sandbox, Status};

use crate::{Engine, EngineError};

impl Engine {
    /// The log of one background command, or of the latest.
    pub fn log(&self, name: Option<&str>, pid: Option<i32>) -> Result<(Sandbox, i32, PathBuf), EngineError> {
        let sandbox = self.resolve(name)?;
        let logs = self.directory(&sandbox)?.join("logs");
        let mut found: Vec<(std::time::SystemTime, i32, PathBuf)> = std::fs::read_dir(&logs)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter_map(|e| {
                let pid = e.file_name().to_str()?.strip_suffix(".log")?.parse().ok()?;
                Some((e.metadata().ok()?.created().or_else(|_| e.metadata()?.modified()).ok()?, pid, e.path()))
            })
            .filter(|(_, number, _)| pid.is_none_or(|p| p == *number))
            .collect();
        found.sort();
        match found.pop() {
            Some((_, pid, path)) => Ok((sandbox, pid, path)),
            None => Err(EngineError::Usage {
                message: match pid {
                    Some(pid) => format!("sandbox '{}' has no log of a process {pid}", sandbox.name),
                    None => format!("sandbox '{}' has no logs", sandbox.name),
                },
                hint: "commands started with 'whatif exec -d' have logs".to_owned(),
            }),
        }
    }

    /// Whether a background command still runs.
    pub fn is_running(&self, sandbox: &Sandbox, pid: i32) -> bool {
        sandbox.status == Status::Active
            && self.connect(sandbox).and_then(|mut c| Ok(c.list()?)).is_ok_and(|all| all.iter().any(|p| p.pid == pid && p.is_exec))
    }
}
