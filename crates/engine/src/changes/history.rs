//! The applies that were made: pages of a book that `undo` reads backwards.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_apply::{Change as Act, Operation};
use whatif_diff::base::{self, Fate};
use whatif_diff::pattern::{Patterns, Scope};
use whatif_sys::absence::OrAbsent;
use whatif_types::{Sandbox, text};

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
    /// The packages of which it took something, as `manager:name`.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Undos that took back a part of this one, oldest first. One that took the rest is in `undone_by`.
    #[serde(default)]
    pub parts: Vec<String>,
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
            packages: about.packages.clone(),
            parts: Vec::new(),
            skipped: about.skipped.iter().take(MOST_PATHS).cloned().collect(),
        }
    }

    /// Whether this is an apply of a sandbox, and was not taken back since.
    fn made_real(&self, sandbox: &Sandbox) -> bool {
        self.sandbox_id == sandbox.id.as_str() && self.undo_of.is_none() && self.undone_by.is_none()
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
        let mut by = id.to_owned();
        while let Some(id) = taken_back {
            taken_back = undo_of(&id)?;
            let undone = fates.last().is_some_and(|above| !above.undone);
            let except = if undone { Vec::new() } else { self.real_again(&id, &by)? };
            fates.push(Fate { apply: id.clone(), undone: undone || !except.is_empty(), except });
            by = id;
        }
        let file = self.ground.undone_file();
        base::note(&file, &fates).map_err(|e| EngineError::io("write", &file, e))
    }

    /// Where an apply is real again once one of several undos of it is taken back; empty if nothing else of it is undone.
    fn real_again(&self, id: &str, without: &str) -> Result<Vec<PathBuf>, EngineError> {
        let directory = self.ground.state.apply_path(id);
        let Some(page) = Page::read(&directory)?.filter(|page| !page.parts.is_empty()) else { return Ok(Vec::new()) };
        let undone = self.undone_without(&page, without)?;
        if undone.is_empty() {
            return Ok(Vec::new());
        }
        let done = whatif_apply::read(&directory)?;
        let paths = done.operations.iter().map(|o| o.operation.absolute(&done.roots));
        Ok(paths.filter(|path| !undone.contains(path)).collect())
    }

    /// May be repeated.
    pub(crate) fn mark_undone(&self, id: &str, by: &About) -> Result<(), EngineError> {
        let directory = self.ground.state.apply_path(id);
        let Some(mut page) = Page::read(&directory)? else { return Ok(()) };
        match by.in_part {
            true if page.parts.contains(&by.id) => {}
            true => page.parts.push(by.id.clone()),
            // Who undoes once more takes what the last one left.
            false => page.parts.extend(page.undone_by.replace(by.id.clone()).filter(|earlier| *earlier != by.id)),
        }
        page.write(&directory)
    }

    /// Whether something that a pattern fits was made real by an apply of this sandbox, and not taken back since.
    pub(crate) fn is_applied(&self, sandbox: &Sandbox, pattern: &str) -> Result<bool, EngineError> {
        let roots = [sandbox.project.as_path(), self.ground.caller.cwd.as_path()];
        for page in self.history()?.iter().filter(|page| page.made_real(sandbox)) {
            let known: Vec<&Path> = page.paths.iter().map(PathBuf::as_path).collect();
            let patterns = Patterns::new(&[pattern.to_owned()], Scope::of_command(&roots, &known))?;
            if known.iter().any(|path| patterns.matches(path)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a package of this name, or of this manager, was made real by an apply of this sandbox, and not taken back since.
    pub(crate) fn is_package_applied(&self, sandbox: &Sandbox, word: &str) -> Result<bool, EngineError> {
        let is_called =
            |told: &String| told == word || told.split_once(':').is_some_and(|(manager, name)| manager == word || name == word);
        Ok(self.history()?.iter().any(|page| page.made_real(sandbox) && page.packages.iter().any(is_called)))
    }

    /// The applies that made real what a sandbox changed, oldest first. Those that were undone do not count.
    pub fn applies_of(&self, sandbox: &Sandbox) -> Result<Vec<String>, EngineError> {
        Ok(self.history()?.into_iter().rev().filter(|page| page.made_real(sandbox)).map(|page| page.id).collect())
    }

    /// Keeps as many as the user wants to be able to undo. What cannot be deleted now is tried again next time.
    pub(crate) fn forget_old_applies(&self, newest: &str) {
        let Ok(pages) = self.history() else { return };
        for page in pages.iter().skip(self.ground.caller.config.apply.keep.max(1)).filter(|p| p.id != newest) {
            let _ = whatif_layers::remove::tree(&self.ground.state.apply_path(&page.id));
        }
    }
}
