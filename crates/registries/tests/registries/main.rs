//! Tools are asked in homes made for them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "all of this is tests")]

mod cache;
mod hostile_tools;
mod made;
mod real_tools;
