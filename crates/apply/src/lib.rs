//! The transaction that makes approved changes real.
#![forbid(unsafe_code)]
