//! What a sandbox's network costs: to have one, to make connections through its rules, and to move bytes.
//!
//! ```text
//! xtask bench ── unshare ── xtask net-outside ─┬─ servers, a name server       203.0.113.5, 25.64.113.5, 127.0.0.53
//!                                              ├─ xtask net-client             direct
//!                                              ├─ whatif exec … net-client     through the rules
//!                                              └─ pasta … net-client           through what others use
//! ```
//!
//! The outside is a network namespace with addresses of its own, so nothing that is measured leaves the machine. Clients tell
//! how long something took them; how they were started and how they are talked to is no part of it.

pub mod client;
mod connections;
mod first_use;
mod many;
mod names;
mod outside;
mod passed;
mod place;
mod servers;
mod starts;
mod streams;

use std::path::Path;

use super::figure::{Bar, Figure, Ratio, Unit};
use super::measure::Times;
use super::report::Report;
use super::say;
use super::scratch::Scratch;
use crate::failure::Failure;
use outside::Outside;
use passed::Group;

/// How much is measured.
#[derive(Debug)]
pub struct Effort {
    name: &'static str,
    starts: usize,
    connections: usize,
    streams: usize,
    many: usize,
    first_uses: usize,
}

pub const QUICK: Effort = Effort { name: "quick", starts: 30, connections: 100, streams: 5, many: 5, first_uses: 10 };
pub const FULL: Effort = Effort { name: "full", starts: 200, connections: 1000, streams: 15, many: 15, first_uses: 50 };

pub fn measure(scratch: &Scratch, effort: &Effort, report: &mut Report) -> Result<(), Failure> {
    say(&format!("networks of commands that do not use them, {} rounds", effort.starts));
    starts::measure(scratch, effort.starts, report)?;
    if !rustix::process::geteuid().is_root() {
        let reason = "only root can give a network namespace addresses of the outside".to_owned();
        report.group("network", Vec::new(), vec![("connections".to_owned(), reason)]);
        return Ok(());
    }
    for Group { title, figures, skipped } in outside::started_there(scratch, effort.name)? {
        report.group(title, figures, skipped);
    }
    Ok(())
}

/// The hidden command `net-outside BINARY USER EFFORT`: measures, and prints the figures for the one who started it.
pub fn measure_outside(arguments: &[String]) -> Result<(), Failure> {
    let [binary, user, effort] = arguments else {
        return Err(Failure::Usage("net-outside is started by bench".to_owned()));
    };
    let outside = Outside::open()?;
    let scratch = Scratch::make(Path::new(binary), user == outside::AS_USER)?;
    let effort = if effort == FULL.name { FULL } else { QUICK };
    let groups = measure_there(&scratch, &outside, &effort)?;
    println!("{}", passed::document(&groups));
    Ok(())
}

fn measure_there(scratch: &Scratch, outside: &Outside, effort: &Effort) -> Result<Vec<Group>, Failure> {
    let program = place::client_program(scratch)?;
    say(&format!("a sandbox's first use of the network, {} rounds", effort.first_uses));
    let mut groups = vec![first_use::measure(scratch, outside, &program, effort.first_uses)?];
    let (mut places, skipped) = place::open_all(scratch, outside, &program)?;
    say(&format!("single connections, {} rounds", effort.connections));
    groups.push(connections::measure(&mut places, outside, effort.connections)?);
    say(&format!("streams, {} rounds", effort.streams));
    groups.push(streams::measure(&mut places, outside, effort.streams)?);
    say(&format!("many connections at once, {} rounds", effort.many));
    groups.push(many::measure(&mut places, outside, effort.many)?);
    // The first of them has found out for itself.
    for group in &mut groups[1..] {
        group.skipped.extend(skipped.iter().cloned());
    }
    Ok(groups)
}

fn figure(label: impl Into<String>, times: &Times) -> Figure {
    Figure { p90: Some(times.p90_ms()), ..Figure::new(label, times.median_ms(), Unit::Milliseconds) }
}

/// The same beside another.
fn beside(label: impl Into<String>, times: &Times, to: &str, other: &Times) -> Figure {
    let ratio = Some(Ratio { to: to.to_owned(), value: times.median_ms() / other.median_ms() });
    Figure { ratio, ..figure(label, times) }
}

/// By how much one median exceeds the other.
fn more(label: impl Into<String>, times: &Times, other: &Times, bar: Option<f64>) -> Figure {
    let value = times.median_ms() - other.median_ms();
    Figure { bar: bar.map(Bar::ValueAtMost), ..Figure::new(label, value, Unit::Milliseconds) }
}
