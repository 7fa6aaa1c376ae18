//! Races without running them: what an experiment file says, what came out of checks, and who is the best.
//!
//! Nothing here touches the file system, the clock or the environment. What checks print is written by whatever was tried
//! and is believed only where it has the whole form of a known report; reading it takes a bounded amount of memory.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod attempts;
pub mod counts;
pub mod file;
mod lines;
pub mod metric;
pub mod plan;
pub mod rank;
pub mod spread;
