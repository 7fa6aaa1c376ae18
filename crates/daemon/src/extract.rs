//! What is read of a request: its JSON, its parameters. What cannot be understood is refused with the name of the field.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
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
        let Unambiguous(value) = serde_json::from_slice(&bytes).map_err(|error| {
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

/// JSON in which no object has a name twice: a filter in front of us could read the first one, and we the last.
struct Unambiguous(Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Unambiguous;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_unit<E>(self) -> Result<Unambiguous, E> {
                Ok(Unambiguous(Value::Null))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Unambiguous, A::Error> {
                let mut values = Vec::new();
                while let Some(Unambiguous(value)) = list.next_element()? {
                    values.push(value);
                }
                Ok(Unambiguous(values.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unambiguous, A::Error> {
                let mut object = serde_json::Map::new();
                while let Some((name, Unambiguous(value))) = map.next_entry::<String, _>()? {
                    if object.contains_key(&name) {
                        return Err(serde::de::Error::custom(format_args!("'{}' occurs twice", name.escape_debug())));
                    }
                    object.insert(name, value);
                }
                Ok(Unambiguous(object.into()))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// The file that a request is about: its `path` parameter. Names of files are bytes, so this one need not be UTF-8.
#[derive(Debug)]
pub struct At(pub PathBuf);

impl<S: Send + Sync> FromRequestParts<S> for At {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let found = parameters(parts.uri.query().unwrap_or_default()).into_iter().find(|(name, _)| name == PATH.as_bytes());
        match found {
            Some((_, path)) => Ok(Self(OsString::from_vec(path).into())),
            None => Err(Problem::field(PATH, "is missing")),
        }
    }
}

const PATH: &str = "path";

/// Names and values, without the signs that stand for others.
fn parameters(query: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let escaped = || u8::from_str_radix(std::str::from_utf8(others.get(..2)?).ok()?, 16).ok();
        let (byte, left) = match first {
            b'+' => (b' ', others),
            b'%' => escaped().map_or((b'%', others), |byte| (byte, &others[2..])),
            other => (*other, others),
        };
        bytes.push(byte);
        rest = left;
    }
    bytes
}

/// The parameters behind the question mark. One that is not UTF-8 is refused, except for `path`: see `At`.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let invalid = |message: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_parameter", message);
        let query = parts.uri.query().unwrap_or_default();
        for (name, value) in parameters(query) {
            if [&name, &value].into_iter().any(|bytes| bytes.contains(&0)) {
                return Err(invalid("a parameter must not contain a NUL character".to_owned()));
            }
            if std::str::from_utf8(&name).is_err() || (name != PATH.as_bytes() && std::str::from_utf8(&value).is_err()) {
                return Err(invalid("a parameter is not UTF-8".to_owned()));
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_occurs_twice_is_refused_wherever_it_is() {
        let read = |text: &str| serde_json::from_str::<Unambiguous>(text).map(|Unambiguous(value)| value);
        for twice in [r#"{"a":1,"a":1}"#, r#"{"a":[{"b":1,"c":2,"b":3}]}"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(read(twice).is_err(), "{twice}");
        }
        let whole = r#"{"a":[1,-2,2.5,true,null,"x"],"b":{"a":{}}}"#;
        assert_eq!(read(whole).unwrap(), serde_json::from_str::<Value>(whole).unwrap());
    }

    #[test]
    fn parameters_are_bytes() {
        let all = parameters("path=a%2Fb%ff+c&x&=y&path=%zz%4");
        let expected: [(&[u8], &[u8]); 4] = [(b"path", b"a/b\xff c"), (b"x", b""), (b"", b"y"), (b"path", b"%zz%4")];
        assert!(all.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).eq(expected), "{all:?}");
    }
}
