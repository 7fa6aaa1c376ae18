//! One file for each kind of thing that has an address: its routes, what they take, what they answer.

pub mod applies;
pub mod changes;
pub mod commands;
pub mod drift;
pub mod events;
pub mod files;
pub mod health;
pub mod machine;
pub mod network;
pub mod races;
pub mod sandboxes;
pub mod snapshots;
pub mod templates;
pub mod upkeep;
pub mod usage;

use axum::Router;
use axum::routing::{delete, get, post};

use crate::app::Shared;
use crate::openapi;

/// Every route.
pub fn all(app: Shared) -> Router {
    let one = "/api/v1/sandboxes/{sandbox}";
    let at = |rest: &str| format!("{one}/{rest}");
    Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/api/v1/openapi.json", get(openapi::serve))
        .route("/api/v1/sandboxes", get(sandboxes::list).post(sandboxes::create))
        .route(one, get(sandboxes::show).patch(sandboxes::alter).delete(sandboxes::remove))
        .route(&at("start"), post(sandboxes::start))
        .route(&at("stop"), post(sandboxes::stop))
        .route(&at("fork"), post(sandboxes::fork))
        .route(&at("reject"), post(sandboxes::reject))
        .route(&at("commands"), get(commands::list).post(commands::start))
        .route(&at("commands/{command}"), get(commands::show))
        .route(&at("commands/{command}/output"), get(commands::output))
        .route(&at("commands/{command}/signal"), post(commands::signal))
        .route(&at("commands/{command}/input"), post(commands::input))
        .route(&at("files"), get(files::list).delete(files::remove))
        .route(&at("files/stat"), get(files::stat))
        .route(&at("files/content"), get(files::read).put(files::write))
        .route(&at("files/directories"), post(files::make_directories))
        .route(&at("files/move"), post(files::rename))
        .route(&at("changes"), get(changes::show))
        .route(&at("changes/patch"), get(changes::patch))
        .route(&at("apply"), post(changes::apply))
        .route(&at("compare"), get(changes::compare))
        .route(&at("drift"), get(drift::show))
        .route(&at("rebase"), post(drift::rebase))
        .route(&at("stats"), get(usage::stats))
        .route(&at("processes"), get(usage::processes))
        .route(&at("network"), get(network::show))
        .route(&at("network/allow"), post(network::allow))
        .route(&at("network/deny"), post(network::deny))
        .route(&at("snapshots"), get(snapshots::list).post(snapshots::take))
        .route(&at("snapshots/{label}"), delete(snapshots::remove))
        .route(&at("rollback"), post(snapshots::roll_back))
        .route("/api/v1/events", get(events::list))
        .route("/api/v1/audit", get(events::audit))
        .route("/api/v1/audit/verify", get(events::verify))
        .route("/api/v1/applies", get(applies::list))
        .route("/api/v1/applies/{apply}/undo", post(applies::undo))
        .route("/api/v1/templates", get(templates::list).post(templates::save))
        .route("/api/v1/templates/{template}", delete(templates::remove))
        .route("/api/v1/races", get(races::list))
        .route("/api/v1/races/{race}", get(races::show))
        .route("/api/v1/gc", get(upkeep::preview).post(upkeep::run))
        .route("/api/v1/config", get(machine::config))
        .route("/api/v1/providers", get(machine::providers))
        .with_state(app)
}
