//! What a crash left and a person has to know of.

use std::path::{Path, PathBuf};

use whatif_apply::ApplyError;
use whatif_types::Explain;
use whatif_types::explain::whole_message;
use whatif_types::remedy::Sentence;

#[derive(Clone, Debug)]
pub struct Trouble {
    pub message: Sentence,
    /// It could not be repaired, and stands in the way of other applies.
    pub is_damage: bool,
    /// Where, if that is known.
    pub root: Option<PathBuf>,
}

impl Trouble {
    pub(crate) fn note(message: String) -> Self {
        Self { message: message.into(), is_damage: false, root: None }
    }

    pub(crate) fn unfinished(directory: &Path, error: &ApplyError) -> Self {
        let root = if let ApplyError::RootGone { root, .. } = error { Some(root.clone()) } else { None };
        Self { root, ..Self::damage(directory, error) }
    }

    pub(crate) fn damage(directory: &Path, error: &dyn Explain) -> Self {
        let mut message = Sentence::from(format!("an interrupted apply cannot be repaired: {}", whole_message(error)));
        for remedy in error.remedies() {
            message = message.and("; ".into()).and(remedy);
        }
        if !message.to_string().contains("move") {
            message = message.and(format!("; to abandon it, move {} away", directory.display()).into());
        }
        Self { message, is_damage: true, root: None }
    }
}
