//! Changes whom a sandbox that is there already may talk to.

use serde_json::{Value, json};
use whatif_keeper::client::ClientError;
use whatif_sys::absence;
use whatif_types::network::{Rule, check_leads_outside};
use whatif_types::{EventKind, NetMode, Sandbox, Selector, Status};

use super::control::refused;
use super::{RULES, directory};
use crate::EngineError;
use crate::ground::GroundError;
use crate::network::{Network, NetworkMisuse};

/// What `whatif net allow` and `whatif net deny` do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Allow,
    Deny,
}

/// The rules of a sandbox after a change, for programs.
#[must_use]
pub fn changed_document(sandbox: &Sandbox) -> Value {
    let network = &sandbox.details.network;
    json!({ "sandbox": sandbox.name, "allow": network.allow, "deny": network.deny })
}

impl Network {
    /// Holds at once, for what runs too: connections that are not allowed any more are cut.
    pub fn change_rules(&self, which: &Selector, change: Change, rules: &[Rule]) -> Result<Sandbox, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let _lock = self.ground.lock(&sandbox)?;
        let mut sandbox = self.ground.refresh(&sandbox)?;
        if sandbox.details.net != NetMode::Filtered {
            return Err(NetworkMisuse::NoRules { mode: sandbox.details.net, sandbox: sandbox.name }.into());
        }
        if let Some(rule) = rules.iter().find(|r| change == Change::Deny && r.http().is_some()) {
            return Err(NetworkMisuse::DeniesPath { rule: rule.clone() }.into());
        }
        if change == Change::Allow {
            rules.iter().try_for_each(check_leads_outside).map_err(|why| NetworkMisuse::LeadsInside { why })?;
        }
        let wish = &mut sandbox.details.network;
        let (to, from) = match change {
            Change::Allow => (&mut wish.allow, &mut wish.deny),
            Change::Deny => (&mut wish.deny, &mut wish.allow),
        };
        from.retain(|known| !rules.contains(known));
        let new: Vec<Rule> = rules.iter().filter(|r| !to.contains(r)).cloned().collect();
        to.extend(new);
        self.ground.store.update(&mut sandbox)?;
        if sandbox.status == Status::Active {
            self.ground.publish(&sandbox);
            self.renew_rules(&sandbox)?;
        }
        let word = if change == Change::Allow { "allow" } else { "deny" };
        let named: Vec<String> = rules.iter().map(ToString::to_string).collect();
        self.ground.tell(EventKind::NetworkChanged, &sandbox, vec![(word, named.into())]);
        Ok(sandbox)
    }

    /// Tells the supervisor, if there is one. Otherwise the next one will find them.
    pub fn renew_rules(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let place = directory(&self.ground.directory(sandbox)?);
        let rules = place.join(RULES);
        if !absence::exists(&rules).map_err(|e| EngineError::io("examine", &rules, e))? {
            return Ok(());
        }
        self.write_rules(&place, &self.rules_of(sandbox)?)?;
        let mut control = match self.control(sandbox) {
            Ok(control) => control,
            // Nobody serves it; whoever comes reads the file.
            Err(EngineError::Ground(GroundError::Keeper(ClientError::NotRunning))) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Given to it: one that root started may not open files of root's.
        let file = std::fs::File::open(place.join(RULES)).map_err(|e| EngineError::io("open", &place, e))?;
        control.reload_from(file).map_err(|e| refused(sandbox, &e))
    }
}
