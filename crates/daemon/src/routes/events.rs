//! What happened, as a list and as a stream, and the audit log.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};
use whatif_engine::EngineError;
use whatif_engine::ground::events::{DeedDocument, EventDocument};
use whatif_types::Principal;

use crate::app::Shared;
use crate::extract::Query;
use crate::feed::Turn;
use crate::problem::Problem;
use crate::reply::{self, Answer};

const USUAL_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;
/// Frames that wait for a slow client.
const AHEAD: usize = 64;
/// A stream on which nothing happens for so long says that it is still there.
const SILENCE: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only events after this number; by default, a list begins with the earliest event, and a stream with the next one
    after: Option<u64>,
    /// Only events about the sandbox, template or race of this name
    subject: Option<String>,
    /// Only events whose kind starts with this, such as `apply.`
    kind: Option<String>,
    /// At most so many events are looked at
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl EventsQuery {
    fn wants(&self, event: &EventDocument) -> bool {
        self.subject.as_ref().is_none_or(|subject| event.subject == *subject)
            && self.kind.as_ref().is_none_or(|kind| event.kind.starts_with(kind.as_str()))
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct EventList {
    #[schema(value_type = Vec<Object>)]
    events: Vec<EventDocument>,
    /// The number to go on after
    next: u64,
}

/// List events, or follow them
///
/// With `Accept: text/event-stream`, answers with a stream that goes on as events happen. After a break, a client sends the last
/// id it has seen as `Last-Event-ID`, and misses nothing.
#[utoipa::path(get, operation_id = "events_list", path = "/api/v1/events", tag = "events",
    params(EventsQuery, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, content((EventList = "application/json"), (String = "text/event-stream"))), (status = "default", body = Problem)))]
pub async fn list(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    Query(asked): Query<EventsQuery>,
    headers: HeaderMap,
) -> Answer {
    let limit = page(asked.limit)?;
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|accepted| accepted.to_str().ok());
    if accepts.flat_map(|accepted| accepted.split(',')).any(|kind| kind.trim().starts_with("text/event-stream")) {
        return follow(app, who, asked, &headers).await;
    }
    let after = asked.after;
    let (events, next) = app.work(&who, move |engine| read(engine, after, limit)).await?;
    let events = events.into_iter().filter(|event| asked.wants(event)).collect();
    reply::ok(&EventList { events, next })
}

fn page(limit: Option<usize>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(USUAL_PAGE);
    match (1..=LARGEST_PAGE).contains(&limit) {
        true => Ok(limit),
        false => Err(Problem::field("limit", format!("must be 1 to {LARGEST_PAGE}"))),
    }
}

fn read(engine: &whatif_engine::Engine, after: Option<u64>, limit: usize) -> Result<(Vec<EventDocument>, u64), EngineError> {
    let after = match after {
        Some(after) => after,
        None => engine.ground.first_event()? - 1,
    };
    let events = engine.ground.events(after, limit)?;
    let next = events.last().map_or(after, |event| event.number);
    Ok((events.into_iter().map(EventDocument::from).collect(), next))
}

async fn follow(app: Shared, who: Principal, asked: EventsQuery, headers: &HeaderMap) -> Answer {
    let resumed = headers.get("last-event-id").map(|id| {
        let number = id.to_str().ok().and_then(|id| id.parse().ok());
        number.ok_or_else(|| Problem::field("Last-Event-ID", "is the number of an event"))
    });
    // Subscribed to before the first look, so that nothing is between the two.
    let turns = app.feed.follow();
    let after = match resumed.transpose()?.or(asked.after) {
        Some(after) => after,
        None => app.work(&who, |engine| engine.ground.last_event()).await?,
    };
    // What is no longer kept is said before the stream begins.
    app.work(&who, move |engine| engine.ground.events(after, 1).map(drop)).await?;
    let (frames, stream) = mpsc::channel(AHEAD);
    tokio::spawn(send(app, who, asked, after, turns, frames));
    Ok(reply::bytes_of(StatusCode::OK, "text/event-stream", Body::new(Stream(stream))))
}

/// Until the client leaves, the daemon ends, or the records cannot be read.
async fn send(
    app: Shared,
    who: Principal,
    asked: EventsQuery,
    mut after: u64,
    mut turns: tokio::sync::watch::Receiver<Turn>,
    frames: mpsc::Sender<Bytes>,
) {
    // Headers go out at once.
    let mut is_open = frames.send(Bytes::from_static(b": whatif\n\n")).await.is_ok();
    while is_open {
        if *turns.borrow_and_update() == Turn::Over {
            return;
        }
        loop {
            let from = after;
            let Ok((events, next)) = app.work(&who, move |engine| read(engine, Some(from), LARGEST_PAGE)).await else { return };
            if next == after {
                break;
            }
            after = next;
            for event in events.iter().filter(|event| asked.wants(event)) {
                is_open = is_open && frames.send(frame(event)).await.is_ok();
            }
        }
        tokio::select! {
            () = frames.closed() => return,
            changed = timeout(SILENCE, turns.changed()) => match changed {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => is_open = frames.send(Bytes::from_static(b":\n\n")).await.is_ok(),
            },
        }
    }
}

fn frame(event: &EventDocument) -> Bytes {
    let data = serde_json::to_string(event).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", event.number, event.kind).into()
}

/// A body that goes on for as long as somebody sends.
struct Stream(mpsc::Receiver<Bytes>);

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Only entries after this number
    after: u64,
    /// At most so many
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AuditList {
    #[schema(value_type = Vec<Object>)]
    entries: Vec<DeedDocument>,
    /// The number to go on after
    next: u64,
}

/// List who applied, undid, reviewed, rejected and removed what
#[utoipa::path(get, operation_id = "audit_list", path = "/api/v1/audit", tag = "events", params(AuditQuery),
    responses((status = 200, body = AuditList), (status = "default", body = Problem)))]
pub async fn audit(State(app): State<Shared>, Extension(who): Extension<Principal>, Query(asked): Query<AuditQuery>) -> Answer {
    let limit = page(asked.limit)?;
    let found = app.work(&who, move |engine| engine.ground.deeds(asked.after, limit)).await?;
    let next = found.last().map_or(asked.after, |entry| entry.number);
    reply::ok(&AuditList { entries: found.into_iter().map(DeedDocument::from).collect(), next })
}

#[derive(Debug, Serialize, ToSchema)]
pub struct VerifiedView {
    /// How many there are
    entries: u64,
    /// Of the last one; whoever keeps it can tell later whether the log was cut
    hash: Option<String>,
}

/// Check that no entry of the audit log was changed or removed
#[utoipa::path(get, operation_id = "audit_verify", path = "/api/v1/audit/verify", tag = "events",
    responses((status = 200, body = VerifiedView), (status = "default", body = Problem)))]
pub async fn verify(State(app): State<Shared>, Extension(who): Extension<Principal>) -> Answer {
    let last = app.work(&who, |engine| engine.ground.verify_deeds()).await?.map(DeedDocument::from);
    reply::ok(&VerifiedView { entries: last.as_ref().map_or(0, |last| last.number), hash: last.map(|last| last.hash) })
}
