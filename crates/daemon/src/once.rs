//! `Idempotency-Key`: the same request with the same key is done once, and gives the same answer again.

use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use whatif_engine::Engine;
use whatif_engine::ground::once::{Begun, Once};

use crate::app::Shared;
use crate::problem::Problem;
use crate::reply;

const HEADER: &str = "idempotency-key";
const LONGEST: usize = 255;
/// A request that has not been answered by then belongs to a daemon that was killed.
const WITHIN: Duration = Duration::from_secs(3600);

/// The key of a request, if it has one.
#[derive(Clone, Debug)]
pub struct Key(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let mut all = parts.headers.get_all(HEADER).iter();
        let Some(sent) = all.next() else { return Ok(Self(None)) };
        if all.next().is_some() {
            return Err(Problem::field("Idempotency-Key", "must be sent once"));
        }
        let key =
            sent.to_str().ok().filter(|key| !key.is_empty() && key.len() <= LONGEST && key.bytes().all(|b| b.is_ascii_graphic()));
        match key {
            Some(key) => Ok(Self(Some(key.to_owned()))),
            None => Err(Problem::field("Idempotency-Key", format!("must be 1 to {LONGEST} visible ASCII characters"))),
        }
    }
}

impl Key {
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// The answer, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    status: u16,
    body: Value,
    #[serde(skip)]
    is_replay: bool,
}

impl Done {
    pub fn new(status: StatusCode, body: &impl Serialize) -> Result<Self, Problem> {
        let body =
            serde_json::to_value(body).map_err(|error| Problem::internal(format!("the answer cannot be written: {error}")))?;
        Ok(Self { status: status.as_u16(), body, is_replay: false })
    }

    /// A word of the answer.
    #[must_use]
    pub fn body_word(&self, field: &str) -> String {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    pub fn into_response(self, app: &Shared) -> Result<Response<Body>, Problem> {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let response = reply::json(status, &self.body)?;
        if self.is_replay {
            app.metrics.replays.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            return Ok(reply::replayed(response));
        }
        Ok(response)
    }
}

/// `asked` is the same whenever the same is asked for. What failed may be tried again.
pub fn once(
    engine: &Engine,
    key: &Key,
    verb: &'static str,
    asked: &impl Serialize,
    work: impl FnOnce() -> Result<Done, Problem>,
) -> Result<Done, Problem> {
    let Some(key) = &key.0 else { return work() };
    let request = serde_json::to_string(asked).map_err(|error| Problem::internal(error.to_string()))?;
    match engine.ground.begin_once(Once { key, verb, request: &request, within: WITHIN })? {
        Begun::Before(answer) => {
            let done: Done = serde_json::from_str(&answer).map_err(|error| Problem::internal(error.to_string()))?;
            Ok(Done { is_replay: true, ..done })
        }
        Begun::Now(claimed) => {
            let done = work()?;
            claimed.answer(&serde_json::to_string(&done).map_err(|error| Problem::internal(error.to_string()))?)?;
            Ok(done)
        }
    }
}
