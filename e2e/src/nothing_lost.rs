//! A model-based fuzzer: reality and several sandboxes of it are edited at random, every verb is used in between, some commands
//! are killed or meet errors, and laws say when information was lost.
//!
//! The model is not a second implementation. Every edit writes a *token* that no other edit ever writes, so what is there can be
//! told from what was there without knowing how it got there: an apply may take out of reality only what its sandbox took out
//! of its own view, may bring only what its sandbox wrote, an undo takes back only what its apply did, nothing else ever changes
//! reality, and what a sandbox wrote stays in its view until it removes it.

mod alike;
mod edits;
mod fate;
mod laws;
mod life;
mod survey;
mod verbs;

pub use alike::alike;
pub use life::{Backend, Life};
