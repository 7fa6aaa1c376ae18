//! What was cut short at one sandbox, and is brought to its end by whoever takes its lock next.

pub(crate) mod intent;
mod shift;
pub(crate) mod take_back;
