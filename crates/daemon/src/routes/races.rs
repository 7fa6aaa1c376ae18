//! Races: several attempts, judged by the same checks. They are started from the command line.

use axum::Extension;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use whatif_engine::races::{Experiment, Shown};
use whatif_engine::{Engine, EngineError};
use whatif_types::Principal;

use crate::app::Shared;
use crate::extract::Words;
use crate::problem::Problem;
use crate::reply::{self, Answer};

#[derive(Debug, Serialize, ToSchema)]
pub struct RaceList {
    /// Of all projects, newest first; each as `whatif race show --json` has it (`docs/schemas/race-show.json`)
    #[schema(value_type = Vec<Object>)]
    races: Vec<Value>,
}

/// List races
#[utoipa::path(get, operation_id = "races_list", path = "/api/v1/races", tag = "races",
    responses((status = 200, body = RaceList), (status = "default", body = Problem)))]
pub async fn list(State(app): State<Shared>, Extension(who): Extension<Principal>) -> Answer {
    let races = app.work(&who, |engine| engine.races.races()?.iter().map(|race| document(engine, race)).collect()).await?;
    reply::ok(&RaceList { races })
}

/// The document of `whatif race show --json` (`docs/schemas/race-show.json`): the `attempts` in their places, the `winner` and why,
/// and in `matrix` which attempt changed which file
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct RaceView(Value);

/// Compare the attempts of a race
///
/// `{race}` is an id or a name.
#[utoipa::path(get, operation_id = "races_show", path = "/api/v1/races/{race}", tag = "races", params(("race" = String, Path)),
    responses((status = 200, body = RaceView), (status = "default", body = Problem)))]
pub async fn show(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let race = app.work(&who, move |engine| document(engine, &engine.races.find_race(Some(words.get("race")))?));
    reply::ok(&RaceView(race.await?))
}

fn document(engine: &Engine, experiment: &Experiment) -> Result<Value, EngineError> {
    let ranking = engine.races.ranking(experiment);
    let standing = engine.races.standing(experiment)?;
    Ok(Shown { experiment, ranking: &ranking, standing, is_latest: false }.document())
}
