//! Idempotency: what was asked for twice is done once, whichever verb it was.

use crate::StoreError;

pub trait Keys {
    /// Claims a key for a request. Whoever gets `Fresh` does the work, and settles or gives up the claim. A key whose time is up is as
    /// good as new, and so is a claim that was neither settled nor given up in time.
    fn claim(&self, key: &Key<'_>, now: u64) -> Result<Claim, StoreError>;
    /// The work is done: this is what it made. Who asks again until `expires_at` gets it.
    fn settle(&self, key: &Key<'_>, outcome: &str, expires_at: u64) -> Result<(), StoreError>;
    /// The work failed and may be tried again.
    fn give_up(&self, key: &Key<'_>) -> Result<(), StoreError>;
    /// Forgets keys whose time is up, and tells how many.
    fn forget_expired(&self, now: u64) -> Result<u64, StoreError>;
}

#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Whose key it is: two who choose the same one do not meet.
    pub scope: &'a str,
    pub key: &'a str,
    pub verb: &'a str,
    /// A digest of what was asked for. The same key with another request is an error.
    pub request: &'a str,
    /// A claim that is not settled by then is given up.
    pub until: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    Fresh,
    /// Somebody is at it.
    Running,
    Done(String),
}
