//! What should be there and is not.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Something that should be there and is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub what: Part,
    #[serde(with = "whatif_types::text::path")]
    pub path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The directory of the sandbox itself.
    Directory,
    /// The changes since the last snapshot.
    Head,
    /// A layer with the changes of a snapshot.
    Layer,
    /// One directory of such a layer.
    LayerPart,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Part::Directory => "its directory",
            Part::Head => "its latest changes",
            Part::Layer => "a layer",
            Part::LayerPart => "part of a layer",
        };
        write!(f, "{what} ({})", self.path.display())
    }
}

/// In one sentence.
pub fn in_words(missing: &[Missing]) -> String {
    let first = missing.first().map(Missing::to_string).unwrap_or_default();
    let verb = if missing.len() > 1 { "are" } else { "is" };
    let more = missing.len().saturating_sub(1);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{first}{more} {verb} missing")
}
