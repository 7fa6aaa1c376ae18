//! One connection after the other: connect, a byte each way, close.

use super::super::figure::Figure;
use super::more;
use super::names::DOMAIN;
use super::outside::Outside;
use super::passed::Group;
use super::place::{Place, Rounds, in_turns};
use crate::failure::Failure;

/// The project's promise about a connection: so much longer than a direct one.
const LIMIT_MS: f64 = 1.0;
const WARM_UP: usize = 5;

pub fn measure(places: &mut [Place], outside: &Outside, rounds: usize) -> Result<Group, Failure> {
    let rounds = Rounds { warm_up: WARM_UP, measured: rounds };
    let port = outside.ports.echo;
    let (mut figures, mut skipped) = (Vec::new(), Vec::new());
    let to_address = in_turns(places, rounds, |_| format!("connect {}", outside.echo()))?;
    let promise = |figure: Figure, taken: &super::place::Taken| {
        vec![figure, more("    more than direct", taken.rules(), taken.direct(), Some(LIMIT_MS))]
    };
    figures.extend(to_address.figures("to an address", |figure| promise(figure, &to_address)));
    skipped.extend(to_address.skipped("to an address"));
    // Peers are told of no name server: what they do with names is what the machine's own does.
    let ours = &mut places[..2];
    let known = in_turns(ours, rounds, |_| format!("name known.{DOMAIN} {port}"))?;
    figures.extend(known.figures("to a name", |figure| promise(figure, &known)));
    let new = in_turns(ours, rounds, |round| format!("name new-{round}.{DOMAIN} {port}"))?;
    figures.extend(new.figures("to a name for the first time", |figure| promise(figure, &new)));
    Ok(Group { title: format!("one connection, {} rounds", rounds.measured), figures, skipped })
}
