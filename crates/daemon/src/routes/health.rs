//! Whether the daemon works, and what it counts.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::{Extension, http};
use serde::Serialize;
use utoipa::ToSchema;
use whatif_types::Principal;

use crate::app::Shared;
use crate::problem::Problem;
use crate::reply::{self, Answer};

#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`
    status: &'static str,
    version: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Ready {
    ready: bool,
    /// How long the records took to answer, in milliseconds
    records_ms: f64,
}

/// Tell that the daemon answers
///
/// Needs no token.
#[utoipa::path(get, operation_id = "health_health", path = "/health", tag = "daemon", security(()), responses((status = 200, body = Health), (status = "default", body = Problem)))]
pub async fn health() -> Answer {
    reply::ok(&Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Tell whether the records can be read
///
/// Needs no token.
#[utoipa::path(get, operation_id = "health_ready", path = "/ready", tag = "daemon", security(()), responses((status = 200, body = Ready), (status = "default", body = Problem)))]
pub async fn ready(State(app): State<Shared>) -> Answer {
    let nobody = Principal::Token { id: String::new() };
    let asked = Instant::now();
    app.work(&nobody, |engine| engine.ground.check_records()).await?;
    reply::ok(&Ready { ready: true, records_ms: asked.elapsed().as_secs_f64() * 1000.0 })
}

/// Counters and durations for Prometheus
#[utoipa::path(get, operation_id = "health_metrics", path = "/metrics", tag = "daemon",
    responses((status = 200, body = String, content_type = "text/plain"), (status = "default", body = Problem)))]
pub async fn metrics(State(app): State<Shared>, Extension(who): Extension<Principal>) -> Answer {
    let counts = app.work(&who, |engine| engine.lifecycle.counts()).await?;
    Ok(text(app.metrics.text(&counts)))
}

fn text(text: String) -> Response<Body> {
    let kind = http::HeaderValue::from_static("text/plain; version=0.0.4");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}
