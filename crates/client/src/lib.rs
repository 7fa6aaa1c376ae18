//! What the programs that use the engine have in common: they read from their process who asks, and start chores beside it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod caller;
pub mod chores;
mod user_names;
