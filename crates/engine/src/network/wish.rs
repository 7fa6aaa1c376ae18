//! From what was asked for to what a sandbox's network will be.

use whatif_types::NetMode;
use whatif_types::config::UserConfig;
use whatif_types::network::{NetChoice, NetWish, combine};

use crate::error::{MOST_PUBLISHED, MOST_REACHED, NetworkMisuse};
use crate::{Engine, EngineError, NewSandbox};

/// What a sandbox has if nothing is asked for.
pub(crate) fn usual(config: &UserConfig) -> Result<(NetMode, NetWish), EngineError> {
    let choice = config.network.mode.clone().unwrap_or(NetChoice::Registries);
    let (mode, wish) = combine(&[choice]).map_err(|why| NetworkMisuse::Configured { why })?;
    Ok((mode, NetWish { by_default: true, ..wish }))
}

impl Engine {
    pub(crate) fn network_of(&self, new: &NewSandbox, config: &UserConfig) -> Result<(NetMode, NetWish), EngineError> {
        let (mode, mut wish) =
            if new.net.is_empty() { usual(config)? } else { combine(&new.net).map_err(|why| NetworkMisuse::Combined { why })? };
        let opens = mode != NetMode::None || !new.reach.is_empty() || !new.secrets.is_empty();
        if config.network.closed_by_project && opens {
            return Err(NetworkMisuse::ClosedByProject.into());
        }
        if mode == NetMode::Host && !(new.reach.is_empty() && new.publish.is_empty()) {
            return Err(NetworkMisuse::NothingToReach.into());
        }
        if mode != NetMode::Filtered && !new.secrets.is_empty() {
            return Err(NetworkMisuse::SecretWithoutRules { mode }.into());
        }
        if new.reach.len() > MOST_REACHED || new.publish.len() > MOST_PUBLISHED {
            return Err(NetworkMisuse::TooManyPorts.into());
        }
        super::secrets::check_reached(&new.secrets, &new.reach)?;
        self.check_secrets(&new.secrets)?;
        wish.reach = each_once(&new.reach);
        wish.publish = each_once(&new.publish);
        wish.secrets.clone_from(&new.secrets);
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
