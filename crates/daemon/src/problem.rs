//! How an error is told over HTTP. The engine's errors are data; here they get a status, and nothing else is added.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;
use whatif_engine::EngineError;
use whatif_types::explain::whole_message;
use whatif_types::{Explain, Kind};

use crate::spelled;

/// Every answer that is not a success has this form.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    #[serde(skip)]
    #[schema(ignore)]
    status: StatusCode,
    /// Stable and machine-readable
    pub code: String,
    /// For people
    pub message: String,
    /// What to do about it
    pub hints: Vec<String>,
    /// Whether the same request may succeed later
    pub retryable: bool,
    /// More about it, for programs
    #[schema(value_type = Option<Object>)]
    pub details: Option<serde_json::Value>,
}

impl Problem {
    #[must_use]
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into(), hints: Vec::new(), retryable: false, details: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    #[must_use]
    pub fn details(self, details: serde_json::Value) -> Self {
        Self { details: Some(details), ..self }
    }

    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    #[must_use]
    pub fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// A field of a request that cannot be what it is.
    #[must_use]
    pub fn field(field: &str, why: impl Into<String>) -> Self {
        let why = why.into();
        let details = serde_json::json!({ "fields": [{ "field": field, "message": why }] });
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_field", format!("{field}: {why}")).details(details)
    }

    /// Too much is asked for at once.
    #[must_use]
    pub fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests are being worked on").retryable()
    }

    /// Something is wrong here, and not with the request.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        Self {
            status: status(&error),
            code: error.code().to_owned(),
            message: whole_message(&error),
            hints: error.remedies().iter().map(spelled::sentence).collect(),
            retryable: error.retryable(),
            details: error.details(),
        }
    }
}

fn status(error: &dyn Explain) -> StatusCode {
    match (error.code(), error.kind()) {
        // What is missing is in the sandbox, not at the address of the request.
        ("command_not_found" | "cannot_execute", _) => StatusCode::UNPROCESSABLE_ENTITY,
        // The request itself made this condition.
        ("version_changed", _) => StatusCode::PRECONDITION_FAILED,
        // Another request with this key is being worked on.
        ("key_in_use", _) => StatusCode::CONFLICT,
        (_, Kind::NotFound) => StatusCode::NOT_FOUND,
        (_, Kind::Conflict) => StatusCode::CONFLICT,
        (_, Kind::Invalid) => StatusCode::UNPROCESSABLE_ENTITY,
        (_, Kind::Forbidden) => StatusCode::FORBIDDEN,
        (_, Kind::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
        (_, Kind::Exhausted) => StatusCode::INSUFFICIENT_STORAGE,
        (_, Kind::Internal) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// What the router itself refuses is told in the same form.
pub fn in_our_form(response: Response<Body>) -> Response<Body> {
    let status = response.status();
    let is_ours = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !(status.is_client_error() || status.is_server_error()) || is_ours {
        return response;
    }
    let (code, message) = match status {
        StatusCode::NOT_FOUND => ("no_such_route", "nothing is at this address"),
        StatusCode::METHOD_NOT_ALLOWED => ("method_not_allowed", "this address does not know this method"),
        StatusCode::BAD_REQUEST => ("bad_request", "the request cannot be read"),
        _ => ("refused", status.canonical_reason().unwrap_or("the request was refused")),
    };
    let mut told = Problem::new(status, code, message).hint("the routes are at /api/v1/openapi.json").into_response();
    if let Some(allowed) = response.headers().get(header::ALLOW) {
        told.headers_mut().insert(header::ALLOW, allowed.clone());
    }
    told
}

#[cfg(test)]
mod tests {
    use whatif_engine::ground::GroundError;

    use super::*;

    #[test]
    fn the_kind_of_an_error_is_its_status() {
        let missing = EngineError::from(GroundError::NoSuchSandbox { name: "fox".to_owned() });
        let problem = Problem::from(missing);
        assert_eq!(problem.status, StatusCode::NOT_FOUND);
        let told = serde_json::to_value(&problem).unwrap();
        let keys: Vec<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["code", "details", "hints", "message", "retryable"]);
    }
}
