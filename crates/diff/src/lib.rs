//! What a sandbox changed. So far only how much, and whether it matters; typed change sets build on the same walk.
#![forbid(unsafe_code)]

mod noise;
pub mod summary;

pub use summary::{Change, ChangeKind, Summary, TreeHead, summarize};
