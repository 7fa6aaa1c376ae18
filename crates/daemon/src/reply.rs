//! What is answered: a status, and JSON.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;

use crate::problem::Problem;

pub type Answer = Result<Response<Body>, Problem>;

pub fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    let bytes = serde_json::to_vec(body).map_err(|error| Problem::internal(format!("the answer cannot be written: {error}")))?;
    Ok(bytes_of(status, "application/json", bytes))
}

pub fn ok(body: &impl Serialize) -> Answer {
    json(StatusCode::OK, body)
}

pub fn nothing() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[must_use]
pub fn bytes_of(status: StatusCode, kind: &'static str, bytes: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// With a header, unless its value cannot be one.
#[must_use]
pub fn with(mut response: Response<Body>, name: HeaderName, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The request was done before with the same key.
#[must_use]
pub fn replayed(response: Response<Body>) -> Response<Body> {
    with(response, HeaderName::from_static("idempotency-replayed"), "true")
}

/// `"7"`, as `ETag` and `If-None-Match` write it.
#[must_use]
pub fn tag(version: impl std::fmt::Display) -> String {
    format!("\"{version}\"")
}
