//! Short ways to the sandboxes the tests of diff, apply and undo are about.

use std::path::Path;

use serde_json::Value;

use crate::{Outcome, World};

impl World {
    /// A sandbox that has ended and was kept, with what a shell script did in the project.
    #[track_caller]
    pub fn sandbox_with(&self, name: &str, script: &str) {
        self.sandbox_in(&self.project, name, script);
    }

    /// The same in another project.
    #[track_caller]
    pub fn sandbox_in(&self, project: &Path, name: &str, script: &str) {
        let run = ["run", "--keep", "--quiet", "--name", name, "--", "/bin/sh", "-euc", script];
        self.whatif(run).cwd(project).go().ok();
    }

    /// `whatif apply … --yes`, whatever comes of it.
    #[track_caller]
    pub fn apply(&self, arguments: &[&str]) -> Outcome {
        self.whatif(["apply", "--yes"]).args(arguments).go()
    }
}

/// What `whatif diff --json` says about one path.
#[must_use]
#[track_caller]
pub fn change<'a>(document: &'a Value, path: &str) -> &'a Value {
    let changes = document["changes"].as_array().unwrap_or_else(|| panic!("no changes: {document}"));
    let found = changes.iter().find(|change| change["path"] == path);
    found.unwrap_or_else(|| panic!("{path} is not among the changes: {document:#}"))
}
