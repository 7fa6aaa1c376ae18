//! Real groups on this machine, in whichever version it has them: they limit, count, and go without leaving anything.
//!
//! Each test that needs what this user or machine has not is skipped and says why. The same tests can be run in a virtual machine,
//! see `machine.rs`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "a skip says why")]

mod freezing;
mod limits;
mod machine;
mod removal;
mod scope;
mod support;
