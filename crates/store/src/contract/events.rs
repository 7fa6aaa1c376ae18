//! What happened, in order, for those who watch.

use serde_json::Value;

use crate::StoreError;

pub trait Events {
    /// Records what happened and returns its number. Numbers grow without a gap, in the order in which events can be seen: who has
    /// read up to one has missed nothing before it.
    fn append_event(&self, happening: &Happening<'_>, now: u64) -> Result<u64, StoreError>;
    /// At most `limit` events after that number, in order. An error if some of them were dropped meanwhile.
    fn events_after(&self, number: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
    /// Drops everything before an event.
    fn drop_events_before(&self, number: u64) -> Result<(), StoreError>;
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
