//! What is run for a patch, and for a commit that is taken back.

/// Reads the patch from its standard input.
pub const APPLY: &str = include_str!("apply.sh");

/// Its first argument is the commit.
pub const TAKE_BACK: &str = include_str!("take_back.sh");
