//! What runs in a sandbox, and what it uses.

use axum::Extension;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use whatif_engine::lifecycle::show::ProcessList;
use whatif_engine::lifecycle::stats::UsedNow;
use whatif_types::Principal;

use crate::app::{Shared, selected};
use crate::extract::Words;
use crate::problem::Problem;
use crate::reply::{self, Answer};

/// A line of `whatif stats --json` (`docs/schemas/stats.json`): what is used, the `limits`, and by what they are `enforced`
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct StatsView(UsedNow);

/// Show what a running sandbox uses
///
/// It takes a moment to see how many processors are in use.
#[utoipa::path(get, operation_id = "usage_stats", path = "/api/v1/sandboxes/{sandbox}/stats", tag = "usage", params(("sandbox" = String, Path)),
    responses((status = 200, body = StatsView), (status = "default", body = Problem)))]
pub async fn stats(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let sampled = app.wait(&who, move |engine| engine.lifecycle.two_samples(&[selected(engine, words.sandbox())?]));
    let (before, now) = sampled.await?;
    match now.since(&before).into_iter().next() {
        Some(used) => reply::ok(&StatsView(used)),
        None => Err(Problem::internal("a sandbox that runs uses something")),
    }
}

/// The document of `whatif ps --json` (`docs/schemas/ps.json`): the `processes`, and commands that `ended` lately
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct ProcessesView(ProcessList);

/// List the processes in a sandbox
///
/// One that is stopped has none.
#[utoipa::path(get, operation_id = "usage_processes", path = "/api/v1/sandboxes/{sandbox}/processes", tag = "usage", params(("sandbox" = String, Path)),
    responses((status = 200, body = ProcessesView), (status = "default", body = Problem)))]
pub async fn processes(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let running = app.work(&who, move |engine| engine.lifecycle.processes(&selected(engine, words.sandbox())?));
    reply::ok(&ProcessesView(running.await?))
}
