//! What undos of a part of an apply have left of it.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::EngineError;
use crate::changes::Changes;
use crate::changes::apply::About;
use crate::changes::history::Page;

impl Changes {
    /// The paths that are still as the apply made them; `None` if nothing of it was undone yet. The last undo wrote down what it and
    /// those before it left.
    pub(super) fn rest_of(&self, page: &Page) -> Result<Option<HashSet<PathBuf>>, EngineError> {
        let Some(last) = page.undone_by.as_ref().or(page.parts.last()) else { return Ok(None) };
        Ok(self.left_by(last)?.map(|left| left.into_iter().collect()))
    }

    /// What an undo left as it was; `None` if it is forgotten by now, as the oldest ones are.
    fn left_by(&self, undo: &str) -> Result<Option<Vec<PathBuf>>, EngineError> {
        let directory = self.ground.state.apply_path(undo);
        if Page::read(&directory)?.is_none() {
            return Ok(None);
        }
        let done = whatif_apply::read(&directory)?;
        let about: About = serde_json::from_value(done.about).map_err(|e| EngineError::io("read", &directory, e.into()))?;
        Ok(Some(about.skipped))
    }

    /// The paths that undos of an apply have taken back, but for one of them.
    pub(in crate::changes) fn undone_without(&self, page: &Page, except: &str) -> Result<HashSet<PathBuf>, EngineError> {
        let mut undone = HashSet::new();
        for undo in page.parts.iter().chain(&page.undone_by).filter(|undo| *undo != except) {
            let directory = self.ground.state.apply_path(undo);
            let Some(part) = Page::read(&directory)?.filter(|part| part.undone_by.is_none()) else { continue };
            let done = whatif_apply::read(&self.ground.state.apply_path(&part.id))?;
            undone.extend(done.operations.iter().map(|o| o.operation.absolute(&done.roots)));
        }
        Ok(undone)
    }
}
