//! A keeper that starts while its sandbox is still being thought about.
//!
//! To load it and to make its network takes as long as to find out what the sandbox shall see, and neither waits for the other.

use std::cell::Cell;

use whatif_provider::{Launch, Launching};

use crate::ids::new_id;
use crate::lifecycle::Lifecycle;
use crate::lifecycle::create::{NewSandbox, Whereabouts};

/// For the first who makes a sandbox with it. If nobody does, it ends.
pub(crate) struct Ahead(Cell<Option<Box<dyn Launching>>>);

impl Ahead {
    pub(super) fn take(&self) -> Option<Box<dyn Launching>> {
        self.0.take()
    }
}

impl Lifecycle {
    /// `None` where there may be a better one, or where it cannot be had: whoever makes the sandbox finds out why.
    pub(super) fn launch_ahead(&self, new: &NewSandbox, at: &Whereabouts) -> Option<Ahead> {
        if at.config.pool.size > 0 || new.template.is_some() {
            return None;
        }
        let choice = self.first_choice(new.backend.or(at.config.layers.backend));
        let (id, identity, programs) = (new_id().ok()?, self.identity_for(&choice), &self.ground.state.cache());
        let is_expendable = !new.limits.are_off() && !at.config.limits.are_off();
        let launch = Launch { id: &id, identity, net: at.net, is_expendable, programs };
        self.launch(&launch, new.provider().ok()?).ok().map(|launching| Ahead(Cell::new(Some(launching))))
    }
}
