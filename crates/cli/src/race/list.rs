//! `race ls`.

use std::time::{SystemTime, UNIX_EPOCH};

use whatif_types::experiment::Verdict;
use whatif_types::timestamp::age;

use super::brush::{Brush, Charset, Colours};
use super::grid::{self, Column};
use super::line::Line;
use super::{Shown, Standing};
use crate::output::{Output, Style};

/// In the order given.
pub fn list(races: &[Shown<'_>], output: &Output) {
    if races.is_empty() {
        return output.note("no races; start one: whatif race 'COMMAND' 'COMMAND' --check 'COMMAND'");
    }
    let brush = Brush { charset: Charset::of_terminal(), colours: Colours::OfOutput(output) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    lines(races, now, super::report::room()).iter().for_each(|line| output.line(line.render(brush)));
}

fn lines(races: &[Shown<'_>], now: u64, room: usize) -> Vec<Line> {
    let columns = [
        Column::always("RACE").at_least(12),
        Column::always("STATE"),
        Column::with_room("ATTEMPTS", 80),
        Column::with_room("WINNER", 90).at_least(8),
        Column::with_room("APPLIED", 60).at_least(8),
        Column::with_room("AGE", 70).number(),
        Column::with_room("PROJECT", 50).at_least(16),
    ];
    let rows: Vec<Vec<Line>> = races.iter().map(|race| cells(*race, now)).collect();
    grid::lines(&columns, &rows, room)
}

fn cells(race: Shown<'_>, now: u64) -> Vec<Line> {
    let all = race.experiment.attempts().count();
    let passed = race.ranked().filter(|(_, o)| o.verdict == Verdict::Passed).count();
    let ended = race.ranked().count();
    let attempts = if ended < all { format!("{ended} of {all} done") } else { format!("{passed} of {all} pass") };
    let style = match race.standing {
        Standing::Running => Style::Cyan,
        Standing::Interrupted => Style::Yellow,
        Standing::Ended if race.ranking.winner.is_some() => Style::Green,
        Standing::Ended => Style::Red,
    };
    let winner = race.ranking.winner.as_deref().unwrap_or(if ended == 0 { "" } else { "–" });
    vec![
        Line::painted(Style::Bold, &race.experiment.name),
        Line::painted(style, race.standing.as_str()),
        Line::plain(attempts),
        Line::plain(winner),
        Line::plain(race.experiment.details.applied.join(", ")),
        Line::plain(age(now.saturating_sub(race.experiment.created_at))),
        Line::plain(race.experiment.project.to_string_lossy()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample::{self, PLAIN};
    use super::*;

    #[test]
    fn races_with_their_winners() {
        let (one, two) = (sample::experiment("fix-add", &["good", "bad"]), sample::experiment("bump", &["bad", "late", "?"]));
        let (first, second) = (sample::ranking(&one), sample::ranking(&two));
        let races = [sample::shown(&one, &first), Shown { standing: Standing::Interrupted, ..sample::shown(&two, &second) }];
        let shown = |room| lines(&races, 90_000, room).iter().map(|l| l.render(PLAIN)).collect::<Vec<_>>().join("\n");
        assert_eq!(
            shown(80),
            "\
RACE     STATE        ATTEMPTS     WINNER  AGE  PROJECT
fix-add  ended        1 of 2 pass  good     1m  /home/you/project
bump     interrupted  2 of 3 done  –        1m  /home/you/project"
        );
        assert_eq!(
            shown(30),
            "\
RACE     STATE        WINNER
fix-add  ended        good
bump     interrupted  –"
        );
    }
}
