//! Templates: prepared starts for new sandboxes.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use whatif_engine::EngineError;
use whatif_engine::ground::GroundError;
use whatif_engine::history::template::{ListedTemplate, SaveTemplate};
use whatif_engine::lifecycle::shift::Live;
use whatif_types::{Principal, name};

use crate::app::{Shared, selected};
use crate::extract::{Json, Words};
use crate::problem::Problem;
use crate::reply::{self, Answer};
use crate::routes::snapshots::LiveChoice;

#[derive(Debug, Serialize, ToSchema)]
pub struct TemplateList {
    /// Newest first; each as `whatif template ls --json` has it (`docs/schemas/template.json`)
    #[schema(value_type = Vec<Object>)]
    templates: Vec<ListedTemplate>,
}

/// List templates
#[utoipa::path(get, operation_id = "templates_list", path = "/api/v1/templates", tag = "templates",
    responses((status = 200, body = TemplateList), (status = "default", body = Problem)))]
pub async fn list(State(app): State<Shared>, Extension(who): Extension<Principal>) -> Answer {
    let templates = app.work(&who, |engine| engine.history.templates()).await?;
    reply::ok(&TemplateList { templates })
}

/// A template to be saved
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateRequest {
    name: String,
    /// The sandbox that it begins like, by id or name
    sandbox: String,
    /// The label of a snapshot of that sandbox, instead of what the sandbox is now
    snapshot: Option<String>,
    /// What it is about
    message: Option<String>,
    /// Replace a template that has this name
    #[serde(default)]
    replace: bool,
    /// `copy` is the default
    live: Option<LiveChoice>,
}

/// The document of `whatif template save --json` (`docs/schemas/template.json`)
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct TemplateView(ListedTemplate);

/// Save what a sandbox is, or was at a snapshot, as a template
#[utoipa::path(post, operation_id = "templates_save", path = "/api/v1/templates", tag = "templates", request_body = TemplateRequest,
    responses((status = 201, body = TemplateView), (status = "default", body = Problem)))]
pub async fn save(State(app): State<Shared>, Extension(who): Extension<Principal>, Json(asked): Json<TemplateRequest>) -> Answer {
    let TemplateRequest { name, sandbox, snapshot, message, replace, live } = asked;
    let asked = SaveTemplate { name, snapshot, message, replace, live: live.map_or(Live::Copy, Live::from) };
    let saved = app.work(&who, move |engine| {
        let (template, _) = engine.history.save_template(&selected(engine, &sandbox)?, asked)?;
        engine.history.list_template(template)
    });
    reply::json(StatusCode::CREATED, &TemplateView(saved.await?))
}

/// Remove a template
///
/// Sandboxes made from it stay. One that is not there is no error.
#[utoipa::path(delete, operation_id = "templates_remove", path = "/api/v1/templates/{template}", tag = "templates", params(("template" = String, Path)),
    responses((status = 204, description = "It is gone"), (status = "default", body = Problem)))]
pub async fn remove(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    app.work(&who, move |engine| {
        let name = words.get("template");
        match engine.history.remove_template(name) {
            // A name that no template can have is a mistake.
            Err(EngineError::Ground(GroundError::NoSuchTemplate { .. })) if name::validate(name).is_ok() => Ok(()),
            other => other.map(drop),
        }
    })
    .await?;
    reply::nothing()
}
