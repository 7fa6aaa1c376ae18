//! What sandboxes have on this machine: the configuration, the providers.

use axum::Extension;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use whatif_engine::doctor::{self, ProviderStanding};
use whatif_types::Principal;
use whatif_types::config::UserConfig;

use crate::app::Shared;
use crate::problem::Problem;
use crate::reply::{self, Answer};

/// Every key of the configuration (`docs/configuration.md`), those that are not set with their defaults
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct ConfigView(UserConfig);

/// Show the configuration in effect
///
/// It is what the file said when the daemon started. A project may be stricter.
#[utoipa::path(get, operation_id = "machine_config", path = "/api/v1/config", tag = "machine",
    responses((status = 200, body = ConfigView), (status = "default", body = Problem)))]
pub async fn config(State(app): State<Shared>, Extension(who): Extension<Principal>) -> Answer {
    reply::ok(&ConfigView(app.work(&who, |engine| Ok(engine.caller().config.clone())).await?))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ProviderList {
    /// The usual one first; `probes` has the form of `whatif doctor --json` (`docs/schemas/doctor.json`)
    #[schema(value_type = Vec<Object>)]
    providers: Vec<ProviderStanding>,
}

/// Show by what processes can be isolated here
///
/// Only looks. Whether a sandbox stands, `whatif doctor` tries.
#[utoipa::path(get, operation_id = "machine_providers", path = "/api/v1/providers", tag = "machine",
    responses((status = 200, body = ProviderList), (status = "default", body = Problem)))]
pub async fn providers(State(app): State<Shared>, Extension(who): Extension<Principal>) -> Answer {
    let providers = app.work(&who, |engine| Ok(doctor::standings(engine.caller().uid))).await?;
    reply::ok(&ProviderList { providers })
}
