//! The index cargo was born with. It has no command that says so; but when it wants something from there, it asks its proxy
//! for that host. So it is given a proxy that only listens, and nothing leaves the machine.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::ask::{AskError, Question};
use crate::place::Place;
use crate::proxy::{Proxy, random_word};
use crate::surroundings::Surroundings;

/// Its own workspace, so that nothing above it is looked at.
const MANIFEST: &str = "[package]\nname = \"question\"\nversion = \"0.0.0\"\n[workspace]\n[lib]\npath = \"lib.rs\"\n[dependencies]\nquestion-to-cargo = \"1\"\n";

#[derive(Debug, thiserror::Error)]
pub(super) enum DefaultError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("cannot be asked for its default index: {0}")]
    Io(#[from] std::io::Error),
    #[error("does not say which index it uses by itself")]
    Silent,
}

pub(super) fn ask(program: &Path, surroundings: &Surroundings<'_>) -> Result<Place, DefaultError> {
    let scratch = Scratch::new()?;
    std::fs::write(scratch.0.join("Cargo.toml"), MANIFEST)?;
    std::fs::write(scratch.0.join("lib.rs"), "")?;
    let proxy = Proxy::new()?;
    // A home of its own: what is configured is known already, and a lock that another cargo holds is not waited for. It looks
    // for configuration in and above the current directory, which therefore is where only root can write.
    let question = Question::new(program, surroundings)
        .args(["generate-lockfile", "--manifest-path"])
        .args([scratch.0.join("Cargo.toml")])
        .scratch(&scratch.0)
        .env("CARGO_HOME", &scratch.0)
        .env("CARGO_HTTP_PROXY", proxy.url())
        .env("CARGO_NET_RETRY", "0")
        .env("RUSTUP_AUTO_INSTALL", "0")
        .cwd("/");
    let (outcome, target) = proxy.listen_during(|| question.run());
    outcome?;
    target.and_then(|target| Place::of_host(&target).ok()).ok_or(DefaultError::Silent)
}

/// A directory nobody else can look into, gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let path = Path::new("/tmp").join(format!("whatif-ask-{}", random_word()?));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
