//! What is read of a request: its JSON, its parameters. What cannot be understood is refused with the name of the field.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::problem::Problem;

/// No request that is not a file is longer.
const LONGEST_BODY: usize = 1 << 20;
/// A body that has not come by then is not waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// The JSON that a request brings. An empty body is an empty object.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, _state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default().to_owned());
        let bytes = whole_body(request.into_body()).await?;
        if bytes.is_empty() {
            return understood(Value::Object(serde_json::Map::new())).map(Self);
        }
        // A form that a page of another site sends has no such type.
        let is_json = kind
            .as_deref()
            .is_some_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")));
        if !is_json {
            let problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", "the body of this request must be JSON");
            return Err(problem.hint("send Content-Type: application/json"));
        }
        let value = serde_json::from_slice(&bytes).map_err(|error| {
            Problem::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the body is not valid JSON: {error}"))
        })?;
        understood(value).map(Self)
    }
}

async fn whole_body(body: Body) -> Result<bytes::Bytes, Problem> {
    let collected = tokio::time::timeout(PATIENCE, Limited::new(body, LONGEST_BODY).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("the body is longer than {LONGEST_BODY} bytes");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
        }
        Ok(Err(_)) => Err(Problem::new(StatusCode::BAD_REQUEST, "bad_request", "the body cannot be read")),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body did not come in time")),
    }
}

fn understood<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    if !value.is_object() {
        let message = "the body must be a JSON object";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_field", message));
    }
    if let Some(place) = with_nul(&value, String::new()) {
        return Err(Problem::field(&place, "must not contain a NUL character"));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "body" } else { &path };
        Problem::field(field, error.inner().to_string())
    })
}

/// Names of the operating system end at such a character, so nothing with one is what it looks like.
fn with_nul(value: &Value, place: String) -> Option<String> {
    let inside = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    match value {
        Value::String(text) => text.contains('\0').then_some(place),
        Value::Array(all) => all.iter().enumerate().find_map(|(index, one)| with_nul(one, inside(&index.to_string()))),
        Value::Object(all) => all.iter().find_map(|(name, one)| match name.contains('\0') {
            true => Some(place.clone()),
            false => with_nul(one, inside(name)),
        }),
        _ => None,
    }
}

/// The parameters behind the question mark.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let invalid = |message: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_parameter", message);
        let query = parts.uri.query().unwrap_or_default();
        if query.contains("%00") {
            return Err(invalid("a parameter must not contain a NUL character".to_owned()));
        }
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        read.map(|axum::extract::Query(value)| Self(value)).map_err(|error| invalid(error.body_text()))
    }
}

/// The words in the path of a request, by their names.
#[derive(Debug)]
pub struct Words(Vec<(String, String)>);

impl Words {
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, word)| word)
    }

    #[must_use]
    pub fn sandbox(&self) -> &str {
        self.get("sandbox")
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Words {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let unreadable = || Problem::new(StatusCode::BAD_REQUEST, "bad_request", "the path of the request cannot be read");
        let words = RawPathParams::from_request_parts(parts, state).await.map_err(|_| unreadable())?;
        let words: Vec<_> = words.iter().map(|(name, word)| (name.to_owned(), word.to_owned())).collect();
        if words.iter().any(|(_, word)| word.contains('\0')) {
            return Err(unreadable());
        }
        Ok(Self(words))
    }
}
