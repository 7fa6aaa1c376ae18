//! Whom a sandbox may talk to, and what was decided about that.

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use whatif_engine::network::changes::{Change, changed_document};
use whatif_types::Principal;
use whatif_types::network::Rule;

use crate::app::{Shared, selected};
use crate::extract::{Json, Query, Words};
use crate::problem::Problem;
use crate::reply::{self, Answer};

/// Decisions that are shown, unless fewer or more are asked for.
const USUAL_DECISIONS: usize = 1000;
const MOST_DECISIONS: usize = 10_000;
/// So many rules are changed at once.
const MOST_RULES: usize = 1000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct NetworkQuery {
    /// Only what was denied
    denied: bool,
    /// At most so many decisions, the latest; 1000 by default
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
}

/// The document of `whatif net --json` (`docs/schemas/net.json`): the `rules`, and the `decisions`, oldest first
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct NetworkView(Value);

/// Show the rules of a sandbox's network, and what was decided lately
#[utoipa::path(get, operation_id = "network_show", path = "/api/v1/sandboxes/{sandbox}/network", tag = "network", params(("sandbox" = String, Path), NetworkQuery),
    responses((status = 200, body = NetworkView), (status = "default", body = Problem)))]
pub async fn show(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Query(asked): Query<NetworkQuery>,
) -> Answer {
    let limit = asked.limit.unwrap_or(USUAL_DECISIONS);
    if !(1..=MOST_DECISIONS).contains(&limit) {
        return Err(Problem::field("limit", format!("must be 1 to {MOST_DECISIONS}")));
    }
    let mut decisions = app.work(&who, move |engine| engine.network.decisions(&selected(engine, words.sandbox())?)).await?;
    if asked.denied {
        decisions.all.retain(|decision| !decision.allowed);
    }
    decisions.all.drain(..decisions.all.len().saturating_sub(limit));
    reply::ok(&NetworkView(decisions.document()))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesRequest {
    /// Each a domain, `*.domain`, an address or a network, with or without `:port`
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 1000)]
    rules: Vec<Rule>,
}

/// The document of `whatif net allow --json` (`docs/schemas/net-change.json`): the rules that hold now. What the configuration denies
/// stays denied
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct RulesView(Value);

/// Allow destinations at once, also for commands that run
#[utoipa::path(post, operation_id = "network_allow", path = "/api/v1/sandboxes/{sandbox}/network/allow", tag = "network", params(("sandbox" = String, Path)),
    request_body = RulesRequest, responses((status = 200, body = RulesView), (status = "default", body = Problem)))]
pub async fn allow(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<RulesRequest>,
) -> Answer {
    change(&app, &who, words, Change::Allow, asked).await
}

/// Deny destinations at once, and cut connections to them
#[utoipa::path(post, operation_id = "network_deny", path = "/api/v1/sandboxes/{sandbox}/network/deny", tag = "network", params(("sandbox" = String, Path)),
    request_body = RulesRequest, responses((status = 200, body = RulesView), (status = "default", body = Problem)))]
pub async fn deny(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<RulesRequest>,
) -> Answer {
    change(&app, &who, words, Change::Deny, asked).await
}

async fn change(app: &Shared, who: &Principal, words: Words, change: Change, asked: RulesRequest) -> Answer {
    if !(1..=MOST_RULES).contains(&asked.rules.len()) {
        return Err(Problem::field("rules", format!("must be 1 to {MOST_RULES} rules")));
    }
    let changed =
        app.work(who, move |engine| engine.network.change_rules(&selected(engine, words.sandbox())?, change, &asked.rules));
    reply::ok(&RulesView(changed_document(&changed.await?)))
}
