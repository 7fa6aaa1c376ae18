//! The secrets of one sandbox and the connections they belong to.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::server::Acceptor;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector, client, server};
use whatif_netpolicy::HostName;
use whatif_netpolicy::http::Head;
use whatif_types::network::Secret;
use zeroize::{Zeroize as _, Zeroizing};

use crate::authority::{Authority, AuthorityError};
use crate::destination::{Destination, DestinationError, Transport};
use crate::fields::{self, FieldError};
use crate::known::{self, Known, ValueError};
use crate::mask::Masks;
use crate::placeholder;
use crate::prefixed::Prefixed;
use crate::relay::Relay;
use crate::roots::{Roots, RootsError};
use crate::totals::{Outcome, Totals};

const HANDSHAKE: Duration = Duration::from_secs(10);
/// Half of what a certificate is good for.
const LEAF_USE: Duration = Duration::from_secs(24 * 3600);
/// Requests of HTTP/2 are packed so that they cannot be read here, so it is not offered.
const PROTOCOL: &[u8] = b"http/1.1";

/// Relays connections that secrets belong to. Shared by all of them.
pub struct Injector {
    authority: Authority,
    secrets: HashMap<Destination, Vec<Known>>,
    provider: Arc<CryptoProvider>,
    outwards: Arc<ClientConfig>,
    leaves: Mutex<HashMap<HostName, Leaf>>,
}

/// How TLS is spoken with the sandbox for one host.
struct Leaf {
    made: SystemTime,
    config: Arc<ServerConfig>,
}

#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    #[error("the secret {name} cannot be used: {source}")]
    Value { name: String, source: ValueError },
    #[error("the secret {name} cannot be used: {source}")]
    Destination { name: String, source: DestinationError },
    #[error("the secret {name} cannot be used: {source}")]
    Field { name: String, source: FieldError },
    #[error("the placeholder of the secret {name} is not one that whatif makes")]
    Placeholder { name: String },
    #[error("the secrets {name} and {other} have the same placeholder for the same host")]
    Twice { name: String, other: String },
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Roots(#[from] RootsError),
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Injector {
    /// With an authority of its own, and the system's roots.
    ///
    /// # Errors
    /// If a secret cannot be sent in a field, or this machine has no certificates it trusts.
    pub fn new(sandbox: &str, secrets: Vec<Secret>) -> Result<Self, InjectError> {
        let secrets = take_over(secrets)?;
        let authority = Authority::new(sandbox, secrets.keys().map(|destination| &destination.host))?;
        Self::of(authority, &Roots::system()?, secrets)
    }

    /// With an authority that the sandbox was already told about, and the roots that the user's own programs go by.
    ///
    /// # Errors
    /// If a secret cannot be sent in a field.
    pub fn with(authority: Authority, roots: &Roots, secrets: Vec<Secret>) -> Result<Self, InjectError> {
        Self::of(authority, roots, take_over(secrets)?)
    }

    fn of(authority: Authority, roots: &Roots, secrets: HashMap<Destination, Vec<Known>>) -> Result<Self, InjectError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let mut outwards = builder.with_root_certificates(roots.store()).with_no_client_auth();
        outwards.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self { authority, secrets, provider, outwards: Arc::new(outwards), leaves: Mutex::default() })
    }

    /// What programs inside have to trust.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        self.authority.certificate_pem()
    }

    /// Whether a connection there is to be given to [`Self::relay`].
    #[must_use]
    pub fn handles(&self, to: &Destination) -> bool {
        self.secrets.contains_key(to)
    }

    /// Relays a connection to its end.
    ///
    /// `client` is the sandbox's side, `already_read` what was read from it to find out where it goes, `server` a connection
    /// to an address that was found good for the host, on which nothing was said yet. `judge` is asked about each request
    /// before anything of it goes on; what it says on refusal is told to the client. The future can be dropped at any time.
    ///
    /// # Errors
    /// If the client ended the connection before it asked for anything, as clients do that do not trust the authority.
    pub async fn relay<J>(
        &self,
        client: TcpStream,
        already_read: Vec<u8>,
        to: &Destination,
        server: TcpStream,
        judge: J,
    ) -> io::Result<Totals>
    where
        J: FnMut(&Head) -> Result<(), String>,
    {
        let secrets = self.secrets.get(to).map(Vec::as_slice).unwrap_or_default();
        let relay = Relay { to, secrets, masks: Masks::of(secrets), judge, totals: Totals::default() };
        let client = Prefixed::new(already_read, client);
        if to.transport == Transport::Plain {
            return Ok(relay.run(client, Ok(server)).await);
        }
        let hello = timeout(HANDSHAKE, LazyConfigAcceptor::new(Acceptor::default(), client)).await??;
        let sni = hello.client_hello().server_name().map(str::to_owned);
        if sni.as_deref().map(|name| HostName::parse(name.as_bytes())) != Some(Ok(to.host.clone())) {
            let asked = sni.map_or_else(|| "no host".to_owned(), |name| name.escape_debug().to_string());
            let text = format!("the connection is for {to}, its TLS hello for {asked}");
            return Ok(Totals { outcome: Outcome::Refused(text), ..Totals::default() });
        }
        let inwards = self.leaf(&to.host).map_err(io::Error::other)?;
        let accepting = async {
            let client: server::TlsStream<Prefixed> = timeout(HANDSHAKE, hello.into_stream(inwards)).await??;
            Ok(client)
        };
        let connecting = async {
            let late =
                |_| Err(format!("{to} did not finish the TLS handshake in time. The request was not sent, and no secret was"));
            Ok(timeout(HANDSHAKE, self.connect(to, server)).await.unwrap_or_else(late))
        };
        let (client, server) = tokio::try_join!(accepting, connecting).map_err(|error: io::Error| distrusted(to, &error))?;
        Ok(relay.run(client, server).await)
    }

    /// Speaks TLS to the real host. Says in words why that is not possible.
    async fn connect(&self, to: &Destination, server: TcpStream) -> Result<client::TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(to.host.as_str().to_owned()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(Arc::clone(&self.outwards)).connect(name, server).await;
        stream.map_err(|error| explain(to, &error))
    }

    fn leaf(&self, host: &HostName) -> Result<Arc<ServerConfig>, InjectError> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back makes the age unknown.
        let is_fresh = |leaf: &&Leaf| leaf.made.elapsed().is_ok_and(|age| age < LEAF_USE);
        if let Some(leaf) = leaves.get(host).filter(is_fresh) {
            return Ok(Arc::clone(&leaf.config));
        }
        let made = SystemTime::now();
        let leaf = self.authority.issue(host)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider)).with_safe_default_protocol_versions()?;
        let mut config = builder.with_no_client_auth().with_single_cert(vec![leaf.certificate], leaf.key)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let config = Arc::new(config);
        leaves.insert(host.clone(), Leaf { made, config: Arc::clone(&config) });
        Ok(config)
    }
}

/// Checks secrets and sorts them by where they go. What was given is cleared, whatever comes of it.
fn take_over(mut secrets: Vec<Secret>) -> Result<HashMap<Destination, Vec<Known>>, InjectError> {
    let mut sorted: HashMap<Destination, Vec<Known>> = HashMap::new();
    let outcome = secrets.iter().try_for_each(|secret| {
        let (destination, known) = check(secret)?;
        let there = sorted.entry(destination).or_default();
        match there.iter().find(|other| other.placeholder == known.placeholder) {
            Some(other) => Err(InjectError::Twice { name: known.name, other: other.name.clone() }),
            None => {
                there.push(known);
                Ok(())
            }
        }
    });
    secrets.iter_mut().for_each(|secret| secret.value.zeroize());
    outcome.map(|()| sorted)
}

fn check(secret: &Secret) -> Result<(Destination, Known), InjectError> {
    let name = secret.name.clone();
    let destination = match secret.host.parse::<Destination>() {
        Ok(destination) => destination,
        Err(source) => return Err(InjectError::Destination { name, source }),
    };
    if !placeholder::is_sound(&secret.placeholder) {
        return Err(InjectError::Placeholder { name });
    }
    let fields = match secret.fields.iter().map(|field| fields::parse(field)).collect() {
        Ok(fields) => fields,
        Err(source) => return Err(InjectError::Field { name, source }),
    };
    match known::check(&secret.value) {
        Ok(()) => {
            let value = Zeroizing::new(secret.value.as_bytes().to_vec());
            Ok((destination, Known { name, placeholder: secret.placeholder.as_bytes().to_vec(), value, fields }))
        }
        Err(source) => Err(InjectError::Value { name, source }),
    }
}

/// Most often the client has its own idea of whom to trust.
fn distrusted(to: &Destination, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!(
            "the client broke off the TLS handshake for {to} ({error}); if it does not trust the sandbox's certificate, tell it to use \
             the file in SSL_CERT_FILE"
        ),
    )
}

/// Nothing was sent to the server when this is said.
fn explain(to: &Destination, error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(problem)) => format!(
            "the certificate of {to} does not prove that it is {}: {problem}. The request was not sent, and no secret was. If the \
             host is right and its certificate comes from an authority of your own, install that authority on this machine, \
             outside the sandbox, or name its file in SSL_CERT_FILE there, and start again",
            to.host
        ),
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)) => {
            format!("{to} does not speak HTTP/1.1, and secrets can be sent with nothing else. The request was not sent")
        }
        _ => format!("TLS with {to} failed: {error}. The request was not sent, and no secret was"),
    }
}

impl fmt::Debug for Injector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let destinations = self.secrets.keys().map(ToString::to_string).collect::<Vec<_>>();
        f.debug_struct("Injector").field("authority", &self.authority).field("destinations", &destinations).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(value: &str, host: &str) -> Secret {
        let placeholder = placeholder::placeholder().unwrap();
        Secret { name: "TOKEN".to_owned(), placeholder, value: value.to_owned(), host: host.to_owned(), fields: Vec::new() }
    }

    fn injector(secrets: Vec<Secret>) -> Result<Injector, InjectError> {
        let root = Authority::new("root", []).unwrap();
        let roots = Roots::from_pem(root.certificate_pem().as_bytes()).unwrap();
        Injector::with(Authority::new("box", []).unwrap(), &roots, secrets)
    }

    #[test]
    fn only_the_very_destination_is_handled() {
        let injector = injector(vec![secret("a", "api.example.com"), secret("b", "http://plain.example.com")]).unwrap();
        for text in ["api.example.com", "https://API.example.com:443", "http://plain.example.com:80"] {
            assert!(injector.handles(&text.parse().unwrap()), "{text}");
        }
        for text in [
            "example.com",
            "x.api.example.com",
            "api.example.com:8443",
            "http://api.example.com",
            "http://api.example.com:443",
            "plain.example.com",
        ] {
            assert!(!injector.handles(&text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn secrets_that_cannot_be_sent_are_refused_and_not_shown() {
        for (value, host, part) in [
            ("hunter2\r\nX-Admin: yes", "api.example.com", "line break"),
            ("hunter2\0", "api.example.com", "control character"),
            ("hunter2", "*.example.com", "exactly one host"),
        ] {
            let error = injector(vec![secret(value, host)]).unwrap_err();
            assert!(error.to_string().contains(part) && error.to_string().contains("TOKEN"), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        let short = Secret { placeholder: "x".to_owned(), ..secret("hunter2", "api.example.com") };
        assert!(matches!(injector(vec![short]), Err(InjectError::Placeholder { .. })));
        let one = secret("hunter2", "api.example.com");
        let same = Secret { value: "other".to_owned(), ..one.clone() };
        let elsewhere = Secret { host: "other.example.com".to_owned(), ..one.clone() };
        assert!(matches!(injector(vec![one.clone(), same]), Err(InjectError::Twice { .. })));
        assert!(!format!("{:?}", injector(vec![one, elsewhere]).unwrap()).contains("hunter2"));
    }

    #[test]
    fn a_certificate_is_made_once_per_host() {
        let injector = injector(vec![secret("a", "api.example.com")]).unwrap();
        let host = "api.example.com".parse().unwrap();
        let first = injector.leaf(&host).unwrap();
        assert!(Arc::ptr_eq(&first, &injector.leaf(&host).unwrap()));
    }
}
