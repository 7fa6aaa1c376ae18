//! Credentials that stay outside: what the sandbox has in their place, and what the supervisor is given.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use whatif_inject::{Authority, Destination, fields, trust, wish};
use whatif_keeper::Client;
use whatif_keeper::protocol::Access;
use whatif_types::Sandbox;
use whatif_types::network::{NetWish, Reach, Secret, SecretSource, SecretWish};

use crate::EngineError;
use crate::ground::keepers::instance_in;
use crate::network::{Network, NetworkError, NetworkMisuse};

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
    let placeholders: BTreeMap<_, _> =
        network.secrets.iter().map(|secret| (secret.name.clone(), secret.placeholder.clone())).collect();
    let trusting = trust::variables(Path::new(BUNDLE)).map(|(name, _)| (name.to_owned(), BUNDLE.to_owned()));
    placeholders.into_iter().chain(trusting).collect()
}

/// Whether a variable of the user's may not go inside: it is a secret, or says whom to trust, which is another matter there.
pub(crate) fn stays_outside(network: &NetWish, name: &str) -> bool {
    is_secret(network, name.as_bytes())
        || (!network.secrets.is_empty() && trust::variables(Path::new(BUNDLE)).any(|(variable, _)| variable == name))
}

/// Whether a variable of the user's is a secret of the sandbox, or what one is made of.
pub(crate) fn is_secret(network: &NetWish, name: &[u8]) -> bool {
    let is_source =
        |secret: &SecretWish| matches!(&secret.source, SecretSource::Environment(variable) if variable.as_bytes() == name);
    network.secrets.iter().any(|secret| secret.name.as_bytes() == name || is_source(secret))
}

/// From `--secret NAME=…` and `--for HOST`: each secret is for the host at the same place; one of either goes with all others.
/// `--field [NAME=]FIELD` is for the secret it names, or for the only one.
pub fn wishes(secrets: &[String], hosts: &[String], fields: &[String], cwd: &Path) -> Result<Vec<SecretWish>, EngineError> {
    let pairs: Vec<(&String, &String)> = match (secrets, hosts) {
        ([secret], [_, ..]) => hosts.iter().map(|host| (secret, host)).collect(),
        ([_, ..], [host]) => secrets.iter().map(|secret| (secret, host)).collect(),
        _ if secrets.len() == hosts.len() => secrets.iter().zip(hosts).collect(),
        _ => return Err(NetworkMisuse::SecretWithoutHost.into()),
    };
    let mut wishes: Vec<SecretWish> = Vec::new();
    for (secret, host) in pairs {
        let mut wish = one_wish(secret, host, cwd)?;
        // One variable has one value inside, wherever it is sent.
        if let Some(same) = wishes.iter().find(|known| known.name == wish.name) {
            wish.placeholder.clone_from(&same.placeholder);
        }
        wishes.push(wish);
    }
    fields.iter().try_for_each(|field| add_field(&mut wishes, field))?;
    Ok(wishes)
}

fn add_field(wishes: &mut [SecretWish], text: &str) -> Result<(), EngineError> {
    let (name, field) = text.split_once('=').map_or((None, text), |(name, field)| (Some(name), field));
    let field = fields::parse(field).map_err(NetworkMisuse::Field)?;
    let is_only_one = wishes.iter().all(|wish| wish.name == wishes[0].name);
    let mut is_known = false;
    for wish in wishes.iter_mut().filter(|wish| name.map_or(is_only_one, |name| wish.name == name)) {
        is_known = true;
        if !wish.fields.contains(&field) {
            wish.fields.push(field.clone());
        }
    }
    match name {
        _ if is_known => Ok(()),
        Some(name) => Err(NetworkMisuse::FieldOfNoSecret { secret: name.to_owned() }.into()),
        None => Err(NetworkMisuse::FieldOfSeveral { field }.into()),
    }
}

fn one_wish(secret: &str, host: &str, cwd: &Path) -> Result<SecretWish, EngineError> {
    let (name, source) = wish::parse(secret).map_err(NetworkMisuse::Secret)?;
    host.parse::<Destination>().map_err(NetworkMisuse::SecretHost)?;
    let source = match source {
        SecretSource::File(path) => SecretSource::File(cwd.join(path)),
        other => other,
    };
    let placeholder =
        whatif_inject::placeholder().map_err(|e| EngineError::io("read randomness from", Path::new("the kernel"), e))?;
    Ok(SecretWish { name, source, host: host.to_owned(), placeholder, fields: Vec::new() })
}

/// Inside, localhost is the sandbox's own. A secret gets out to this machine's only by way of `--reach`.
pub(super) fn check_reached(wishes: &[SecretWish], reach: &[Reach]) -> Result<(), EngineError> {
    for wish in wishes {
        let Ok(Destination { host, port, .. }) = wish.host.parse() else { continue };
        let is_own = host.as_str() == "localhost" || host.as_str().ends_with(".localhost");
        if is_own && (host.as_str() != "localhost" || !reach.contains(&Reach(port))) {
            return Err(NetworkMisuse::SecretForInside { secret: wish.name.clone(), host, port }.into());
        }
    }
    Ok(())
}

impl Network {
    /// Before anything is made: a value may not be there.
    pub(super) fn check_secrets(&self, wishes: &[SecretWish]) -> Result<(), EngineError> {
        for wish in wishes {
            wish::read(&wish.name, &wish.source, |name| self.variable(name)).map_err(NetworkMisuse::SecretValue)?;
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.ground.caller.environment.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }

    /// Reads the values and makes an authority for their hosts, which the sandbox trusts from now on.
    pub(super) fn hand_over_secrets(&self, sandbox: &Sandbox, place: &Path) -> Result<Handover, EngineError> {
        let wishes = &sandbox.details.network.secrets;
        if wishes.is_empty() {
            return Ok(Handover::default());
        }
        let failed = |message: String| EngineError::from(NetworkError::Supervisor { name: sandbox.name.clone(), message });
        let mut secrets = Vec::new();
        let mut hosts = Vec::new();
        for wish in wishes {
            let value = wish::read(&wish.name, &wish.source, |name| self.variable(name)).map_err(|e| failed(e.to_string()))?;
            let destination: Destination = wish.host.parse().map_err(|e| failed(format!("{e}")))?;
            hosts.push(destination.host);
            secrets.push(Secret {
                name: wish.name.clone(),
                placeholder: wish.placeholder.clone(),
                value: value.to_string(),
                host: wish.host.clone(),
                fields: wish.fields.clone(),
            });
        }
        let authority = Authority::new(&sandbox.name, &hosts).map_err(|e| failed(e.to_string()))?;
        let variable = |name: &str| self.variable(name).map(OsString::from);
        self.hand_out_trust(&mut instance_in(sandbox, place)?.connect()?, &authority, variable)?;
        let roots = trust::roots_file(trust::system_bundle(), variable).into_iter().collect();
        Ok(Handover { secrets, authority: Some(authority.handover().to_string()), roots })
    }

    fn hand_out_trust(
        &self,
        keeper: &mut Client,
        authority: &Authority,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<(), EngineError> {
        let files: Vec<Vec<u8>> =
            trust::sources(trust::system_bundle(), variable).iter().filter_map(|path| fs::read(path).ok()).collect();
        let bundle = trust::bundle(&files, authority.certificate_pem());
        let (mut file, _) = keeper.open(Path::new(BUNDLE), Access::Replace { mode: 0o644 })?;
        file.write_all(bundle.as_bytes()).map_err(|e| EngineError::io("write", Path::new(BUNDLE), e))
    }
}
