//! What became of a connection.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes of HTTP from the sandbox, as it wrote them: how long a secret is cannot be told from it.
    pub sent: u64,
    /// Bytes of HTTP to the sandbox.
    pub received: u64,
    pub requests: u64,
    /// How many placeholders became secrets.
    pub replaced: u64,
    /// The first placeholder that was left in a field, and what would fill it in.
    pub left: Option<String>,
    pub outcome: Outcome,
}

/// How it ended. The texts are for people and hold no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    #[default]
    Ended,
    /// Something the sandbox sent is not passed on.
    Refused(String),
    /// The other side could not be reached safely, or somebody broke off.
    Failed(String),
}
