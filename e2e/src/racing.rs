//! Races as tests see them: by what `--json` says, and by what runs on the machine meanwhile.

mod race;
mod running;
mod stuck;

pub use race::Race;
pub use running::Running;
pub use stuck::ORDERED;

use std::fs;

/// Whether any process of this machine has this in its command line, its words parted by spaces. For what runs inside and cannot know
/// where its world is; so it should be something that nobody else runs.
#[must_use]
pub fn runs_anywhere(words: &str) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let lines = entries.filter_map(|e| fs::read(e.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).any(|line| line.contains(words))
}
