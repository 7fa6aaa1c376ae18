//! Events and entries of the audit log as clients show them.

use serde::Serialize;
use serde_json::{Map, Value};
use whatif_store::{AuditEntry, Event};
use whatif_types::timestamp::rfc3339;

/// An event as clients show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventDocument {
    pub number: u64,
    pub at: String,
    pub kind: String,
    /// The name of the sandbox, template or race.
    pub subject: String,
    pub owner: Option<String>,
    /// The principal that caused it, and through which client.
    pub by: String,
    pub via: String,
    /// What else there is to say about this kind of event.
    pub about: Map<String, Value>,
}

impl From<Event> for EventDocument {
    fn from(event: Event) -> Self {
        let Event { number, at, kind, subject, owner, body } = event;
        let (by, via, about) = parts(body);
        Self { number, at: rfc3339(at), kind, subject, owner, by, via, about }
    }
}

/// An entry of the audit log as clients show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeedDocument {
    pub number: u64,
    pub at: String,
    pub principal: String,
    pub action: String,
    pub subject: String,
    pub via: String,
    pub about: Map<String, Value>,
    /// Of this entry and the hash of the one before it.
    pub hash: String,
}

impl From<AuditEntry> for DeedDocument {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { number, at, principal, action, subject, body, hash } = entry;
        let (_, via, about) = parts(serde_json::from_str(&body).unwrap_or_default());
        let hash = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { number, at: rfc3339(at), principal, action, subject, via, about, hash }
    }
}

fn parts(body: Value) -> (String, String, Map<String, Value>) {
    let mut about = match body {
        Value::Object(about) => about,
        _ => Map::new(),
    };
    let mut word = |name: &str| about.remove(name).and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default();
    let (by, via) = (word("by"), word("via"));
    (by, via, about)
}
