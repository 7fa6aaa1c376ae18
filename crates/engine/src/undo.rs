//! `whatif undo`: the reverse of an apply, as a transaction of its own.

use std::path::{Path, PathBuf};

use whatif_apply::{Change as Act, Operation, Plan};

use crate::apply::{About, BaseAfter, Left, Watch};
use crate::history::Page;
use crate::turn::Turn;
use crate::{Engine, EngineError, now};

/// An undo that could be done.
#[derive(Debug)]
pub struct PreparedUndo {
    /// What is taken back.
    pub page: Page,
    /// What will be restored.
    pub paths: Vec<PathBuf>,
    /// The id of the undo itself.
    pub id: String,
    plan: Plan,
    /// Nobody else applies in these trees meanwhile.
    turn: Option<Turn>,
}

impl PreparedUndo {
    /// What an earlier apply left unfinished in these trees, and what became of it.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.turn.as_ref().map_or(&[], |turn| &turn.notes)
    }
}

impl Engine {
    /// The same for an undo that follows at once: until then no apply comes between.
    pub fn prepare_undo_in_turn(&self, id: Option<&str>, watch: &mut Watch<'_>) -> Result<PreparedUndo, EngineError> {
        let page = self.page_to_undo(id)?;
        let roots = whatif_apply::read(&self.state.apply_path(&page.id))?.roots;
        let turn = Some(self.take_turn(&roots, watch)?);
        Ok(PreparedUndo { turn, ..self.prepare_undo(Some(&page.id))? })
    }

    fn page_to_undo(&self, id: Option<&str>) -> Result<Page, EngineError> {
        match id {
            Some(id) => self.page(id),
            None => self.latest_apply(),
        }
    }

    /// Finds out what an undo would do. Without an id: the latest apply in this project that was not undone.
    pub fn prepare_undo(&self, id: Option<&str>) -> Result<PreparedUndo, EngineError> {
        let page = self.page_to_undo(id)?;
        if let Some(by) = &page.undone_by {
            return Err(EngineError::Undone { id: page.id, by: by.clone() });
        }
        let directory = self.state.apply_path(&page.id);
        let (mut plan, changed) = whatif_apply::undo_plan(&directory)?;
        if !changed.is_empty() {
            let changed = changed.into_iter().map(|c| (c.path, c.why)).collect();
            return Err(EngineError::ChangedSince { id: page.id, changed });
        }
        let about: About = serde_json::from_value(whatif_apply::read(&directory)?.about)
            .map_err(|e| EngineError::io("read", &directory, e.into()))?;
        let undo = About {
            id: crate::create::new_id()?.to_string(),
            at: now(),
            who: self.who(),
            undo_of: Some(page.id.clone()),
            takes_back: !about.takes_back,
            bases: about.bases_before.iter().cloned().map(BaseAfter::Again).collect(),
            bases_before: Vec::new(),
            ..about
        };
        let id = undo.id.clone();
        plan.about = serde_json::to_value(&undo).map_err(|e| EngineError::io("describe", &directory, e.into()))?;
        // Directories that only get their times back are nothing to speak of.
        let is_told = |path: &PathBuf, o: &Operation| !matches!(o.change, Act::Set { .. }) || page.paths.contains(path);
        let restored = plan.operations.iter().map(|o| (o.absolute(&plan.roots), o));
        let paths = restored.filter(|(path, o)| is_told(path, o)).map(|(path, _)| path).collect();
        Ok(PreparedUndo { page, paths, id, plan, turn: None })
    }

    pub fn undo(&self, prepared: &PreparedUndo, watch: &mut Watch<'_>) -> Result<(), EngineError> {
        let done = self.transact(&prepared.id, &prepared.plan, prepared.turn.as_ref(), Left::Look, watch)?;
        // The sandbox may be gone; what it did is undone all the same.
        let _ = done.sandbox.map(|sandbox| {
            let lock = self.lock(&sandbox)?;
            self.look_anew(sandbox, &lock, &prepared.plan, done.is_outdated)
        });
        Ok(())
    }

    fn latest_apply(&self) -> Result<Page, EngineError> {
        let is_here = |project: &Path| self.context.cwd.starts_with(project);
        let pages = self.history()?;
        let is_candidate = |p: &&Page| p.undone_by.is_none() && p.undo_of.is_none() && is_here(&p.project);
        pages.iter().find(is_candidate).cloned().ok_or(EngineError::NothingToUndo)
    }
}
