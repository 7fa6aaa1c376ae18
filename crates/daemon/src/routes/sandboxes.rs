//! Sandboxes: made, listed, shown, started, stopped, forked, rejected, removed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};
use whatif_engine::ground::GroundError;
use whatif_engine::history::fork::Fork;
use whatif_engine::lifecycle::alter::Alteration;
use whatif_engine::lifecycle::list::SandboxFilter;
use whatif_engine::lifecycle::shift::Live;
use whatif_engine::{DEFAULT_GRACE, Engine, EngineError, NewSandbox};
use whatif_types::config::Rejected;
use whatif_types::network::{NetChoice, Reach};
use whatif_types::{Limits, Principal, Sandbox, Span, Status, label};

use crate::app::{Shared, named, selected};
use crate::extract::{Json, Query, Words};
use crate::once::{Done, Key, once};
use crate::problem::Problem;
use crate::reply::{self, Answer, tag};

/// Lines of a list, unless fewer or more are asked for.
const USUAL_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;

/// A sandbox
#[derive(Debug, Serialize, ToSchema)]
pub struct SandboxView {
    id: String,
    name: String,
    /// `creating`, `active`, `stopped`, `approved`, `rejected`, `error`
    status: String,
    project: String,
    provider: String,
    /// Who had it made
    owner: Option<String>,
    /// Grows with every change of the record; the ETag
    version: u64,
    created_at: String,
    updated_at: String,
    /// `none`, `filtered` or `host`
    network: String,
    labels: BTreeMap<String, String>,
    #[schema(value_type = Object)]
    limits: Limits,
    changed_files: u64,
    size_bytes: u64,
    processes: usize,
    /// Why it is not running
    stop_reason: Option<String>,
    /// The template or snapshot it was made from
    made_from: Option<String>,
    /// When it is removed unless it is used until then
    goes_at: Option<String>,
    /// Whether something of it is missing in the state directory
    incomplete: bool,
}

impl SandboxView {
    fn of(engine: &Engine, sandbox: Sandbox) -> Result<Self, EngineError> {
        let listed = engine.lifecycle.listed(sandbox.clone())?;
        Ok(Self::with(sandbox, listed))
    }

    fn with(sandbox: Sandbox, listed: whatif_engine::Listed) -> Self {
        let details = sandbox.details;
        let reason = details.stop_reason.and_then(|reason| serde_json::to_value(reason).ok());
        Self {
            id: sandbox.id.to_string(),
            name: sandbox.name,
            status: listed.status.as_str().to_owned(),
            project: sandbox.project.to_string_lossy().into_owned(),
            provider: sandbox.provider,
            owner: sandbox.owner,
            version: sandbox.version,
            created_at: listed.created_at,
            updated_at: whatif_types::timestamp::rfc3339(sandbox.updated_at),
            network: details.net.to_string(),
            labels: details.labels,
            limits: details.limits,
            changed_files: listed.changed_files,
            size_bytes: listed.size_bytes,
            processes: listed.pids,
            stop_reason: reason.and_then(|reason| reason.as_str().map(str::to_owned)),
            made_from: details.position.made_from,
            goes_at: listed.goes_at,
            incomplete: !listed.missing.is_empty(),
        }
    }
}

/// A sandbox to be made
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxRequest {
    /// Made up if it is not given
    name: Option<String>,
    /// The absolute path of a directory; the sandbox belongs to the project around it
    project: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// `none`, `registries` (the default), `local`, `host` or `allow=RULE[,RULE]`
    #[serde(default)]
    network: Vec<String>,
    /// Services of this machine that it may reach, as `localhost:PORT`
    #[serde(default)]
    reach: Vec<String>,
    /// Such as `{"memory": "2G", "pids": 256, "timeout": "10m"}`
    #[serde(default)]
    #[schema(value_type = Object)]
    limits: Limits,
    /// How long it lives, such as `2h`
    #[schema(value_type = Option<String>)]
    ttl: Option<Span>,
    /// Variables that its commands have
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The template to start from
    template: Option<String>,
    provider: Option<String>,
    /// Paths to hide, besides credentials
    #[serde(default)]
    mask: Vec<String>,
    /// Take a snapshot before each command
    #[serde(default)]
    auto_snapshot: bool,
}

impl SandboxRequest {
    fn into_new(self) -> Result<NewSandbox, Problem> {
        if !self.project.starts_with('/') {
            return Err(Problem::field("project", "must be an absolute path"));
        }
        for key in self.labels.keys() {
            label::check_key(key).map_err(|why| Problem::field("labels", why))?;
        }
        let net = self.network.iter().map(|word| word.parse::<NetChoice>().map_err(|why| Problem::field("network", why)));
        let reach = self.reach.iter().map(|word| word.parse::<Reach>().map_err(|why| Problem::field("reach", why)));
        Ok(NewSandbox {
            name: self.name,
            labels: self.labels,
            net: net.collect::<Result<_, _>>()?,
            reach: reach.collect::<Result<_, _>>()?,
            provider: self.provider,
            mask: self.mask,
            env: environment(&self.env)?,
            cwd: Some(PathBuf::from(self.project)),
            auto_snapshot: self.auto_snapshot,
            template: self.template,
            limits: Limits { ttl: self.ttl.or(self.limits.ttl), ..self.limits },
            ..NewSandbox::default()
        })
    }
}

/// `NAME=VALUE`, as the engine takes it. A name alone would mean a variable of the daemon.
pub fn environment(variables: &BTreeMap<String, String>) -> Result<Vec<String>, Problem> {
    match variables.keys().find(|name| name.is_empty() || name.contains('=')) {
        Some(name) => Err(Problem::field("env", format!("'{name}' cannot be the name of a variable"))),
        None => Ok(variables.iter().map(|(name, value)| format!("{name}={value}")).collect()),
    }
}

/// Make a sandbox
///
/// With `Idempotency-Key`, the same request with the same key makes one sandbox.
#[utoipa::path(post, operation_id = "sandboxes_create", path = "/api/v1/sandboxes", tag = "sandboxes", request_body = SandboxRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    responses((status = 201, body = SandboxView), (status = "default", body = Problem)))]
pub async fn create(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    key: Key,
    Json(asked): Json<SandboxRequest>,
) -> Answer {
    let own = who.key();
    let done = app
        .answer(&who, move |engine| {
            once(engine, &key, "create", &asked.clone(), || {
                let mut new = asked.into_new()?;
                // If this is killed before it has answered, the next one with the key finds the sandbox by it.
                new.idempotency_key = key.word().map(|key| format!("{own} {key}"));
                let sandbox = engine.ground.call(|| engine.lifecycle.create(&new))?;
                Done::new(StatusCode::CREATED, &SandboxView::of(engine, sandbox)?)
            })
        })
        .await?;
    let id = done.body_word("id");
    let response = done.into_response(&app)?;
    Ok(reply::with(response, header::LOCATION, &format!("/api/v1/sandboxes/{id}")))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// One or several of `creating,active,stopped,approved,rejected,error`
    status: Option<String>,
    /// The absolute path of a project
    project: Option<String>,
    /// As the record has it, such as `token:main`
    owner: Option<String>,
    /// `KEY=VALUE`
    label: Option<String>,
    provider: Option<String>,
    /// At most so many
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next` of the page before
    cursor: Option<String>,
}

impl ListQuery {
    fn filter(&self) -> Result<SandboxFilter, Problem> {
        let status = |word: &str| {
            let known = word.parse::<Status>();
            known.map_err(|_| Problem::field("status", format!("'{}' is no status of a sandbox", word.escape_debug())))
        };
        let statuses = self.status.iter().flat_map(|words| words.split(',')).map(status).collect::<Result<_, _>>()?;
        let label = self.label.as_ref().map(|label| {
            let (key, value) = label.split_once('=').ok_or_else(|| Problem::field("label", "is written as KEY=VALUE"))?;
            Ok::<_, Problem>((key.to_owned(), value.to_owned()))
        });
        let Self { owner, provider, .. } = self;
        Ok(SandboxFilter {
            statuses,
            project: self.project.as_ref().map(PathBuf::from),
            owner: owner.clone(),
            node: None,
            provider: provider.clone(),
            label: label.transpose()?,
        })
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SandboxPage {
    sandboxes: Vec<SandboxView>,
    /// The cursor of the next page
    next: Option<String>,
}

/// List sandboxes, newest first
#[utoipa::path(get, operation_id = "sandboxes_list", path = "/api/v1/sandboxes", tag = "sandboxes", params(ListQuery),
    responses((status = 200, body = SandboxPage), (status = "default", body = Problem)))]
pub async fn list(State(app): State<Shared>, Extension(who): Extension<Principal>, Query(asked): Query<ListQuery>) -> Answer {
    let filter = asked.filter()?;
    let limit = asked.limit.unwrap_or(USUAL_PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Problem::field("limit", format!("must be 1 to {LARGEST_PAGE}")));
    }
    let cursor =
        asked.cursor.as_deref().map(|word| word.parse().map_err(|_| Problem::field("cursor", "is none that a list has given out")));
    let cursor = cursor.transpose()?;
    let page = app
        .work(&who, move |engine| {
            let (sandboxes, next) = engine.lifecycle.page(&filter, cursor.as_ref(), limit)?;
            let recorded: BTreeMap<String, Sandbox> = sandboxes.iter().map(|s| (s.id.to_string(), s.clone())).collect();
            let listed = engine.lifecycle.list_of(sandboxes)?;
            let views = listed.into_iter().filter_map(|line| Some(SandboxView::with(recorded.get(&line.id)?.clone(), line)));
            Ok(SandboxPage { sandboxes: views.collect(), next: next.map(|cursor| cursor.to_string()) })
        })
        .await?;
    reply::ok(&page)
}

/// Show a sandbox
///
/// `{sandbox}` is an id or a name, here and everywhere.
#[utoipa::path(get, operation_id = "sandboxes_show", path = "/api/v1/sandboxes/{sandbox}", tag = "sandboxes",
    params(("sandbox" = String, Path), ("If-None-Match" = Option<String>, Header)),
    responses((status = 200, body = SandboxView), (status = 304, description = "It is still of this version"), (status = "default", body = Problem)))]
pub async fn show(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words, headers: HeaderMap) -> Answer {
    let view = app.work(&who, move |engine| SandboxView::of(engine, named(engine, words.sandbox())?)).await?;
    let tag = tag(view.version);
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == tag) {
        return Ok(reply::with(StatusCode::NOT_MODIFIED.into_response(), header::ETAG, &tag));
    }
    Ok(reply::with(reply::ok(&view)?, header::ETAG, &tag))
}

/// What is to be different; what is not named stays as it is
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlterRequest {
    /// Merged with those it has; null removes one
    #[serde(default)]
    labels: BTreeMap<String, Option<String>>,
    /// How long it lives from now on, such as `2h`; never longer than its project allows
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String)]
    ttl: Option<Span>,
}

/// Null is no way of not naming it: it would look like a wish for no end.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Span>, D::Error> {
    Span::deserialize(deserializer).map(Some)
}

/// Change the labels and the lifetime of a sandbox
///
/// What runs in it does not notice. With `If-Match`, only if it is still of that version; otherwise the answer is 412.
#[utoipa::path(patch, operation_id = "sandboxes_alter", path = "/api/v1/sandboxes/{sandbox}", tag = "sandboxes",
    params(("sandbox" = String, Path), ("If-Match" = Option<String>, Header)),
    request_body = AlterRequest, responses((status = 200, body = SandboxView), (status = "default", body = Problem)))]
pub async fn alter(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    headers: HeaderMap,
    Json(asked): Json<AlterRequest>,
) -> Answer {
    for key in asked.labels.keys() {
        label::check_key(key).map_err(|why| Problem::field("labels", why))?;
    }
    let alteration = Alteration { labels: asked.labels, ttl: asked.ttl, if_version: seen_version(&headers)? };
    let altered = app.work(&who, move |engine| {
        let sandbox = engine.lifecycle.alter(&selected(engine, words.sandbox())?, &alteration)?;
        SandboxView::of(engine, sandbox)
    });
    let view = altered.await?;
    Ok(reply::with(reply::ok(&view)?, header::ETAG, &tag(view.version)))
}

/// The version in `If-Match`; none if there is no such header, or any version will do.
fn seen_version(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let mut sent = headers.get_all(header::IF_MATCH).iter();
    let (first, others) = (sent.next(), sent.count());
    let Some(first) = first else { return Ok(None) };
    let text = first.to_str().unwrap_or_default();
    let digits = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(version) if others == 0 => Ok(Some(version)),
        None if text == "*" && others == 0 => Ok(None),
        _ => Err(Problem::field("If-Match", "is the ETag of a sandbox, such as \"7\"")),
    }
}

/// Remove a sandbox with its changes
///
/// Doing it twice is no error.
#[utoipa::path(delete, operation_id = "sandboxes_remove", path = "/api/v1/sandboxes/{sandbox}", tag = "sandboxes", params(("sandbox" = String, Path)),
    responses((status = 204, description = "It is gone"), (status = "default", body = Problem)))]
pub async fn remove(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    app.work(&who, move |engine| {
        let removed = selected(engine, words.sandbox()).and_then(|which| engine.lifecycle.remove(&which, false));
        match removed {
            Err(EngineError::Ground(GroundError::Removed { .. })) => Ok(()),
            Err(error @ EngineError::Ground(GroundError::NoSuchSandbox { .. })) => {
                match engine.lifecycle.was_removed(words.sandbox())? {
                    true => Ok(()),
                    false => Err(error),
                }
            }
            other => other.map(drop),
        }
    })
    .await?;
    reply::nothing()
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StartRequest {
    /// How long it lives from now on, such as `2h`
    #[schema(value_type = Option<String>)]
    ttl: Option<Span>,
}

/// Start a stopped sandbox
///
/// One that runs is left alone.
#[utoipa::path(post, operation_id = "sandboxes_start", path = "/api/v1/sandboxes/{sandbox}/start", tag = "sandboxes", params(("sandbox" = String, Path)),
    request_body = Option<StartRequest>, responses((status = 200, body = SandboxView), (status = "default", body = Problem)))]
pub async fn start(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<StartRequest>,
) -> Answer {
    let started = app.work(&who, move |engine| {
        let sandbox = engine.lifecycle.start(&selected(engine, words.sandbox())?, asked.ttl)?;
        SandboxView::of(engine, sandbox)
    });
    reply::ok(&started.await?)
}

/// End what runs in a sandbox, and keep its changes
///
/// One that is stopped stays so.
#[utoipa::path(post, operation_id = "sandboxes_stop", path = "/api/v1/sandboxes/{sandbox}/stop", tag = "sandboxes", params(("sandbox" = String, Path)),
    responses((status = 200, body = SandboxView), (status = "default", body = Problem)))]
pub async fn stop(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let stopped = app.work(&who, move |engine| {
        let stopped = engine.lifecycle.stop(&selected(engine, words.sandbox())?, DEFAULT_GRACE)?;
        SandboxView::of(engine, stopped.sandbox)
    });
    reply::ok(&stopped.await?)
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForkRequest {
    /// Name of the new sandbox; made up if it is not given
    name: Option<String>,
    /// The label of the snapshot to start from, instead of what the sandbox is now
    snapshot: Option<String>,
}

/// Make a sandbox that begins where another one is
#[utoipa::path(post, operation_id = "sandboxes_fork", path = "/api/v1/sandboxes/{sandbox}/fork", tag = "sandboxes",
    params(("sandbox" = String, Path), ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    request_body = Option<ForkRequest>, responses((status = 201, body = SandboxView), (status = "default", body = Problem)))]
pub async fn fork(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    key: Key,
    Json(asked): Json<ForkRequest>,
) -> Answer {
    let done = app
        .answer(&who, move |engine| {
            once(engine, &key, "fork", &(words.sandbox(), &asked), || {
                let view = engine.ground.call(|| {
                    let name = named(engine, words.sandbox())?.name;
                    let source = asked.snapshot.as_ref().map_or_else(|| name.clone(), |label| format!("{name}@{label}"));
                    let forked = engine.history.fork(&Fork {
                        source: &source,
                        name: asked.name.as_deref(),
                        count: 1,
                        expose: &[],
                        live: Live::Copy,
                    })?;
                    let made = forked.sandboxes.into_iter().next().ok_or(GroundError::NoSuchSandbox { name })?;
                    SandboxView::of(engine, made)
                })?;
                Done::new(StatusCode::CREATED, &view)
            })
        })
        .await?;
    let id = done.body_word("id");
    Ok(reply::with(done.into_response(&app)?, header::LOCATION, &format!("/api/v1/sandboxes/{id}")))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RejectRequest {
    /// Whether to remove the sandbox as well; by default as the configuration says
    delete: Option<bool>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RejectedView {
    sandbox: String,
    deleted: bool,
}

/// Reject the changes of a sandbox
///
/// One that is rejected stays so.
#[utoipa::path(post, operation_id = "sandboxes_reject", path = "/api/v1/sandboxes/{sandbox}/reject", tag = "sandboxes", params(("sandbox" = String, Path)),
    request_body = Option<RejectRequest>, responses((status = 200, body = RejectedView), (status = "default", body = Problem)))]
pub async fn reject(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<RejectRequest>,
) -> Answer {
    let wish = asked.delete.map(|delete| if delete { Rejected::Delete } else { Rejected::Keep });
    let rejected = app.work(&who, move |engine| {
        let rejected = selected(engine, words.sandbox()).and_then(|which| engine.changes.reject(&which, wish));
        match rejected {
            // One that was to go is gone.
            Err(EngineError::Ground(GroundError::NoSuchSandbox { .. }))
                if wish != Some(Rejected::Keep) && engine.lifecycle.was_removed(words.sandbox())? =>
            {
                Ok(RejectedView { sandbox: words.sandbox().to_owned(), deleted: true })
            }
            other => other.map(|rejection| RejectedView { sandbox: rejection.sandbox.name, deleted: rejection.is_gone }),
        }
    });
    reply::ok(&rejected.await?)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn seen(values: &[&'static str]) -> Result<Option<u64>, ()> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::IF_MATCH, HeaderValue::from_static(value));
        }
        seen_version(&headers).map_err(drop)
    }

    #[test]
    fn if_match_is_one_version_or_any() {
        assert_eq!((seen(&[]), seen(&["*"]), seen(&["\"7\""])), (Ok(None), Ok(None), Ok(Some(7))));
        for wrong in ["", "7", "\"\"", "\"+7\"", "\"x\"", "W/\"7\"", "\"7\", \"8\"", "\"99999999999999999999\"", "\""] {
            assert_eq!(seen(&[wrong]), Err(()), "{wrong}");
        }
        assert_eq!((seen(&["\"7\"", "\"7\""]), seen(&["*", "\"7\""])), (Err(()), Err(())));
    }
}
