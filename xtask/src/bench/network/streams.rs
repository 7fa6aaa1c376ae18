//! One connection with many bytes.

use super::super::figure::{Bar, Figure};
use super::outside::Outside;
use super::passed::Group;
use super::place::{Place, Rounds, in_turns};
use crate::failure::Failure;

const BYTES: u64 = 512 << 20;
/// The project's promise: half of what is possible directly, so at most twice the time.
const LIMIT: f64 = 2.0;

pub fn measure(places: &mut [Place], outside: &Outside, rounds: usize) -> Result<Group, Failure> {
    let rounds = Rounds { warm_up: 1, measured: rounds };
    let (mut figures, mut skipped) = (Vec::new(), Vec::new());
    for (what, order) in [("received", "take"), ("sent", "give")] {
        let taken = in_turns(places, rounds, |_| format!("{order} {} {BYTES}", outside.stream()))?;
        let promise = |figure| vec![Figure { bar: Some(Bar::RatioAtMost(LIMIT)), ..figure }];
        figures.extend(taken.figures(what, promise));
        skipped.extend(taken.skipped(what));
    }
    Ok(Group { title: format!("a stream of {} MiB, {} rounds", BYTES >> 20, rounds.measured), figures, skipped })
}
