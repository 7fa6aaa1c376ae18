//! What the supervisor of a sandbox goes by, put together from everywhere.

use std::path::Path;

use whatif_inject::Destination;
use whatif_netpolicy::rule::Pattern;
use whatif_registries::{Asker, Found, Source};
use whatif_sys::absence::OrAbsent;
use whatif_types::Sandbox;
use whatif_types::network::{Registry, Rule, Rules};

use super::RULES;
use crate::config_file::ConfigError;
use crate::network::Network;
use crate::{EngineError, private_file};

/// Private networks, and the names that are set aside for use in them. A metadata service is in none of these.
const LOCAL: [&str; 9] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "*.local", "*.lan", "*.internal", "*.home.arpa", "*.localdomain"];
/// Where programs are if nothing says where.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

impl Network {
    /// Which registries the user's tools are set up for is asked here, and takes a moment the first time.
    pub(super) fn rules_of(&self, sandbox: &Sandbox) -> Result<Rules, EngineError> {
        let config = self.ground.caller.config_for(&sandbox.project)?.network;
        let wish = &sandbox.details.network;
        let mut allow = wish.allow.clone();
        allow.extend(config.allow);
        allow.extend(self.permits()?.for_project(&sandbox.project));
        allow.extend(wish.secrets.iter().filter_map(|secret| rule_for_secret(&secret.host)));
        if wish.local {
            allow.extend(LOCAL.iter().filter_map(|text| text.parse::<Rule>().ok()));
        }
        let found = if wish.registries { self.registries(&sandbox.project) } else { Found::default() };
        allow.extend(found.rules);
        let mut deny = wish.deny.clone();
        deny.extend(config.deny);
        let reach = wish.reach.iter().map(|reach| reach.0).collect();
        let registry =
            |source: Source| Registry { tool: source.tool.to_string(), place: source.place.to_string(), said: source.said };
        Ok(Rules {
            allow,
            deny,
            reach,
            ask: config.ask.unwrap_or(true),
            registries: found.sources.into_iter().map(registry).collect(),
            troubles: found.troubles,
        })
    }

    fn registries(&self, project: &Path) -> Found {
        let environment = &self.ground.caller.environment;
        let path = environment.iter().find(|(name, _)| name == "PATH").map_or(USUAL_PATH, |(_, value)| value.as_str());
        let asker = Asker { home: &self.ground.caller.home, project, environment, path: path.as_ref() };
        whatif_registries::find_cached(&asker, &self.ground.state.cache().join("registries.json"))
    }

    /// The rules of a sandbox: those its supervisor goes by, or would.
    pub fn rules_in_force(&self, sandbox: &Sandbox) -> Result<Rules, EngineError> {
        let path = super::directory(&self.ground.directory(sandbox)?).join(RULES);
        match std::fs::read(&path).or_absent().map_err(|e| EngineError::io("read", &path, e))? {
            Some(text) => serde_json::from_slice(&text).map_err(|e| ConfigError { path, message: e.to_string() }.into()),
            None => self.rules_of(sandbox),
        }
    }

    /// Which of these rules are of no use, because the configuration denies the same. Only for a note: the rules themselves are
    /// made from a configuration that could be read.
    #[must_use]
    pub fn overruled(&self, sandbox: &Sandbox, rules: &[Rule]) -> Vec<Rule> {
        let Ok(config) = self.ground.caller.config_for(&sandbox.project) else { return Vec::new() };
        let is_denied = |rule: &Rule| match rule.pattern() {
            Pattern::Exact(name) | Pattern::Below(name) => config.network.deny.iter().any(|deny| deny.names(name) || deny == rule),
            _ => config.network.deny.contains(rule),
        };
        rules.iter().filter(|rule| is_denied(rule)).cloned().collect()
    }

    /// Whether the project wants no network. Only for better words about a command that missed it.
    #[must_use]
    pub fn is_network_closed(&self, project: &Path) -> bool {
        self.ground.caller.config_for(project).is_ok_and(|config| config.network.closed_by_project)
    }

    /// Put in place at once: the supervisor reads it whenever it likes.
    pub(super) fn write_rules(&self, directory: &Path, rules: &Rules) -> Result<(), EngineError> {
        let path = directory.join(RULES);
        let failed = |e: std::io::Error| EngineError::io("write", &path, e);
        let text = serde_json::to_vec(rules).map_err(|e| failed(e.into()))?;
        private_file::replace(&path, &text).map_err(failed)
    }
}

/// Where a secret may be sent can be connected to.
fn rule_for_secret(destination: &str) -> Option<Rule> {
    let Destination { host, port, .. } = destination.parse().ok()?;
    format!("{host}:{port}").parse().ok()
}
