//! Credentials that stay outside: what the sandbox has in their place, and what the supervisor is given.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use whatif_inject::{Authority, Destination, trust, wish};
use whatif_keeper::Client;
use whatif_keeper::protocol::Access;
use whatif_types::Sandbox;
use whatif_types::network::{NetWish, Secret, SecretSource, SecretWish};

use super::wish::usage;
use crate::{Engine, EngineError};

/// Where the sandbox finds whom to trust: in memory, and no part of what it changed.
const BUNDLE: &str = "/dev/shm/whatif-authorities.pem";

/// What a supervisor needs to know.
#[derive(Default)]
pub(super) struct Handover {
    pub secrets: Vec<Secret>,
    pub authority: Option<String>,
    pub roots: Vec<PathBuf>,
}

/// Placeholders, and what makes programs trust the authority that stands between them and the hosts.
pub(crate) fn environment(network: &NetWish) -> Vec<(String, String)> {
    if network.secrets.is_empty() {
        return Vec::new();
    }
    let placeholders = network.secrets.iter().map(|secret| (secret.name.clone(), secret.placeholder.clone()));
    let trusting = trust::variables(Path::new(BUNDLE)).map(|(name, _)| (name.to_owned(), BUNDLE.to_owned()));
    placeholders.chain(trusting).collect()
}

/// From `--secret NAME=…` and `--for HOST`: each secret is for the host at the same place, or all are for the only one.
pub fn wishes(secrets: &[String], hosts: &[String], cwd: &Path) -> Result<Vec<SecretWish>, EngineError> {
    if secrets.len() != hosts.len() && (hosts.len() != 1 || secrets.is_empty()) {
        let hint = "for example: --secret API_TOKEN=env --for api.example.com";
        return Err(usage("each --secret needs a --for with the host it may be sent to".to_owned(), hint));
    }
    let pairs = secrets.iter().zip(hosts.iter().chain(std::iter::repeat(&hosts[0])));
    pairs.map(|(secret, host)| one_wish(secret, host, cwd)).collect()
}

fn one_wish(secret: &str, host: &str, cwd: &Path) -> Result<SecretWish, EngineError> {
    let (name, source) = wish::parse(secret).map_err(|e| usage(e.to_string(), "for example: --secret API_TOKEN=@token.txt"))?;
    host.parse::<Destination>().map_err(|e| usage(e.to_string(), "for example: --for api.example.com"))?;
    let source = match source {
        SecretSource::File(path) => SecretSource::File(cwd.join(path)),
        other => other,
    };
    let placeholder =
        whatif_inject::placeholder().map_err(|e| EngineError::io("read randomness from", Path::new("the kernel"), e.into()))?;
    Ok(SecretWish { name, source, host: host.to_owned(), placeholder })
}

impl Engine {
    /// Reads the values and makes an authority for their hosts, which the sandbox trusts from now on.
    pub(super) fn hand_over_secrets(&self, sandbox: &Sandbox, place: &Path) -> Result<Handover, EngineError> {
        let wishes = &sandbox.details.network.secrets;
        if wishes.is_empty() {
            return Ok(Handover::default());
        }
        let failed = |message: String| EngineError::Supervisor { name: sandbox.name.clone(), message };
        let variable = |name: &str| self.context.environment.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        let mut secrets = Vec::new();
        let mut hosts = Vec::new();
        for wish in wishes {
            let value = wish::read(&wish.name, &wish.source, variable).map_err(|e| failed(e.to_string()))?;
            let destination: Destination = wish.host.parse().map_err(|e| failed(format!("{e}")))?;
            hosts.push(destination.host);
            secrets.push(Secret {
                name: wish.name.clone(),
                placeholder: wish.placeholder.clone(),
                value: value.to_string(),
                host: wish.host.clone(),
            });
        }
        let authority = Authority::new(&sandbox.name, &hosts).map_err(|e| failed(e.to_string()))?;
        let variable = |name: &str| variable(name).map(OsString::from);
        self.hand_out_trust(place, &authority, variable)?;
        let roots = trust::roots_file(trust::system_bundle(), variable).into_iter().collect();
        Ok(Handover { secrets, authority: Some(authority.handover().to_string()), roots })
    }

    fn hand_out_trust(
        &self,
        place: &Path,
        authority: &Authority,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<(), EngineError> {
        let files: Vec<Vec<u8>> =
            trust::sources(trust::system_bundle(), variable).iter().filter_map(|path| fs::read(path).ok()).collect();
        let bundle = trust::bundle(&files, authority.certificate_pem());
        let (mut file, _) = Client::connect(place)?.open(Path::new(BUNDLE), Access::Replace { mode: 0o644 })?;
        file.write_all(bundle.as_bytes()).map_err(|e| EngineError::io("write", Path::new(BUNDLE), e))
    }
}
