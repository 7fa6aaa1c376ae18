//! The keeper's program, carried by everything that starts keepers: people install one file.
//!
//! `build.rs` builds it: a small static program of its own, the same for every profile of what carries it.
#![forbid(unsafe_code)]

/// The program: an ELF file.
pub static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/whatif-keeper"));

/// What tells this build of it from every other one.
pub const VERSION: &str = env!("WHATIF_KEEPER_VERSION");
