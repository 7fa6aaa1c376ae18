//! Many connections at once: all are answered.

use super::outside::Outside;
use super::passed::Group;
use super::place::{Place, Rounds, in_turns};
use crate::failure::Failure;

const COUNT: usize = 1_000;

pub fn measure(places: &mut [Place], outside: &Outside, rounds: usize) -> Result<Group, Failure> {
    let rounds = Rounds { warm_up: 1, measured: rounds };
    // A client fails unless every one of them is answered.
    let taken = in_turns(places, rounds, |_| format!("many {} {COUNT}", outside.echo()))?;
    let what = "all answered";
    let (figures, skipped) = (taken.figures(what, |figure| vec![figure]), taken.skipped(what));
    Ok(Group { title: format!("{COUNT} connections at once, {} rounds", rounds.measured), figures, skipped })
}
