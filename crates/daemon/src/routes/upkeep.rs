//! What nothing needs any more, and removing it.

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use whatif_engine::ground::stack::Unknown;
use whatif_engine::{Collect, Collected};
use whatif_types::{Principal, Size, Span};

use crate::app::Shared;
use crate::extract::{Json, Query};
use crate::problem::Problem;
use crate::reply::{self, Answer};

/// What is to go besides what the configuration says
#[derive(Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct GcRequest {
    /// Sandboxes that were not used for so long, even with changes that were not applied; such as `30d`
    #[param(value_type = Option<String>)]
    #[schema(value_type = Option<String>)]
    older_than: Option<Span>,
    /// The least recently used sandboxes, even with changes that were not applied, until all take no more than this; such as `20G`
    #[param(value_type = Option<String>)]
    #[schema(value_type = Option<String>)]
    max_total: Option<Size>,
    /// Layers that were never recorded, as after the records were lost
    delete_unknown: bool,
}

impl GcRequest {
    fn collect(&self, dry_run: bool) -> Collect {
        let unknown_layers = if self.delete_unknown { Unknown::Delete } else { Unknown::Keep };
        Collect { dry_run, older_than: self.older_than, max_total: self.max_total, unknown_layers }
    }
}

/// The document of `whatif gc --json` (`docs/schemas/gc.json`): what goes, what stays and why, `freed_bytes`
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct GcView(Collected);

/// Show what would be removed, and change nothing
#[utoipa::path(get, operation_id = "gc_preview", path = "/api/v1/gc", tag = "gc", params(GcRequest),
    responses((status = 200, body = GcView), (status = "default", body = Problem)))]
pub async fn preview(State(app): State<Shared>, Extension(who): Extension<Principal>, Query(asked): Query<GcRequest>) -> Answer {
    let collected = app.work(&who, move |engine| engine.upkeep.collect(&asked.collect(true))).await?;
    reply::ok(&GcView(collected))
}

/// Remove what nothing needs and what the rules do not keep
#[utoipa::path(post, operation_id = "gc_run", path = "/api/v1/gc", tag = "gc", request_body = Option<GcRequest>,
    responses((status = 200, body = GcView), (status = "default", body = Problem)))]
pub async fn run(State(app): State<Shared>, Extension(who): Extension<Principal>, Json(asked): Json<GcRequest>) -> Answer {
    let collected = app.work(&who, move |engine| engine.upkeep.collect(&asked.collect(false))).await?;
    reply::ok(&GcView(collected))
}
