//! Who may: the checks that every request passes before any route sees it.

use std::net::SocketAddr;

use axum::http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use whatif_types::Principal;

use crate::problem::Problem;
use crate::token::Token;

/// Answered without a token: they say nothing about sandboxes.
const OPEN: [&str; 2] = ["/health", "/ready"];

/// By which way a request came.
#[derive(Clone, Debug)]
pub enum Way {
    /// Whoever can reach the port, so a token says who it is.
    Tcp,
    /// The kernel says who it is.
    Socket(Principal),
}

/// What is needed to decide.
#[derive(Debug)]
pub struct Access {
    token: Token,
    /// As what we may be addressed.
    hosts: Vec<String>,
}

impl Access {
    #[must_use]
    pub fn new(token: Token, address: SocketAddr) -> Self {
        let names = [
            address.ip().to_string(),
            format!("[{}]", address.ip()),
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "[::1]".to_owned(),
        ];
        let port = address.port();
        let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            hosts.extend(names);
        }
        Self { token, hosts }
    }

    /// Who asks; `None` where that does not matter.
    pub fn check<B>(&self, request: &Request<B>, way: &Way) -> Result<Option<Principal>, Problem> {
        self.check_host(request.uri(), request.headers(), way)?;
        self.check_origin(request.headers())?;
        if let Way::Socket(principal) = way {
            return Ok(Some(principal.clone()));
        }
        let is_open = OPEN.contains(&request.uri().path()) && matches!(*request.method(), Method::GET | Method::HEAD);
        if is_open { Ok(None) } else { self.check_token(request.headers()).map(Some) }
    }

    /// A page of another site reaches us by a name of its own that it lets lead here.
    fn check_host(&self, uri: &Uri, headers: &HeaderMap, way: &Way) -> Result<(), Problem> {
        let misdirected = |message| Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "foreign_host", message));
        let mut named = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else { return misdirected("a request has exactly one Host header") };
        let is_known =
            |host: &str| matches!(way, Way::Socket(_)) || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host));
        let is_ours = host.to_str().is_ok_and(is_known) && uri.authority().is_none_or(|authority| is_known(authority.as_str()));
        if is_ours { Ok(()) } else { misdirected("this daemon is not called by the name in the Host header") }
    }

    /// A browser says which site a request comes from.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let is_own = |origin: &str| origin.strip_prefix("http://").is_some_and(|host| self.hosts.iter().any(|known| known == host));
        let is_foreign = headers.get_all(header::ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(is_own));
        if is_foreign {
            Err(Problem::new(StatusCode::FORBIDDEN, "foreign_origin", "requests of other sites are refused"))
        } else {
            Ok(())
        }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<Principal, Problem> {
        let unknown = |message| {
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
            Err(problem.hint("send 'Authorization: Bearer TOKEN' with the content of the token file"))
        };
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(sent), None) = (sent.next(), sent.next()) else { return unknown("the request has no token") };
        let presented = sent.to_str().ok().and_then(|text| text.split_once(' '));
        match presented {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && self.token.is(token.trim()) => {
                Ok(Principal::Token { id: self.token.name.to_owned() })
            }
            _ => unknown("the token of the request is not known"),
        }
    }
}
