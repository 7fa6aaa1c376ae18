//! Limits on room that the file system itself holds a head to, where it can and this user may set them.

use std::path::Path;

use whatif_layers::allotment::{Allotments, Mounted, is_untouched, join, project_of, trees_of};
use whatif_types::boot::Room;
use whatif_types::limits::Means;
use whatif_types::{Backend, LayerId, Limits};

use crate::EngineError;
use crate::ground::Ground;
use crate::ground::limits::Lease;

/// What becomes of a head that is no project yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounting {
    /// Its sandbox starts. With nothing in it, it becomes one.
    Anew,
    /// It follows another one under a keeper that was told what to do about limits when it started.
    InItsPlace,
}

impl Ground {
    /// The project that a head with limited room belongs to, which it is given if it can be. `None`: it is watched.
    pub(crate) fn project_for_head(
        &self,
        lease: Lease<'_>,
        directory: &Path,
        (backend, mounting): (Backend, Mounting),
    ) -> Result<Option<u32>, EngineError> {
        // Whoever serves fuse-overlayfs writes as itself.
        if !lease.limits.limits_room() || backend == Backend::Fuse {
            return Ok(None);
        }
        let (head, work) = (directory.join("head"), directory.join("work"));
        // Also where the file system no longer counts: things are moved between directories of one project only.
        if let Some(project) = project_of(&head)? {
            join(&work, project)?;
            return Ok(Some(project));
        }
        let may_be_one = match mounting {
            Mounting::Anew => is_untouched(&head)?,
            Mounting::InItsPlace => {
                lease.sandbox.is_some_and(|sandbox| sandbox.details.enforced.iter().any(|e| e.by == Means::Quota))
            }
        };
        match self.allotments()?.filter(|_| may_be_one) {
            Some(allotments) => Ok(Some(allotments.begin(&head, &work)?)),
            None => Ok(None),
        }
    }

    /// Whether the file system will hold a sandbox with these limits to them.
    pub(crate) fn has_allotment(&self, limits: &Limits, directory: &Path) -> Result<bool, EngineError> {
        Ok(limits.limits_room() && self.allotment_of(&directory.join("head"))?.is_some())
    }

    /// Has the file system hold the head to what its sandbox's layers leave of its room. False: it does not, and it is to be watched.
    pub(crate) fn limit_room(
        &self,
        directory: &Path,
        room: &Room,
        mounted: impl FnOnce(usize) -> Mounted,
    ) -> Result<bool, EngineError> {
        let head = directory.join("head");
        let Some((allotments, project)) = self.allotment_of(&head)? else { return Ok(false) };
        let bytes = room.bytes.map(|bytes| bytes.saturating_sub(room.frozen_bytes));
        let files = room.files.map(|files| files.saturating_sub(room.frozen_files));
        allotments.limit(project, bytes, files, mounted(trees_of(&head)?))?;
        Ok(true)
    }

    /// Nothing more will be written to the head in this directory. Whether it was a project.
    ///
    /// What cannot be freed now has no files soon, and `gc` finds it.
    pub(crate) fn release_room(&self, limits: &Limits, directory: &Path) -> bool {
        limits.limits_room() && self.release(&directory.join("head"))
    }

    /// The same where nobody knows whether it had limits.
    pub(crate) fn release_any_room(&self, directory: &Path) {
        self.release(&directory.join("head"));
    }

    /// The same for a head that has become a layer. Otherwise an apply could not copy what it needs into it.
    pub(crate) fn release_layer(&self, limits: &Limits, layer: &LayerId) {
        if limits.limits_room() {
            self.release(&self.state.layer_path(layer));
        }
    }

    fn release(&self, head: &Path) -> bool {
        match project_of(head) {
            Ok(None) => false,
            Ok(Some(project)) => {
                if let Ok(Some(allotments)) = self.allotments() {
                    let _ = allotments.release(project);
                }
                true
            }
            // It may be one.
            Err(_) => true,
        }
    }

    fn allotment_of(&self, head: &Path) -> Result<Option<(Allotments, u32)>, EngineError> {
        let Some(project) = project_of(head)? else { return Ok(None) };
        Ok(self.allotments()?.map(|allotments| (allotments, project)))
    }

    /// Those of the file system of the state directory, if this user may set them.
    pub(crate) fn allotments(&self) -> Result<Option<Allotments>, EngineError> {
        Ok(Allotments::of(self.state.root())?.ok())
    }
}
