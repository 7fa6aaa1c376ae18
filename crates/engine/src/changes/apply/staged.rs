//! What the indexes of git stage that a transaction puts in place. Git writes an index again whenever it looks at the files, with
//! other times in it; an undo has to tell that from work that was staged since.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_apply::{Change, Plan, Source};
use whatif_diff::git_index;
use whatif_sys::direct;
use whatif_types::text;

/// An index, and a digest of what it stages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Staged {
    #[serde(with = "text::path")]
    path: PathBuf,
    digest: String,
}

impl Staged {
    /// By the indexes of a plan. One that cannot be read, or that git alone understands, is compared by its bytes later.
    pub(crate) fn by(plan: &Plan) -> Vec<Self> {
        let puts = plan.operations.iter().map(|operation| (operation.absolute(&plan.roots), &operation.change));
        let indexes = puts.filter(|(path, _)| git_index::is_one(path));
        indexes.filter_map(|(path, change)| Some(Self { digest: digest_of(change).ok()??, path })).collect()
    }

    /// Whether the index at a path still stages what it did.
    pub(crate) fn is_same(all: &[Self], path: &Path) -> bool {
        let staged = all.iter().find(|staged| staged.path == path);
        staged.is_some_and(|staged| digest_at(path).is_ok_and(|now| now.as_ref() == Some(&staged.digest)))
    }
}

fn digest_of(change: &Change) -> io::Result<Option<String>> {
    let Change::Put { source, .. } = change else { return Ok(None) };
    match source {
        Source::Approved(approved) => digest_at(&approved.path),
        Source::File(path) | Source::Original(path) => digest_at(path),
        Source::Bytes(bytes) => Ok(git_index::meaning(bytes)),
        Source::Link(_) | Source::Directory | Source::HardLink(_) | Source::Existing(_) => Ok(None),
    }
}

fn digest_at(path: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    direct::open_file(path)?.take(git_index::LONGEST + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= git_index::LONGEST).then(|| git_index::meaning(&bytes)).flatten())
}
