//! The certificate authority of one sandbox.
//!
//! Its key is in the memory of the processes that need it and nowhere else. Its certificate binds it to the hosts it was made
//! for, so that even with its key nobody can pass for another host, and only programs in this sandbox are told to trust it.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use whatif_netpolicy::HostName;
use zeroize::Zeroizing;

use crate::pem;

/// Longer than sandboxes live. What it is good for ends with the processes that know the key.
const LIFE: Duration = Duration::from_secs(90 * DAY);
const LEAF_LIFE: Duration = Duration::from_secs(2 * DAY);
/// Clocks of a host that was just woken may still be behind.
const BEFORE: Duration = Duration::from_secs(3600);
const DAY: u64 = 24 * 3600;
/// X.509 has no longer common names, and some readers insist.
const LONGEST_COMMON_NAME: usize = 64;
const HANDOVER_VERSION: &str = "1";

pub struct Authority {
    common_name: String,
    certificate_der: Vec<u8>,
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("the handed over certificate authority is malformed")]
    Handover,
}

/// A certificate for one host and its key.
pub(crate) struct Leaf {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Authority {
    /// Makes a new one, good for these hosts only.
    ///
    /// # Errors
    /// If there are no random bytes.
    pub fn new<'h>(sandbox: &str, hosts: impl IntoIterator<Item = &'h HostName>) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let common_name = common_name(sandbox);
        let mut params = issuer_params(&common_name);
        (params.not_before, params.not_after) = (before().into(), (SystemTime::now() + LIFE).into());
        params.name_constraints = Some(constraints(hosts));
        let certificate_der = params.self_signed(&key)?.der().to_vec();
        Ok(Self::of(common_name, certificate_der, key))
    }

    fn of(common_name: String, certificate_der: Vec<u8>, key: KeyPair) -> Self {
        let issuer = Issuer::new(issuer_params(&common_name), key);
        Self { certificate_pem: pem::certificate(&certificate_der), common_name, certificate_der, issuer }
    }

    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// All there is to it as one line of text, its key included: for the standard input of a supervisor and nothing else.
    #[must_use]
    pub fn handover(&self) -> Zeroizing<String> {
        let key = Zeroizing::new(BASE64_STANDARD.encode(self.issuer.key().serialized_der()));
        let certificate = BASE64_STANDARD.encode(&self.certificate_der);
        let name = BASE64_STANDARD.encode(&self.common_name);
        // The capacity is exact, so that no shorter copy of the key stays behind.
        let parts = [HANDOVER_VERSION, &name, &certificate, &key];
        let mut text = Zeroizing::new(String::with_capacity(parts.iter().map(|part| part.len() + 1).sum()));
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                text.push(' ');
            }
            text.push_str(part);
        }
        text
    }

    /// # Errors
    /// If the text is not one that [`Self::handover`] made.
    pub fn from_handover(text: &str) -> Result<Self, AuthorityError> {
        let decode = |part: &str| BASE64_STANDARD.decode(part).map_err(|_| AuthorityError::Handover);
        let mut parts = text.split(' ');
        let (Some(HANDOVER_VERSION), Some(name), Some(certificate), Some(key), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(AuthorityError::Handover);
        };
        let common_name = String::from_utf8(decode(name)?).map_err(|_| AuthorityError::Handover)?;
        let key = Zeroizing::new(decode(key)?);
        let pkcs8 = PrivatePkcs8KeyDer::from(key.as_slice());
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_ECDSA_P256_SHA256).map_err(|_| AuthorityError::Handover)?;
        Ok(Self::of(common_name, decode(certificate)?, key))
    }

    /// A certificate for one host, with a key of its own.
    pub(crate) fn issue(&self, host: &HostName) -> Result<Leaf, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        // Not the authority's name, or clients take it for a certificate that signed itself.
        let is_short = host.as_str().len() <= LONGEST_COMMON_NAME;
        params.distinguished_name = named(if is_short { host.as_str() } else { "a host with a long name" });
        params.subject_alt_names = vec![SanType::DnsName(Ia5String::try_from(host.as_str())?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (before().into(), (SystemTime::now() + LEAF_LIFE).into());
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok(Leaf { certificate: certificate.der().clone(), key: key.into() })
    }
}

fn before() -> SystemTime {
    SystemTime::now() - BEFORE
}

fn issuer_params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// A permitted name includes the names below it; there is no narrower form. Addresses are excluded altogether.
fn constraints<'h>(hosts: impl IntoIterator<Item = &'h HostName>) -> NameConstraints {
    let mut permitted = hosts.into_iter().map(|host| GeneralSubtree::DnsName(host.to_string())).collect::<Vec<_>>();
    if permitted.is_empty() {
        // An empty list would permit every name; this one no host can have.
        permitted.push(GeneralSubtree::DnsName("invalid".to_owned()));
    }
    let every_address =
        [CidrSubnet::from_v4_prefix([0; 4], 0), CidrSubnet::from_v6_prefix([0; 16], 0)].map(GeneralSubtree::IpAddress).to_vec();
    NameConstraints { permitted_subtrees: permitted, excluded_subtrees: every_address }
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Seen in the viewers of certificates and in error messages of clients.
fn common_name(sandbox: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    format!("whatif sandbox {}", sandbox.chars().filter(is_plain).collect::<String>()).chars().take(LONGEST_COMMON_NAME).collect()
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("common_name", &self.common_name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
