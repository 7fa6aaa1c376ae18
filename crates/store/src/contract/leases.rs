//! Who may work on something that must not be worked on by two.

use crate::StoreError;

pub trait Leases {
    /// Takes the lease of a resource for `seconds`, if nobody has it or its time is up. Each holder gets a higher number than all
    /// before, so that whoever is late can be told from whoever is due (`Sandboxes::update_under`).
    fn acquire(&self, resource: &str, holder: &str, node: &str, now: u64, seconds: u64) -> Result<Lease, StoreError>;
    /// Prolongs it, if it is still held.
    fn renew(&self, lease: &Lease, now: u64, seconds: u64) -> Result<Lease, StoreError>;
    /// Gives it back. One that somebody else has by now is left alone.
    fn release(&self, lease: &Lease) -> Result<(), StoreError>;
    /// Who has it.
    fn lease_of(&self, resource: &str, now: u64) -> Result<Option<Lease>, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub resource: String,
    pub holder: String,
    pub node: String,
    pub fence: u64,
    pub expires_at: u64,
}
