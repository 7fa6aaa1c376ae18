//! How far reality has moved since a sandbox was made, and moving the sandbox after it.

use axum::Extension;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use whatif_types::Principal;

use crate::app::{Shared, selected};
use crate::extract::Words;
use crate::problem::Problem;
use crate::reply::{self, Answer};

/// The document of `whatif status --json` (`docs/schemas/status.json`): among others `drift`, `collisions`, `conflicts`, `unsettled`
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct DriftView(Value);

/// Show what moved in reality since the sandbox was made, and what of it matters to the sandbox
#[utoipa::path(get, operation_id = "drift_show", path = "/api/v1/sandboxes/{sandbox}/drift", tag = "drift", params(("sandbox" = String, Path)),
    responses((status = 200, body = DriftView), (status = "default", body = Problem)))]
pub async fn show(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let standing = app.work(&who, move |engine| engine.changes.status(&selected(engine, words.sandbox())?)).await?;
    reply::ok(&DriftView(standing.document()))
}

/// The document of `whatif rebase --json` (`docs/schemas/rebase.json`): the paths that were `merged`, those with `conflicts` between
/// markers, those `kept`, those left `open` and why
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct RebasedView(Value);

/// Move a sandbox onto reality as it is now
///
/// What collides stays in the sandbox, between conflict markers or as it is; the answer is 200 all the same.
#[utoipa::path(post, operation_id = "drift_rebase", path = "/api/v1/sandboxes/{sandbox}/rebase", tag = "drift", params(("sandbox" = String, Path)),
    responses((status = 200, body = RebasedView), (status = "default", body = Problem)))]
pub async fn rebase(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let rebased = app.work(&who, move |engine| engine.changes.rebase(&selected(engine, words.sandbox())?)).await?;
    reply::ok(&RebasedView(rebased.document()))
}
