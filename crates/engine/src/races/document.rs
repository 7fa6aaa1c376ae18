//! How a race is told to programs.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use whatif_types::experiment::AttemptState;
use whatif_types::text::Text;
use whatif_types::timestamp::rfc3339;

use super::Shown;
use super::changed_files::{Cell, matrix};

impl Shown<'_> {
    /// All that is known about a race.
    #[must_use]
    pub fn document(self) -> Value {
        document(self)
    }
}

fn document(race: Shown<'_>) -> Value {
    let (experiment, details) = (race.experiment, &race.experiment.details);
    let files = matrix(race, usize::MAX);
    let rows = files.rows.iter().map(|(path, cells)| {
        let by_attempt: Map<String, Value> =
            files.attempts.iter().zip(cells).filter_map(|(name, cell)| Some((name.to_string(), cell_of(*cell)?))).collect();
        json!({ "path": path, "attempts": by_attempt })
    });
    json!({
        "race": experiment.name,
        "id": experiment.id,
        "project": Text::from(&experiment.project),
        "state": race.standing.as_str(),
        "created_at": rfc3339(experiment.created_at),
        "ended_at": details.ended_at.map(rfc3339),
        "spent_ms": details.spent_ms,
        "plan": details.plan,
        "winner": race.ranking.winner,
        "because": race.ranking.because,
        "attempts": attempts(race),
        "matrix": rows.collect::<Vec<Value>>(),
        "shared": files.shared,
        "judged": details.judged,
        "applied": details.applied,
    })
}

/// Those that are ranked, in that order, then the others.
fn attempts(race: Shown<'_>) -> Vec<Value> {
    let places: HashMap<&str, usize> = race.ranking.places.iter().enumerate().map(|(at, p)| (p.attempt.as_str(), at)).collect();
    let mut all: Vec<(usize, Value)> = Vec::new();
    for (planned, recorded) in race.experiment.attempts() {
        let at = places.get(planned.name.as_str()).copied();
        let place = at.map(|at| &race.ranking.places[at]);
        let state = match recorded.state {
            AttemptState::Running if race.standing != super::Standing::Running => json!("interrupted"),
            state => json!(state),
        };
        let document = json!({
            "name": planned.name,
            "kind": planned.kind,
            "about": planned.about,
            "parameters": planned.parameters,
            "state": state,
            "sandbox_id": recorded.sandbox,
            "place": place.map(|p| p.place),
            "score": place.and_then(|p| p.score),
            "why": place.map(|p| &p.why),
            "outcome": recorded.outcome,
        });
        all.push((at.unwrap_or(usize::MAX), document));
    }
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, document)| document).collect()
}

/// None for what an attempt did not touch.
fn cell_of(cell: Cell<'_>) -> Option<Value> {
    match cell {
        Cell::Untouched => None,
        Cell::Unknown => Some(Value::Null),
        Cell::Changed(file) => Some(json!({
            "mark": file.mark,
            "added_lines": file.added_lines,
            "deleted_lines": file.deleted_lines,
            "digest": file.digest,
        })),
    }
}
