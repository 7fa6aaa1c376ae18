//! From what was asked for to what a sandbox's network will be.

use whatif_types::NetMode;
use whatif_types::config::UserConfig;
use whatif_types::network::{NetChoice, NetWish, Publish, Reach, SecretWish, combine};

use crate::EngineError;
use crate::network::Network;
use crate::network::misuse::{MOST_PUBLISHED, MOST_REACHED, NetworkMisuse};

/// What somebody wants of the network of a new sandbox.
pub(crate) struct Wanted<'a> {
    /// Empty: what is usual.
    pub net: &'a [NetChoice],
    pub reach: &'a [Reach],
    pub publish: &'a [Publish],
    pub secrets: &'a [SecretWish],
}

/// What a sandbox has if nothing is asked for.
pub(crate) fn usual(config: &UserConfig) -> Result<(NetMode, NetWish), EngineError> {
    let choice = config.network.mode.clone().unwrap_or(NetChoice::Registries);
    let (mode, wish) = combine(&[choice]).map_err(|why| NetworkMisuse::Configured { why })?;
    Ok((mode, NetWish { by_default: true, ..wish }))
}

impl Network {
    pub(crate) fn network_of(&self, wanted: &Wanted<'_>, config: &UserConfig) -> Result<(NetMode, NetWish), EngineError> {
        let (mode, mut wish) = if wanted.net.is_empty() {
            usual(config)?
        } else {
            combine(wanted.net).map_err(|why| NetworkMisuse::Combined { why })?
        };
        let opens = mode != NetMode::None || !wanted.reach.is_empty() || !wanted.secrets.is_empty();
        if config.network.closed_by_project && opens {
            return Err(NetworkMisuse::ClosedByProject.into());
        }
        if mode == NetMode::Host && !(wanted.reach.is_empty() && wanted.publish.is_empty()) {
            return Err(NetworkMisuse::NothingToReach.into());
        }
        if mode != NetMode::Filtered && !wanted.secrets.is_empty() {
            return Err(NetworkMisuse::SecretWithoutRules { mode }.into());
        }
        if wanted.reach.len() > MOST_REACHED || wanted.publish.len() > MOST_PUBLISHED {
            return Err(NetworkMisuse::TooManyPorts.into());
        }
        super::secrets::check_reached(wanted.secrets, wanted.reach)?;
        self.check_secrets(wanted.secrets)?;
        wish.reach = each_once(wanted.reach);
        wish.publish = each_once(wanted.publish);
        wish.secrets = wanted.secrets.to_vec();
        Ok((mode, wish))
    }
}

fn each_once<T: Copy + PartialEq>(all: &[T]) -> Vec<T> {
    let mut once: Vec<T> = Vec::new();
    for one in all {
        if !once.contains(one) {
            once.push(*one);
        }
    }
    once
}
