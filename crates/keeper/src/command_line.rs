//! How the keeper's program is started: the first word after its name.

/// `keeper <id> <network>`: PID 1 of a sandbox.
pub const KEEPER: &str = "keeper";
/// The keeper of a root that has nothing else; as without any word.
pub const INIT: &str = "init";
/// The helper that puts a sandbox on other layers.
pub const RESTACK: &str = "restack";
