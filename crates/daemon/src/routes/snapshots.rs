//! Snapshots of a sandbox, and returning to one.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use whatif_engine::history::snapshot::Take;
use whatif_engine::history::snapshots::Document;
use whatif_engine::lifecycle::shift::{How, Live};
use whatif_types::{MadeBy, Principal};

use crate::app::{Shared, named, selected};
use crate::extract::{Json, Words};
use crate::problem::Problem;
use crate::reply::{self, Answer};

#[derive(Debug, Serialize, ToSchema)]
pub struct SnapshotList {
    /// In the order of the tree, each with its `depth`
    #[schema(value_type = Vec<Object>)]
    snapshots: Vec<Value>,
}

/// List the snapshots of a sandbox
#[utoipa::path(get, operation_id = "snapshots_list", path = "/api/v1/sandboxes/{sandbox}/snapshots", tag = "snapshots", params(("sandbox" = String, Path)),
    responses((status = 200, body = SnapshotList), (status = "default", body = Problem)))]
pub async fn list(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let (_, snapshots) = app.work(&who, move |engine| engine.history.snapshots(&selected(engine, words.sandbox())?)).await?;
    let snapshots = snapshots.iter().map(serde_json::to_value).collect::<Result<_, _>>();
    reply::ok(&SnapshotList { snapshots: snapshots.map_err(|error| Problem::internal(error.to_string()))? })
}

/// How processes that run are treated
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LiveChoice {
    /// They go on, and the changes are copied
    Copy,
    /// Nothing is done while some run
    Refuse,
    /// They are ended
    Stop,
}

impl From<LiveChoice> for Live {
    fn from(choice: LiveChoice) -> Self {
        match choice {
            LiveChoice::Copy => Self::Copy,
            LiveChoice::Refuse => Self::Refuse,
            LiveChoice::Stop => Self::Stop,
        }
    }
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotRequest {
    /// Made up if it is not given
    label: Option<String>,
    message: Option<String>,
    /// `copy` is the default
    live: Option<LiveChoice>,
    /// Answer only when it would survive a power failure
    durable: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TakenView {
    #[schema(value_type = Object)]
    snapshot: Value,
    /// Its changes were copied because something runs
    copied: bool,
    /// Processes that were ended for it
    ended: usize,
}

/// Take a snapshot
#[utoipa::path(post, operation_id = "snapshots_take", path = "/api/v1/sandboxes/{sandbox}/snapshots", tag = "snapshots", params(("sandbox" = String, Path)),
    request_body = Option<SnapshotRequest>, responses((status = 201, body = TakenView), (status = "default", body = Problem)))]
pub async fn take(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<SnapshotRequest>,
) -> Answer {
    let live = asked.live.map_or(Live::Copy, Live::from);
    let take = Take { label: asked.label, message: asked.message, live, durable: asked.durable, made_by: MadeBy::Request };
    let taken = app.work(&who, move |engine| engine.history.snapshot(&selected(engine, words.sandbox())?, &take)).await?;
    let copied = matches!(taken.disturbed.how, How::Copied { .. });
    let snapshot = document(&Document::of(&taken.snapshot, &taken.sandbox))?;
    reply::json(StatusCode::CREATED, &TakenView { snapshot, copied, ended: taken.disturbed.ended.len() })
}

fn document(document: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(document).map_err(|error| Problem::internal(error.to_string()))
}

/// Remove a snapshot
///
/// Sandboxes made from it stay.
#[utoipa::path(delete, operation_id = "snapshots_remove", path = "/api/v1/sandboxes/{sandbox}/snapshots/{label}", tag = "snapshots",
    params(("sandbox" = String, Path), ("label" = String, Path)),
    responses((status = 204, description = "It is gone"), (status = "default", body = Problem)))]
pub async fn remove(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    app.work(&who, move |engine| {
        let name = named(engine, words.sandbox())?.name;
        engine.history.remove_snapshots(&[format!("{name}@{}", words.get("label"))])
    })
    .await?;
    reply::nothing()
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The label of a snapshot; `@-1` is the latest
    to: String,
    /// `stop` (the default) or `refuse`
    live: Option<LiveChoice>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RolledBackView {
    #[schema(value_type = Object)]
    to: Value,
    /// What the sandbox was before, if that was not in a snapshot; return to it to undo this
    #[schema(value_type = Option<Object>)]
    before: Option<Value>,
    /// Processes that were ended
    ended: usize,
}

/// Return to a snapshot
#[utoipa::path(post, operation_id = "snapshots_roll_back", path = "/api/v1/sandboxes/{sandbox}/rollback", tag = "snapshots", params(("sandbox" = String, Path)),
    request_body = RollbackRequest, responses((status = 200, body = RolledBackView), (status = "default", body = Problem)))]
pub async fn roll_back(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<RollbackRequest>,
) -> Answer {
    let live = match asked.live {
        Some(LiveChoice::Refuse) => Live::Refuse,
        Some(LiveChoice::Stop) | None => Live::Stop,
        Some(LiveChoice::Copy) => {
            return Err(Problem::field("live", "processes cannot go on across a rollback; use stop or refuse"));
        }
    };
    let done = app.work(&who, move |engine| engine.history.roll_back(&selected(engine, words.sandbox())?, &asked.to, live)).await?;
    let before = done.before.as_ref().map(|before| document(&Document::of(before, &done.sandbox))).transpose()?;
    reply::ok(&RolledBackView { to: document(&Document::of(&done.to, &done.sandbox))?, before, ended: done.ended.len() })
}
