//! Real projects with a test that fails, and the ways to mend them that are raced.
//!
//! Each is a git repository of its own world, complete with dependencies that are installed from files, so that nothing is asked of
//! any network.

mod node;
mod python;
mod rust;

pub use node::node;
pub use python::python;
pub use rust::rust;

use std::path::PathBuf;

use crate::World;

/// A project that three attempts are made at, one of which works.
#[derive(Debug)]
pub struct Project {
    /// Its own tests, for `sh -c`.
    pub test: &'static str,
    /// Another version of what it depends on, for `sh -c`.
    pub dependency: &'static str,
    pub patch: PathBuf,
    /// What an attempt must not change, if it could win by that.
    pub protect: Option<&'static str>,
    /// `dependency`, `patch` or `revert`.
    pub winner: &'static str,
    /// How many of its tests pass then.
    pub tests: u64,
    /// Where its tools are, if not at the usual places.
    pub path: Option<String>,
}

impl Project {
    /// What `whatif race` is told.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--attempt=dependency={}", self.dependency),
            format!("--patch=patch={}", self.patch.display()),
            "--revert=revert=HEAD".to_owned(),
            format!("--check=test={}", self.test),
        ];
        arguments.extend(self.protect.map(|glob| format!("--protect={glob}")));
        arguments
    }
}

impl World {
    /// Commits all there is. The first commit makes the repository.
    #[track_caller]
    pub fn commit(&self, subject: &str) {
        let identity = "-c user.name=tester -c user.email=tester@example.com -c commit.gpgsign=false";
        self.outside(&format!("test -d .git || git init -q -b main . && git add . && git {identity} commit -qm '{subject}'")).ok();
    }
}
