use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::{ServerName, UnixTime};
use std::sync::Arc;

use super::*;

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

/// Whether a client that trusts the authority takes this leaf for a host.
fn is_accepted(trusted: &Authority, leaf: &Leaf, host: &str) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(trusted.certificate_der.clone())).unwrap();
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider())).build().unwrap();
    let host = ServerName::try_from(host.to_owned()).unwrap();
    verifier.verify_server_cert(&leaf.certificate, &[], &host, &[], UnixTime::now()).is_ok()
}

#[test]
fn it_vouches_for_its_hosts_and_no_others() {
    let (own, other) = (name("api.example.com"), name("other.example.com"));
    let authority = Authority::new("box", [&own]).unwrap();
    let leaf = authority.issue(&own).unwrap();
    assert!(is_accepted(&authority, &leaf, "api.example.com"));
    assert!(!is_accepted(&authority, &leaf, "other.example.com"));
    // Even somebody with its key cannot make it vouch for more.
    assert!(!is_accepted(&authority, &authority.issue(&other).unwrap(), "other.example.com"));
    assert!(!is_accepted(&Authority::new("box", [&own]).unwrap(), &leaf, "api.example.com"));
    let idle = Authority::new("box", []).unwrap();
    assert!(!is_accepted(&idle, &idle.issue(&own).unwrap(), "api.example.com"));
}

#[test]
fn it_can_be_handed_over() {
    let host = name("api.example.com");
    let authority = Authority::new("my box", [&host]).unwrap();
    let text = authority.handover();
    assert_eq!(text.capacity(), text.len() + 1);
    let there = Authority::from_handover(&text).unwrap();
    assert_eq!(there.certificate_pem(), authority.certificate_pem());
    assert!(is_accepted(&authority, &there.issue(&host).unwrap(), "api.example.com"));
    let key = text.rsplit(' ').next().unwrap();
    assert!(!format!("{authority:?} {}", authority.certificate_pem()).contains(key));
    let cut = &text[..text.len() - 8];
    for broken in ["", "1", "2 a b c", "1 !!! AAAA AAAA", cut, &format!("{} x", *text)] {
        assert!(matches!(Authority::from_handover(broken), Err(AuthorityError::Handover)), "{broken}");
    }
}

#[test]
fn its_name_says_what_it_is_and_fits() {
    assert_eq!(common_name("fix-42"), "whatif sandbox fix-42");
    assert_eq!(common_name("a\nb\u{202e}c/d"), "whatif sandbox abcd");
    assert_eq!(common_name(&"x".repeat(500)).len(), LONGEST_COMMON_NAME);
    // A host name that would be too long for a common name.
    let long = name(&format!("{0}.{0}.example.com", "a".repeat(60)));
    let authority = Authority::new("box", [&long]).unwrap();
    assert!(is_accepted(&authority, &authority.issue(&long).unwrap(), long.as_str()));
    let odd = name("under_score.xn--bcher-kva.example");
    let authority = Authority::new("box", [&odd]).unwrap();
    assert!(is_accepted(&authority, &authority.issue(&odd).unwrap(), odd.as_str()));
}
