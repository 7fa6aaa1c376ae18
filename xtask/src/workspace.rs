//! Where the sources and the build results are.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::{Failure, on};

#[derive(Debug)]
pub struct Workspace {
    pub root: PathBuf,
    pub target: PathBuf,
}

impl Workspace {
    /// Cargo is asked, because only it knows every way in which a target directory can be chosen.
    pub fn find() -> Result<Self, Failure> {
        let mut cargo = Command::new(cargo_path());
        cargo.args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = cargo.output().map_err(on("run", Path::new("cargo metadata")))?;
        let metadata: Value = serde_json::from_slice(&output.stdout).map_err(on("read", Path::new("cargo metadata")))?;
        let path = |key: &str| metadata[key].as_str().map(PathBuf::from);
        match (path("workspace_root"), path("target_directory")) {
            (Some(root), Some(target)) => Ok(Self { root, target }),
            _ => Err(Failure::new("cargo metadata names neither workspace_root nor target_directory")),
        }
    }

    pub fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = Command::new(cargo_path());
        cargo.args(arguments).current_dir(&self.root);
        cargo
    }

    pub fn release_binary(&self) -> PathBuf {
        self.target.join("release/whatif")
    }
}

/// The cargo that runs us, so that a toolchain chosen with `+name` stays chosen.
fn cargo_path() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}
