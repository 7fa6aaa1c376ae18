//! The network, as configured.

use serde::{Deserialize, Serialize};
use whatif_netpolicy::Rule;

use super::ProjectLoosens;
use crate::network::{NetChoice, check_leads_outside};

/// `[network]` of the user's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkRules {
    /// What a sandbox has unless `--net` says otherwise.
    pub mode: Option<NetChoice>,
    /// Allowed in every network with rules.
    pub allow: Vec<Rule>,
    /// Denied in every network with rules, whatever else allows it.
    pub deny: Vec<Rule>,
    /// Whether a person at a terminal is asked about a host that no rule speaks of.
    pub ask: Option<bool>,
    /// The project wants no network; nothing overrules that.
    #[serde(skip)]
    pub closed_by_project: bool,
}

/// `[network]` of a project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectNetwork {
    /// Only `none`, unless it is what the user has anyway.
    pub mode: Option<NetChoice>,
    pub deny: Vec<Rule>,
}

impl NetworkRules {
    pub(super) fn check(&self) -> Result<(), String> {
        self.allow.iter().try_for_each(check_leads_outside)?;
        check_denied(&self.deny)
    }

    pub(super) fn tighten(&mut self, project: &ProjectNetwork) -> Result<(), ProjectLoosens> {
        match &project.mode {
            None => {}
            Some(NetChoice::None) => {
                self.mode = Some(NetChoice::None);
                self.closed_by_project = true;
            }
            same if *same == self.mode => {}
            // It is what everybody has who asks for nothing.
            Some(NetChoice::Registries) if self.mode.is_none() => {}
            Some(other) => return Err(ProjectLoosens { key: format!("network.mode = \"{other}\"") }),
        }
        self.deny.extend(project.deny.iter().cloned());
        Ok(())
    }
}

impl ProjectNetwork {
    pub fn check(&self) -> Result<(), String> {
        check_denied(&self.deny)
    }
}

fn check_denied(deny: &[Rule]) -> Result<(), String> {
    match deny.iter().find(|rule| rule.http().is_some()) {
        Some(rule) => {
            Err(format!("network.deny: '{rule}' cannot be denied: the same path can be written in many ways; deny the host"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_closes_and_denies_but_does_not_open() {
        let project =
            |mode: &str| ProjectNetwork { mode: Some(mode.parse().unwrap()), deny: vec!["evil.example".parse().unwrap()] };
        let mut rules = NetworkRules::default();
        rules.tighten(&project("none")).unwrap();
        assert!(rules.closed_by_project && rules.mode == Some(NetChoice::None) && rules.deny.len() == 1);
        NetworkRules::default().tighten(&project("registries")).unwrap();
        for loosening in ["host", "local", "allow=evil.example"] {
            assert!(NetworkRules::default().tighten(&project(loosening)).is_err(), "{loosening}");
        }
    }
}
