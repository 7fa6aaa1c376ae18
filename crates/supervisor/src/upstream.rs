//! The proxies that the user's own programs use. Where there is one, names are resolved by it.

mod exceptions;
mod tunnel;

use std::io;

use tokio::net::TcpStream;
use whatif_netpolicy::{Authority, Host, HostName};
use whatif_types::network::UpstreamProxies;

use self::exceptions::Exceptions;

#[derive(Clone, Debug, Default)]
pub(crate) struct Upstream {
    http: Option<Proxy>,
    https: Option<Proxy>,
    exceptions: Exceptions,
}

/// An HTTP proxy and what is said to it about who asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// `user:password` in base 64.
    basic: Option<String>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Upstream {
    /// What cannot be read is left out: without its proxy a connection fails, which says more than a guess would.
    pub(crate) fn new(proxies: &UpstreamProxies) -> Self {
        let read = |text: &Option<String>| text.as_deref().and_then(Proxy::parse);
        Self {
            http: read(&proxies.http_proxy),
            https: read(&proxies.https_proxy),
            exceptions: Exceptions::new(proxies.no_proxy.as_deref().unwrap_or_default()),
        }
    }

    /// The proxy for a connection, if there is one. As in the variables, `http` is for port 80 and `https` for all else.
    pub(crate) fn for_connection(&self, host: &Host, port: u16) -> Option<&Proxy> {
        let proxy = if port == 80 { self.http.as_ref() } else { self.https.as_ref() };
        proxy.filter(|_| !self.exceptions.contain(host, port))
    }

    /// Whether a proxy may come to resolve this name.
    pub(crate) fn resolves(&self, name: &HostName) -> bool {
        let host = Host::Name(name.clone());
        [80, 443].into_iter().any(|port| self.for_connection(&host, port).is_some())
    }
}

impl Proxy {
    /// `http://user:password@host:port`, of which only the host is required.
    fn parse(text: &str) -> Option<Self> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => return None,
            None => text,
        };
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, authority) = match rest.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, rest),
        };
        let authority = Authority::parse(authority).ok()?;
        let basic = user.map(|user| tunnel::base64(&tunnel::unescaped(user)));
        Some(Self { host: authority.host, port: authority.port.unwrap_or(80), basic })
    }

    /// Asks for a tunnel over a fresh connection to the proxy.
    pub(crate) async fn tunnel(&self, stream: &TcpStream, host: &Host, port: u16) -> io::Result<()> {
        tunnel::ask(stream, self.basic.as_deref(), host, port).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(text: &str) -> Option<(String, u16, Option<String>)> {
        Proxy::parse(text).map(|proxy| (proxy.host.to_string(), proxy.port, proxy.basic))
    }

    #[test]
    fn proxies_are_read_as_programs_write_them() {
        assert_eq!(proxy("http://proxy.example:3128/"), Some(("proxy.example".to_owned(), 3128, None)));
        assert_eq!(proxy("proxy.example"), Some(("proxy.example".to_owned(), 80, None)));
        assert_eq!(proxy("http://[2001:db8::1]:8080"), Some(("2001:db8::1".to_owned(), 8080, None)));
        let basic = Some("dXNlcjpwQHNz".to_owned());
        assert_eq!(proxy("HTTP://user:p%40ss@192.0.2.1:1"), Some(("192.0.2.1".to_owned(), 1, basic)));
        for text in ["", "https://proxy.example", "socks5://proxy.example", "http://", "http://:80", "http://a b"] {
            assert_eq!(proxy(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_is_resolved_by_a_proxy_unless_it_is_excepted() {
        let proxies = UpstreamProxies {
            http_proxy: None,
            https_proxy: Some("http://proxy.example:3128".to_owned()),
            no_proxy: Some("inner.example".to_owned()),
        };
        let upstream = Upstream::new(&proxies);
        let host = |text: &str| text.parse::<Host>().unwrap();
        assert!(upstream.for_connection(&host("a.example"), 443).is_some());
        assert!(upstream.for_connection(&host("a.example"), 80).is_none());
        assert!(upstream.for_connection(&host("x.inner.example"), 443).is_none());
        assert!(upstream.resolves(&"a.example".parse().unwrap()) && !upstream.resolves(&"inner.example".parse().unwrap()));
    }
}
