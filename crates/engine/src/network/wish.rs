//! From what was asked for to what a sandbox's network will be.

use whatif_types::NetMode;
use whatif_types::config::UserConfig;
use whatif_types::network::{NetChoice, NetWish, combine};

use crate::{Engine, EngineError, NewSandbox};

/// Each takes two descriptors of its keeper's, and they are passed on together.
const MOST_REACHED: usize = 8;
const MOST_PUBLISHED: usize = 16;

/// What a sandbox has if nothing is asked for.
pub(crate) fn usual(config: &UserConfig) -> Result<(NetMode, NetWish), EngineError> {
    let choice = config.network.mode.clone().unwrap_or(NetChoice::Registries);
    let (mode, wish) = combine(&[choice]).map_err(|m| usage(m, "correct network.mode in the configuration"))?;
    Ok((mode, NetWish { by_default: true, ..wish }))
}

impl Engine {
    pub(crate) fn network_of(&self, new: &NewSandbox, config: &UserConfig) -> Result<(NetMode, NetWish), EngineError> {
        let (mode, mut wish) = if new.net.is_empty() {
            usual(config)?
        } else {
            combine(&new.net).map_err(|m| usage(m, "for example: --net registries --net allow=example.com"))?
        };
        let opens = mode != NetMode::None || !new.reach.is_empty() || !new.secrets.is_empty();
        if config.network.closed_by_project && opens {
            return Err(usage(
                format!("the project's {} allows no network", crate::context::PROJECT_CONFIG),
                "leave out --net, --reach and --secret, or change that file",
            ));
        }
        if mode == NetMode::Host && !(new.reach.is_empty() && new.publish.is_empty()) {
            return Err(usage(
                "with --net host its ports are the host's: there is nothing to reach or to publish".to_owned(),
                "leave out --reach and --publish, or --net host",
            ));
        }
        if mode != NetMode::Filtered && !new.secrets.is_empty() {
            return Err(usage(
                format!("--secret needs a network with rules; this one is '{mode}'"),
                "leave out --net, or use --net allow=HOST",
            ));
        }
        if new.reach.len() > MOST_REACHED || new.publish.len() > MOST_PUBLISHED {
            return Err(usage(
                format!("at most {MOST_REACHED} ports can be reached, and {MOST_PUBLISHED} published"),
                "name those that are needed",
            ));
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

pub(super) fn usage(message: String, hint: &str) -> EngineError {
    EngineError::Usage { message, hint: hint.to_owned() }
}
