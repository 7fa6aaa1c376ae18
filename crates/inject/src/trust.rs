//! How programs inside come to trust the sandbox's authority: a file with the certificates they trust anyway and one more, and
//! the variables by which they find it.
//!
//! Most of these variables *replace* what a program trusts, so the file holds the system's certificates too, and those of files
//! that the user's own variables name. Programs that go by none of them, such as Java with its key stores or `wget` with
//! GnuTLS, see the authority only if the file also stands in the place of the system's own ([`SYSTEM_BUNDLES`]).

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::pem;

/// Where distributions keep their bundle, in the order of how common they are.
pub const SYSTEM_BUNDLES: &[&str] = &[
    // Debian, Ubuntu, Arch, Gentoo, Alpine, NixOS
    "/etc/ssl/certs/ca-certificates.crt",
    // Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    // openSUSE
    "/var/lib/ca-certificates/ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    // Alpine, OpenSSL's own default
    "/etc/ssl/cert.pem",
];

/// A variable with the path of a file of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The program trusts what is in the file instead of its own.
    Replaces,
    /// The program trusts what is in the file as well as its own.
    Adds,
}

/// All that are set inside.
pub const VARIABLES: &[Variable] = &[
    // OpenSSL's default, so Python, Ruby, PHP, Perl, .NET and curl; also Go, and Rust programs that read the system's certificates.
    Variable { name: "SSL_CERT_FILE", effect: Effect::Replaces },
    // The curl program, which looks at it before SSL_CERT_FILE; Python's requests after its own.
    Variable { name: "CURL_CA_BUNDLE", effect: Effect::Replaces },
    // Python's requests, which brings its own certificates.
    Variable { name: "REQUESTS_CA_BUNDLE", effect: Effect::Replaces },
    // pip's --cert.
    Variable { name: "PIP_CERT", effect: Effect::Replaces },
    // Node has its own certificates. Read once, when it starts.
    Variable { name: "NODE_EXTRA_CA_CERTS", effect: Effect::Adds },
    // Deno, likewise.
    Variable { name: "DENO_CERT", effect: Effect::Adds },
    // git over HTTPS; stronger than http.sslCAInfo in its configuration.
    Variable { name: "GIT_SSL_CAINFO", effect: Effect::Replaces },
    // cargo's http.cainfo.
    Variable { name: "CARGO_HTTP_CAINFO", effect: Effect::Replaces },
    // The AWS command line and SDKs.
    Variable { name: "AWS_CA_BUNDLE", effect: Effect::Replaces },
    // gcloud's core/custom_ca_certs_file.
    Variable { name: "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", effect: Effect::Replaces },
    // Python's httplib2, which brings its own certificates.
    Variable { name: "HTTPLIB2_CA_CERTS", effect: Effect::Replaces },
    // Bundler's ssl_ca_cert.
    Variable { name: "BUNDLE_SSL_CA_CERT", effect: Effect::Replaces },
    // Elixir's Hex.
    Variable { name: "HEX_CACERTS_PATH", effect: Effect::Replaces },
    // Programs built by Nix look at it before SSL_CERT_FILE.
    Variable { name: "NIX_SSL_CERT_FILE", effect: Effect::Replaces },
];

/// The variables to set inside for a bundle at this path.
pub fn variables(bundle: &Path) -> impl Iterator<Item = (&'static str, &Path)> {
    VARIABLES.iter().map(move |variable| (variable.name, bundle))
}

/// The system's own bundle. One that cannot be looked at is not used, and then less is trusted.
#[must_use]
pub fn system_bundle() -> Option<PathBuf> {
    SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|path| path.metadata().is_ok_and(|bundle| bundle.is_file()))
}

/// The files that make up the bundle: the system's, then those that the user's own variables name, each once.
pub fn sources(system: Option<PathBuf>, environment: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let named =
        VARIABLES.iter().filter_map(|variable| environment(variable.name)).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut seen = HashSet::new();
    // Relative ones mean something else in each directory.
    system.into_iter().chain(named).filter(|path| path.is_absolute() && seen.insert(path.clone())).collect()
}

/// The file that the user's own programs go by, for what is verified outside.
pub fn roots_file(system: Option<PathBuf>, environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    environment("SSL_CERT_FILE").filter(|value| !value.is_empty()).map(PathBuf::from).filter(|path| path.is_absolute()).or(system)
}

/// Everything that is trusted inside: the certificates of these files, each once, and the authority. Only certificates are
/// taken: some people keep a private key in the same file.
#[must_use]
pub fn bundle<T: AsRef<[u8]>>(files: &[T], authority_pem: &str) -> String {
    let mut seen = HashSet::new();
    let mut text = String::new();
    for file in files {
        for certificate in CertificateDer::pem_slice_iter(file.as_ref()).filter_map(Result::ok) {
            if seen.insert(certificate.to_vec()) {
                text.push_str(&pem::certificate(&certificate));
            }
        }
    }
    text.push_str(authority_pem);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Authority;

    fn certificate(name: &str) -> String {
        Authority::new(name, []).unwrap().certificate_pem().to_owned()
    }

    #[test]
    fn the_bundle_has_each_certificate_once_and_nothing_else() {
        let (one, other, own) = (certificate("one"), certificate("other"), certificate("own"));
        let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        let first = format!("# a comment\n{one}{key}");
        // Windows line ends, and no line break at the end.
        let second = format!("{}{}", other.replace('\n', "\r\n"), one.trim_end());
        assert_eq!(bundle(&[first, second], &own), format!("{one}{other}{own}"));
    }

    #[test]
    fn a_broken_file_costs_only_itself() {
        let (one, own) = (certificate("one"), certificate("own"));
        let broken = "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n";
        assert_eq!(bundle(&[broken.as_bytes(), b"\xff\xfe", one.as_bytes()], &own), format!("{one}{own}"));
        assert_eq!(bundle::<&[u8]>(&[], &own), own);
    }

    #[test]
    fn what_the_users_variables_name_is_trusted_too() {
        let environment = |name: &str| match name {
            "SSL_CERT_FILE" | "CURL_CA_BUNDLE" => Some("/corp/ca.pem".into()),
            "NODE_EXTRA_CA_CERTS" => Some("/corp/node.pem".into()),
            "PIP_CERT" => Some("relative.pem".into()),
            "AWS_CA_BUNDLE" => Some(OsString::new()),
            _ => None,
        };
        let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect::<Vec<_>>();
        let system = || Some(PathBuf::from("/etc/ssl/certs/ca-certificates.crt"));
        assert_eq!(
            sources(system(), environment),
            paths(&["/etc/ssl/certs/ca-certificates.crt", "/corp/ca.pem", "/corp/node.pem"])
        );
        assert_eq!(sources(None, |_| None), paths(&[]));
        assert_eq!(roots_file(system(), environment), Some("/corp/ca.pem".into()));
        assert_eq!(roots_file(system(), |_| None), system());
    }
}
