//! What is said over the control socket.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Longer lines are not read.
pub const LONGEST_LINE: usize = 64 << 10;

/// To a supervisor: `{"op":"status"}` or `{"answer":{"id":1,"allow":true}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Said {
    Operation(Operation),
    Answer { answer: Answer },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Operation {
    Status,
    /// `network.json` has changed. It may come along as a descriptor, for a supervisor that may not open it.
    /// Connections that are no longer allowed are cut.
    Reload,
    /// A listening socket comes along.
    Publish {
        inside: u16,
    },
    Unpublish {
        inside: u16,
    },
    /// This client answers questions for as long as it stays.
    Asks,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub id: u64,
    pub allow: bool,
}

/// From a supervisor: `{"ok":true}`, `{"ok":false,"error":"…"}`, `{"status":{…}}`; to those who answer questions also
/// `{"ask":{…}}`, `{"withdrawn":1}`, `{"unasked":{…}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reply {
    Status {
        status: Status,
    },
    Ask {
        ask: Ask,
    },
    /// The question with this id need not be answered any more.
    Withdrawn {
        withdrawn: u64,
    },
    /// Denied without a question, as everything else that no rule allows will be for a while.
    Unasked {
        unasked: Ask,
    },
    Outcome {
        ok: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

impl Reply {
    pub(crate) fn done() -> Self {
        Self::Outcome { ok: true, error: None }
    }

    pub(crate) fn failed(error: impl Into<String>) -> Self {
        Self::Outcome { ok: false, error: Some(error.into()) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Open now, those that are not decided yet included.
    pub connections: usize,
    /// Connections and requests since this supervisor started.
    pub allowed: u64,
    pub denied: u64,
    /// Lines that were left out of the log.
    pub omitted: u64,
    /// Connections that were reset because there were too many.
    pub turned_away: u64,
    pub published: Vec<PublishedPort>,
    /// Clients that answer questions.
    pub answerers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPort {
    pub inside: u16,
    pub at: SocketAddr,
}

/// May the sandbox go there?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub id: u64,
    pub host: String,
    pub port: u16,
    /// The rule that a yes means.
    pub rule: String,
}

/// What those who answer questions are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Question(Ask),
    /// The question with this id need not be answered any more.
    Withdrawn(u64),
    /// There are too many questions: this one was denied without being asked, and so are others for now.
    TooMany(Ask),
}

impl From<Asked> for Reply {
    fn from(asked: Asked) -> Self {
        match asked {
            Asked::Question(ask) => Self::Ask { ask },
            Asked::Withdrawn(withdrawn) => Self::Withdrawn { withdrawn },
            Asked::TooMany(unasked) => Self::Unasked { unasked },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_has_a_fixed_form() {
        for (text, said) in [
            (r#"{"op":"status"}"#, Said::Operation(Operation::Status)),
            (r#"{"op":"reload"}"#, Said::Operation(Operation::Reload)),
            (r#"{"op":"publish","inside":80}"#, Said::Operation(Operation::Publish { inside: 80 })),
            (r#"{"op":"unpublish","inside":80}"#, Said::Operation(Operation::Unpublish { inside: 80 })),
            (r#"{"op":"asks"}"#, Said::Operation(Operation::Asks)),
            (r#"{"answer":{"id":7,"allow":true}}"#, Said::Answer { answer: Answer { id: 7, allow: true } }),
        ] {
            assert_eq!(serde_json::from_str::<Said>(text).unwrap(), said);
            assert_eq!(serde_json::to_string(&said).unwrap(), text);
        }
        let ask = Ask { id: 1, host: "a.example".to_owned(), port: 443, rule: "a.example".to_owned() };
        for (text, reply) in [
            (r#"{"ok":true}"#, Reply::done()),
            (r#"{"ok":false,"error":"no"}"#, Reply::failed("no")),
            (r#"{"ask":{"id":1,"host":"a.example","port":443,"rule":"a.example"}}"#, Reply::Ask { ask: ask.clone() }),
            (r#"{"withdrawn":7}"#, Reply::Withdrawn { withdrawn: 7 }),
            (r#"{"unasked":{"id":1,"host":"a.example","port":443,"rule":"a.example"}}"#, Reply::Unasked { unasked: ask }),
        ] {
            assert_eq!(serde_json::from_str::<Reply>(text).unwrap(), reply);
            assert_eq!(serde_json::to_string(&reply).unwrap(), text);
        }
    }
}
