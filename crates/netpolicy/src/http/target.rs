//! What a request line asks for.

use super::HttpError;
use crate::authority::Authority;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `/path`; here and below without its query.
    Origin { path: String },
    /// `http://host/path`.
    Absolute { authority: Authority, path: String },
    /// `host:port`, with `CONNECT` only.
    Authority(Authority),
    /// `*`, with `OPTIONS` only.
    Asterisk,
}

impl Target {
    pub(super) fn parse(method: &str, text: &str) -> Result<Self, HttpError> {
        if text.contains('#') {
            return Err(HttpError::Target);
        }
        if method == "CONNECT" {
            let authority = Authority::parse(text)?;
            return if authority.port.is_some() { Ok(Self::Authority(authority)) } else { Err(HttpError::Target) };
        }
        if text == "*" {
            return if method == "OPTIONS" { Ok(Self::Asterisk) } else { Err(HttpError::Target) };
        }
        if text.starts_with('/') {
            return Ok(Self::Origin { path: without_query(text) });
        }
        let rest = text.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http")).ok_or(HttpError::Target)?.1;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path = without_query(path);
        Ok(Self::Absolute { authority: Authority::parse(authority)?, path: if path.is_empty() { "/".to_owned() } else { path } })
    }

    /// The path, if the target has one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Origin { path } | Self::Absolute { path, .. } => Some(path),
            Self::Authority(_) | Self::Asterisk => None,
        }
    }

    /// The host that the request line itself names.
    #[must_use]
    pub fn authority(&self) -> Option<&Authority> {
        match self {
            Self::Absolute { authority, .. } | Self::Authority(authority) => Some(authority),
            Self::Origin { .. } | Self::Asterisk => None,
        }
    }
}

fn without_query(text: &str) -> String {
    text.split('?').next().unwrap_or_default().to_owned()
}
