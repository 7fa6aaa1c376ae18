//! A real supervisor, in a process of its own, between a network inside and one outside. Both exist only for the test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "figures are the result of some")]

mod asking;
mod bytes;
mod control;
mod ending;
mod hello;
mod hostile;
mod hosts_file;
mod http;
mod names;
mod proxies;
mod secrets;
mod servers;
mod world;

/// The supervisor's process: this program again, see `world`.
#[test]
#[ignore = "started by the other tests"]
fn supervisor_process() {
    world::supervise();
}
