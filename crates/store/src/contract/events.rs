//! What happened, in order, for those who watch.

use serde_json::Value;

use crate::StoreError;

pub trait Events {
    /// Records what happened and returns its number. Numbers grow without a gap, in the order in which events can be seen: who has
    /// read up to one has missed nothing before it.
    fn append_event(&self, happening: &Happening<'_>, now: u64) -> Result<u64, StoreError>;
    /// At most `limit` events after that number, in order. An error if some of them were dropped meanwhile.
    fn events_after(&self, number: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
    /// The number of the latest event, also of one that was dropped since; 0 if there never was one.
    fn last_event(&self) -> Result<u64, StoreError>;
    /// The number of the earliest event that is kept, or the next one if there is none.
    fn first_event(&self) -> Result<u64, StoreError>;
    /// Drops everything before an event.
    fn drop_events_before(&self, number: u64) -> Result<(), StoreError>;

    /// How much of a spool is recorded: bytes from its beginning.
    fn spooled(&self, spool: &str) -> Result<u64, StoreError>;
    /// Records the events of one part of a spool, those of them that are deeds in the audit log too, and that the part is recorded. Returns false, and records nothing, if another
    /// process has recorded something of the spool since `part.from` was read.
    fn append_spooled(&self, part: &SpoolPart<'_>, events: &[Spooled]) -> Result<bool, StoreError>;
    /// Forgets a spool that is gone.
    fn forget_spool(&self, spool: &str) -> Result<(), StoreError>;
}

/// A part of a file in which events wait to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct SpoolPart<'a> {
    pub spool: &'a str,
    /// Bytes from the beginning of the spool.
    pub from: u64,
    pub to: u64,
}

/// An event that waited in a spool.
#[derive(Clone, Debug, PartialEq)]
pub struct Spooled {
    pub at: u64,
    pub kind: String,
    pub subject: String,
    pub owner: Option<String>,
    pub body: Value,
    /// The principal, if the audit log gets it as well: as an entry with the kind as its action.
    pub deed_of: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Happening<'a> {
    pub kind: &'a str,
    /// What it happened to.
    pub subject: &'a str,
    pub owner: Option<&'a str>,
    pub body: &'a Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub number: u64,
    pub at: u64,
    pub kind: String,
    pub subject: String,
    pub owner: Option<String>,
    pub body: Value,
}
