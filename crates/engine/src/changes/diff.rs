//! `whatif diff`: what a sandbox changed, or what makes one sandbox of another.

mod document;
pub mod granted_words;
mod implied;
mod patch;

use whatif_diff::{ChangeSet, Depth, Found, between};
use whatif_types::{Sandbox, Selector};

pub use self::document::{Document, Stats};
pub use self::implied::{Implied, has_any_in};
pub use self::patch::{LeftOut, write_patch};
use crate::EngineError;
use crate::changes::{Changes, ChangesError};
use crate::ground::GroundError;
use crate::ground::still::Binding;
pub use crate::merge::CONTEXT_LINES;

/// What is compared.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A sandbox with what it started from.
    Sandbox(Selector),
    /// Two sandboxes or snapshots. No name means reality.
    Between(Option<String>, Option<String>),
}

/// A change set and whose it is.
#[derive(Debug)]
pub struct Diff {
    pub sandbox: Sandbox,
    /// How a reader would call it: a name, or `a..b`.
    pub title: String,
    pub set: ChangeSet,
    /// If nothing differs from reality any more: the applies that made it so, oldest first.
    pub applied_as: Vec<String>,
}

impl Changes {
    pub fn diff(&self, subject: &Subject, depth: Depth) -> Result<Diff, EngineError> {
        match subject {
            Subject::Sandbox(which) => {
                let sandbox = self.ground.resolve_to_use(which)?;
                self.ground.require_current(&sandbox)?;
                let set = self.ground.change_set(&sandbox, depth)?;
                let is_equal = set.changes.is_empty() && set.unreadable.is_empty();
                let applied_as = if is_equal { self.applies_of(&sandbox)? } else { Vec::new() };
                Ok(Diff { title: sandbox.name.clone(), sandbox, set, applied_as })
            }
            Subject::Between(from, to) => self.diff_between(from.as_deref(), to.as_deref(), depth),
        }
    }

    fn diff_between(&self, from: Option<&str>, to: Option<&str>, depth: Depth) -> Result<Diff, EngineError> {
        let side = |name: Option<&str>| -> Result<Option<(Sandbox, Found)>, EngineError> {
            let Some(name) = name else { return Ok(None) };
            if self.is_sandbox(name)? {
                let sandbox = self.ground.resolve(&name.into())?;
                let found = self.ground.find_changes(&sandbox)?;
                return Ok(Some((sandbox, found)));
            }
            let (sandbox, snapshot) = self.ground.find_snapshot(name).map_err(no_such_position)?;
            let found = self.ground.changes_at(&sandbox, &snapshot)?;
            Ok(Some((sandbox, found)))
        };
        let title = format!("{}..{}", from.unwrap_or_default(), to.unwrap_or_default());
        let (from, to) = (side(from)?, side(to)?);
        let Some(sandbox) = to.as_ref().or(from.as_ref()).map(|(s, _)| s.clone()) else {
            return Err(ChangesError::ComparesReality.into());
        };
        let (old, new) = (from.map(|f| f.1).unwrap_or_default(), to.map(|t| t.1).unwrap_or_default());
        let set = self.ground.sort_out(&sandbox, between(&old, &new, true), depth, Binding::LOOSE)?;
        Ok(Diff { sandbox, title, set, applied_as: Vec::new() })
    }

    /// Whether a word on the command line names a sandbox.
    pub fn is_sandbox(&self, name: &str) -> Result<bool, EngineError> {
        match self.ground.resolve(&name.into()) {
            Ok(_) => Ok(true),
            Err(EngineError::Ground(GroundError::NoSuchSandbox { .. } | GroundError::Ambiguous { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A side may be a sandbox or a snapshot.
fn no_such_position(error: EngineError) -> EngineError {
    match error {
        EngineError::Ground(GroundError::NoSuchSnapshot { label, sandbox: None }) => {
            GroundError::NoSuchPosition { name: label }.into()
        }
        other => other,
    }
}
