//! The applies that were made: pages of a book that `undo` reads backwards.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_apply::{Change as Act, Operation};
use whatif_diff::base::{self, Fate};
use whatif_sys::absence::OrAbsent;
use whatif_types::text;

use crate::changes::apply::About;
use crate::changes::{Changes, ChangesError};
use crate::{EngineError, private_file};

const FILE: &str = "page.json";

/// A page names so many paths; the journal beside it has all of them.
const MOST_PATHS: usize = 1000;

/// One apply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page {
    pub id: String,
    /// Milliseconds since 1970.
    pub at: u64,
    pub who: String,
    pub sandbox: String,
    pub sandbox_id: String,
    pub command: Vec<String>,
    #[serde(with = "text::path")]
    pub project: PathBuf,
    pub files: usize,
    #[serde(with = "text::paths")]
    pub paths: Vec<PathBuf>,
    /// The git commit made of it.
    pub commit: Option<String>,
    /// This one takes that one back.
    pub undo_of: Option<String>,
    pub undone_by: Option<String>,
    /// Of an undo: what of the apply it left as it was.
    #[serde(default, with = "text::paths")]
    pub skipped: Vec<PathBuf>,
}

impl Page {
    pub(crate) fn new(about: &About, mut paths: Vec<PathBuf>, commit: Option<String>) -> Self {
        let files = paths.len();
        paths.truncate(MOST_PATHS);
        Self {
            id: about.id.clone(),
            at: about.at,
            who: about.who.clone(),
            sandbox: about.sandbox.clone(),
            sandbox_id: about.sandbox_id.clone(),
            command: about.command.clone(),
            project: about.project.clone(),
            files,
            paths,
            commit,
            undo_of: about.undo_of.clone(),
            undone_by: None,
            skipped: about.skipped.iter().take(MOST_PATHS).cloned().collect(),
        }
    }

    /// Whether an undo of this speaks of what it does at a path: what the apply did not speak of only gets its times back.
    pub(crate) fn is_told_of_undo(&self, operation: &Operation, path: &Path) -> bool {
        !matches!(operation.change, Act::Set { .. }) || self.paths.iter().any(|told| told == path)
    }

    pub(crate) fn write(&self, directory: &Path) -> Result<(), EngineError> {
        let path = directory.join(FILE);
        let bytes = serde_json::to_vec(self).map_err(|e| EngineError::io("write", &path, e.into()))?;
        private_file::replace_durably(&path, &bytes).map_err(|e| EngineError::io("write", &path, e))
    }

    /// `None` for an apply without a page, or with one that cannot be understood. One that cannot be read just now is an error: an
    /// undo would take another apply for the last one.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, EngineError> {
        let path = directory.join(FILE);
        let text = std::fs::read(&path).or_absent().map_err(|e| EngineError::io("read", &path, e))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }
}

impl Changes {
    /// `whatif history`: newest first.
    pub fn history(&self) -> Result<Vec<Page>, EngineError> {
        let mut pages = Vec::new();
        for directory in self.ground.state.applies()? {
            pages.extend(Page::read(&directory)?);
        }
        pages.sort_by(|a, b| (b.at, &b.id).cmp(&(a.at, &a.id)));
        Ok(pages)
    }

    /// By its id or the beginning of it.
    pub(crate) fn page(&self, id: &str) -> Result<Page, EngineError> {
        let mut fitting: Vec<Page> = self.history()?.into_iter().filter(|p| p.id.starts_with(id)).collect();
        match (fitting.pop(), fitting.is_empty()) {
            (Some(page), true) if !id.is_empty() => Ok(page),
            (Some(last), _) => Err(ChangesError::AmbiguousApply {
                prefix: id.to_owned(),
                ids: fitting.into_iter().chain([last]).map(|p| p.id).collect(),
            }
            .into()),
            (None, _) => Err(ChangesError::NoSuchApply { id: id.to_owned() }.into()),
        }
    }

    /// What an apply made sandboxes start from does not count any more, except at some paths. Of an undo: what it took back does
    /// again.
    pub(crate) fn note_undone(&self, id: &str, except: &[PathBuf]) -> Result<(), EngineError> {
        let mut fates = vec![Fate { apply: id.to_owned(), undone: true, except: except.to_vec() }];
        let undo_of = |id: &str| Page::read(&self.ground.state.apply_path(id)).map(|page| page.and_then(|page| page.undo_of));
        let mut taken_back = undo_of(id)?.filter(|_| except.is_empty());
        while let Some(id) = taken_back {
            taken_back = undo_of(&id)?;
            let undone = fates.last().is_some_and(|above| !above.undone);
            fates.push(Fate { apply: id, undone, except: Vec::new() });
        }
        let file = self.ground.undone_file();
        base::note(&file, &fates).map_err(|e| EngineError::io("write", &file, e))
    }

    pub(crate) fn mark_undone(&self, id: &str, by: &str) -> Result<(), EngineError> {
        let directory = self.ground.state.apply_path(id);
        match Page::read(&directory)? {
            Some(page) => Page { undone_by: Some(by.to_owned()), ..page }.write(&directory),
            None => Ok(()),
        }
    }

    /// Keeps as many as the user wants to be able to undo. What cannot be deleted now is tried again next time.
    pub(crate) fn forget_old_applies(&self, newest: &str) {
        let Ok(pages) = self.history() else { return };
        for page in pages.iter().skip(self.ground.caller.config.apply.keep.max(1)).filter(|p| p.id != newest) {
            let _ = whatif_layers::remove::tree(&self.ground.state.apply_path(&page.id));
        }
    }
}
