//! Where a sandbox is, and the keeper that serves it.

use std::path::PathBuf;

use whatif_diff::{Kind, Node};
use whatif_keeper::Client;
use whatif_provider::Instance;
use whatif_types::Sandbox;
use whatif_types::sandbox::note;

use crate::EngineError;
use crate::ground::keepers::instance_in;
use crate::ground::{Ground, GroundError};

impl Ground {
    pub(crate) fn connect(&self, sandbox: &Sandbox) -> Result<Client, EngineError> {
        Ok(self.instance(sandbox)?.connect()?)
    }

    /// Nothing is looked at before it is asked something.
    pub(crate) fn instance(&self, sandbox: &Sandbox) -> Result<Box<dyn Instance>, EngineError> {
        instance_in(sandbox, &self.directory(sandbox)?)
    }

    pub(crate) fn directory(&self, sandbox: &Sandbox) -> Result<PathBuf, EngineError> {
        match self.state.find(&sandbox.id)? {
            Some(directory) => Ok(directory),
            // Removed meanwhile, unless it is still recorded.
            None if self.store.get(&sandbox.id)?.is_none() => Err(GroundError::NoSuchSandbox { name: sandbox.name.clone() }.into()),
            None => {
                Err(self.require_heads(sandbox).err().unwrap_or_else(|| GroundError::Busy { name: sandbox.name.clone() }.into()))
            }
        }
    }

    /// Lets `exec` find a running sandbox without opening the records. Only a shortcut: without it the records are asked.
    pub(crate) fn publish(&self, sandbox: &Sandbox) {
        if let Ok(record) = note::write(sandbox) {
            let _ = self.state.publish(&sandbox.name, &sandbox.id, &record);
        }
    }

    /// The directory and the record of a sandbox that was published under this name. It may have stopped since.
    pub(crate) fn published(&self, name: &str) -> Option<(PathBuf, Sandbox)> {
        let (directory, record) = self.state.published(name)?;
        note::read(&record).filter(|sandbox| sandbox.name == name).map(|sandbox| (directory, sandbox))
    }

    pub(crate) fn has_project(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        Ok(Node::of(&sandbox.project)?.is_some_and(|n| n.kind == Kind::Directory))
    }

    /// A project that was moved or deleted says nothing about the sandbox's changes.
    pub(crate) fn require_project(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        match self.has_project(sandbox)? {
            true => Ok(()),
            false => Err(GroundError::ProjectMissing { name: sandbox.name.clone(), project: sandbox.project.clone() }.into()),
        }
    }

    /// An ordinary user's sandbox may have closed files to itself, which have to be read all the same. Without it, those fail.
    pub(crate) fn own_everything(&self) {
        if !self.caller.works_as_root() {
            let _ = whatif_sys::namespaces::own_everything(self.caller.uid, self.caller.gid);
        }
    }
}
