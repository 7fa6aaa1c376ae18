//! A sandbox that was rejected as a whole stays rejected when it runs again, as long as nothing more is changed in it.

use std::path::PathBuf;

use whatif_diff::digest::{self, Form};
use whatif_sys::absence::MeansAbsent;
use whatif_types::Sandbox;

use crate::ground::Ground;
use crate::{EngineError, private_file};

/// In the sandbox's directory: the digest of what was rejected.
const FILE: &str = "rejected";

impl Ground {
    /// Nothing may run in it.
    pub(crate) fn note_rejection(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let path = self.rejection(sandbox)?;
        private_file::replace_durably(&path, self.digest_of_all(sandbox)?.as_bytes())
            .map_err(|e| EngineError::io("write", &path, e))
    }

    /// Some of it is wanted after all.
    pub(crate) fn forget_rejection(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let path = self.rejection(sandbox)?;
        match std::fs::remove_file(&path) {
            Err(error) if !error.means_absent() => Err(EngineError::io("remove", &path, error)),
            _ => Ok(()),
        }
    }

    /// Whether all that a sandbox changed was rejected. What cannot be looked at may be something new.
    pub(crate) fn is_all_rejected(&self, sandbox: &Sandbox) -> bool {
        let rejected = self.rejection(sandbox).ok().and_then(|path| std::fs::read_to_string(path).ok());
        rejected.is_some_and(|rejected| self.digest_of_all(sandbox).is_ok_and(|now| now == rejected))
    }

    fn digest_of_all(&self, sandbox: &Sandbox) -> Result<String, EngineError> {
        Ok(digest::of(&self.look(sandbox)?.changes, Form::Times))
    }

    fn rejection(&self, sandbox: &Sandbox) -> Result<PathBuf, EngineError> {
        Ok(self.directory(sandbox)?.join(FILE))
    }
}
