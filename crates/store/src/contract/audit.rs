//! Who did what: entries that are only ever added, each with a hash over itself and the one before.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::StoreError;

pub trait Audit {
    /// Adds an entry at the end of the chain, and returns it.
    fn append_deed(&self, deed: &Deed<'_>, now: u64) -> Result<AuditEntry, StoreError>;
    /// At most `limit` entries after that number, in order.
    fn deeds_after(&self, number: u64, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;
    /// Goes through the whole chain, and returns its last entry. An error names the first one that is not as it was written. What was
    /// cut off at the end, only somebody who kept the last hash can tell.
    fn verify_deeds(&self) -> Result<Option<AuditEntry>, StoreError>;
}

#[derive(Clone, Copy, Debug)]
pub struct Deed<'a> {
    pub principal: &'a str,
    pub action: &'a str,
    pub subject: &'a str,
    pub body: &'a Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    pub number: u64,
    pub at: u64,
    pub principal: String,
    pub action: String,
    pub subject: String,
    /// As it was written, to the byte.
    pub body: String,
    pub hash: [u8; 32],
}

impl AuditEntry {
    /// The hash that it must have after the one before it. The length of each part goes in, so that none can lend bytes to another.
    #[must_use]
    pub(crate) fn hash_after(&self, previous: &[u8; 32]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(previous);
        hash.update(self.number.to_be_bytes());
        hash.update(self.at.to_be_bytes());
        for part in [&self.principal, &self.action, &self.subject, &self.body] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().into()
    }
}
