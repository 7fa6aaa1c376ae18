//! Where a URL leads: a host and a port, and nothing else of it.
//!
//! Strict on purpose: whatever two programs could read differently is refused. A tool that has such a URL works as before;
//! only its host is not opened.

use std::fmt;
use std::net::IpAddr;

use whatif_netpolicy::{AddressClass, Authority, Host, Rule, address};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    host: Host,
    port: u16,
}

/// Never repeats what was read: it can hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("is not a URL")]
    NotUrl,
    #[error("has spaces or control characters in it")]
    Characters,
    #[error("has more than one '@' in front of its path")]
    User,
    #[error("has a host that is not written plainly")]
    Host,
    #[error("has a scheme that is not http, https, ssh or git")]
    Scheme,
    #[error("is on this machine; use --reach localhost:{0} for it")]
    ThisMachine(u16),
    #[error("is an address that is not that of a server")]
    Address,
}

impl Place {
    /// Reads a URL; `None` if it is a path on this machine.
    pub(crate) fn of_url(text: &str) -> Result<Option<Self>, PlaceError> {
        check_characters(text)?;
        let Some((scheme, rest)) = text.split_once("://") else {
            return if is_path(text) { Ok(None) } else { Err(PlaceError::NotUrl) };
        };
        let scheme = scheme.to_ascii_lowercase();
        // sparse+https, git+ssh, mirror+http: some part of it says how the host is talked to.
        let parts = || scheme.split('+').rev();
        if parts().any(|part| matches!(part, "file" | "copy" | "cdrom")) {
            return Ok(None);
        }
        let usual = parts().find_map(usual_port).ok_or(PlaceError::Scheme)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        Self::of_authority(authority, usual).map(Some)
    }

    /// Like [`Self::of_url`], and `user@host:path` is for ssh.
    pub(crate) fn of_git_url(text: &str) -> Result<Option<Self>, PlaceError> {
        if text.contains("://") || is_path(text) {
            return Self::of_url(text);
        }
        check_characters(text)?;
        // `ext::command` and its like name programs of git.
        if text.contains("::") {
            return Err(PlaceError::Scheme);
        }
        match text.split_once(':') {
            Some((host, _)) if !host.contains('/') => Self::of_authority(host, SSH).map(Some),
            _ => Ok(None),
        }
    }

    /// A host as it stands, with or without a port.
    pub(crate) fn of_host(text: &str) -> Result<Self, PlaceError> {
        check_characters(text)?;
        Self::of_authority(text, HTTPS)
    }

    fn of_authority(authority: &str, usual: u16) -> Result<Self, PlaceError> {
        let host = match authority.split_once('@') {
            Some((_, host)) if host.contains('@') => return Err(PlaceError::User),
            Some((_, host)) => host,
            None => authority,
        };
        let parsed = Authority::parse(host).map_err(|_| PlaceError::Host)?;
        let port = parsed.port.unwrap_or(usual);
        check_host(&parsed.host, port)?;
        Ok(Self { host: parsed.host, port })
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn rule(&self) -> Option<Rule> {
        self.to_string().parse().ok()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

const SSH: u16 = 22;
const HTTPS: u16 = 443;

fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "https" => Some(HTTPS),
        "http" | "mirror" => Some(80),
        "ssh" => Some(SSH),
        "git" => Some(9418),
        _ => None,
    }
}

fn is_path(text: &str) -> bool {
    // git itself takes what has a slash before any colon for a path.
    let is_before_colon = text.split(':').next().is_some_and(|start| start.contains('/'));
    text.starts_with(['/', '.', '~'])
        || is_before_colon
        || text.starts_with("file:")
        || text.starts_with("cdrom:")
        || text.starts_with("copy:")
}

fn check_characters(text: &str) -> Result<(), PlaceError> {
    let is_bad = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
    if text.is_empty() {
        return Err(PlaceError::NotUrl);
    }
    if text.contains(is_bad) { Err(PlaceError::Characters) } else { Ok(()) }
}

/// This machine's own services are reached by asking for them; a sandbox has a localhost of its own.
fn check_host(host: &Host, port: u16) -> Result<(), PlaceError> {
    match host {
        Host::Name(name) if name.as_str() == "localhost" || name.as_str().ends_with(".localhost") => {
            Err(PlaceError::ThisMachine(port))
        }
        Host::Name(_) => Ok(()),
        Host::Address(address) => match address::classify(*address) {
            AddressClass::Loopback => Err(PlaceError::ThisMachine(port)),
            AddressClass::LinkLocal | AddressClass::Metadata => Err(PlaceError::Address),
            class if class.is_one_host() => Ok(()),
            _ => Err(PlaceError::Address),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> String {
        Place::of_url(text).unwrap().unwrap().to_string()
    }

    #[test]
    fn every_url_has_a_port() {
        for (url, expected) in [
            ("https://a.example/simple", "a.example:443"),
            ("http://a.example", "a.example:80"),
            ("HTTPS://A.Example:8443?x", "a.example:8443"),
            ("sparse+https://a.example/index/", "a.example:443"),
            ("git+ssh://git@a.example/x", "a.example:22"),
            ("ssh+git://git@a.example:2222/x", "a.example:2222"),
            ("git://a.example/x", "a.example:9418"),
            ("mirror+http://a.example/x", "a.example:80"),
            ("https://user:secret@a.example/", "a.example:443"),
            ("https://[2001:db8::1]/", "[2001:db8::1]:443"),
            ("https://10.0.0.5:3141/", "10.0.0.5:3141"),
        ] {
            assert_eq!(place(url), expected, "{url}");
            let rule = Place::of_url(url).unwrap().unwrap().rule().unwrap();
            let port = expected.rsplit(':').next().unwrap().parse().unwrap();
            assert_eq!(rule.ports(), whatif_netpolicy::rule::Ports::One(port), "{url}");
        }
    }

    #[test]
    fn paths_are_on_this_machine() {
        for text in ["/srv/wheels", "./x", "~/x", "file:///srv/x", "file:/srv", "x/y:z", "cdrom:[Disc]/", "mirror+file:///etc/x"] {
            assert_eq!(Place::of_url(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn hostile_urls_are_refused() {
        for text in [
            "",
            "a.example",
            "javascript:alert(1)",
            "ftp://a.example/",
            "https://",
            "https:///path",
            "https://a.example:0/",
            "https://a.example:99999/",
            "https://a.example:/",
            "https://a@b@c.example/",
            "https://user:pa/ss@a.example/",
            "https://a.example\n.evil.example/",
            "https://a.example /",
            "https://a.example\\@evil.example/",
            "https://a.example%00.evil.example/",
            "https://*.example/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://127.0.0.1:4873/",
            "https://[::1]:4873/",
            "https://[::ffff:127.0.0.1]/",
            "https://localhost:4873/",
            "https://x.localhost/",
            "https://169.254.169.254/",
            "https://[fe80::1]/",
            "https://0.0.0.0/",
            "https://224.0.0.1/",
            "https://bücher.example/",
        ] {
            assert!(Place::of_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn git_has_a_form_of_its_own() {
        let read = |text| Place::of_git_url(text).map(|place| place.map(|p| p.to_string()));
        assert_eq!(read("git@a.example:team/x.git"), Ok(Some("a.example:22".to_owned())));
        assert_eq!(read("a.example:x"), Ok(Some("a.example:22".to_owned())));
        assert_eq!(read("https://t0ken@a.example/x"), Ok(Some("a.example:443".to_owned())));
        assert_eq!(read("ssh://a.example:7999/x"), Ok(Some("a.example:7999".to_owned())));
        for path in ["/srv/x.git", "../x.git", "x", "dir/x:y", "file:///srv/x"] {
            assert_eq!(read(path), Ok(None), "{path}");
        }
        for text in ["ext::sh -c true", "ext::sh", "a b:c", "-oProxyCommand=x:y", "localhost:x", "x@y@z:w"] {
            assert!(Place::of_git_url(text).is_err(), "{text}");
        }
    }
}
