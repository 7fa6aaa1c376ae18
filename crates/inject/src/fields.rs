//! Which header fields a secret is put in: those that carry credentials, and those that a person named for it.
//!
//! It is a list of what is allowed because servers quote almost every other field in their errors, logs and debug pages.

/// Fields by which services take credentials.
pub const CREDENTIALS: &[&str] = &[
    "api-key",
    "apikey",
    "authorization",
    "circle-token",
    "dd-api-key",
    "dd-application-key",
    "deploy-token",
    "job-token",
    "ocp-apim-subscription-key",
    "private-token",
    "x-access-token",
    "x-algolia-api-key",
    "x-api-key",
    "x-api-token",
    "x-apikey",
    "x-auth-key",
    "x-auth-token",
    "x-consul-token",
    "x-figma-token",
    "x-functions-key",
    "x-goog-api-key",
    "x-honeycomb-team",
    "x-jfrog-art-api",
    "x-key",
    "x-nomad-token",
    "x-nuget-apikey",
    "x-postmark-server-token",
    "x-rapidapi-key",
    "x-redmine-api-key",
    "x-shopify-access-token",
    "x-subscription-token",
    "x-vault-token",
    "xi-api-key",
];

/// Fields that say how a message is read, or that servers repeat as a matter of course. No service takes a credential from them.
const NEVER: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "connection",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-type",
    "correlation-id",
    "date",
    "destination",
    "expect",
    "forwarded",
    "from",
    "host",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "keep-alive",
    "origin",
    "prefer",
    // The way out of the sandbox is not a proxy of the server's, and what asks for one is refused.
    "proxy-authorization",
    "proxy-connection",
    "range",
    "referer",
    "request-id",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "te",
    "trace-id",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-amzn-trace-id",
    "x-b3-spanid",
    "x-b3-traceid",
    "x-client-request-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-original-url",
    "x-real-ip",
    "x-request-id",
    "x-requested-with",
    "x-rewrite-url",
    "x-trace-id",
];

const LONGEST: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    #[error("'{text}' is not the name of a header field; one has letters, digits and '-'")]
    Name { text: String },
    #[error("no secret is sent in the field '{text}': servers repeat it, or read the request by it")]
    Never { text: String },
}

/// The name of a field that a secret may be sent in, in lower case.
///
/// # Errors
/// If it is not a name, or one that no credential belongs in.
pub fn parse(text: &str) -> Result<String, FieldError> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if text.is_empty() || text.len() > LONGEST || !is_plain {
        return Err(FieldError::Name { text: text.escape_debug().to_string() });
    }
    let name = text.to_ascii_lowercase();
    if NEVER.contains(&name.as_str()) { Err(FieldError::Never { text: name }) } else { Ok(name) }
}

/// Whether secrets go into a field without being told to.
pub(crate) fn carries_credentials(name: &[u8]) -> bool {
    CREDENTIALS.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_a_name_that_a_credential_may_stand_in() {
        assert_eq!(parse("X-Acme-Token"), Ok("x-acme-token".to_owned()));
        assert_eq!(parse("cookie"), Ok("cookie".to_owned()));
        for text in ["", "a b", "a:b", "a\r\nb", "x-\u{fc}", "="] {
            assert!(matches!(parse(text), Err(FieldError::Name { .. })), "{text:?}");
        }
        for text in ["Host", "Content-Length", "Transfer-Encoding", "User-Agent", "Proxy-Authorization"] {
            assert!(matches!(parse(text), Err(FieldError::Never { .. })), "{text}");
        }
    }

    #[test]
    fn no_field_is_on_both_lists() {
        assert!(CREDENTIALS.iter().all(|field| parse(field).is_ok()));
        assert!(CREDENTIALS.is_sorted() && NEVER.is_sorted());
    }
}
