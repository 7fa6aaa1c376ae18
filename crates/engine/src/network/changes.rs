//! Changes the network of a sandbox that is there already.

use whatif_types::network::{Publish, Rule, check_leads_outside};
use whatif_types::{NetMode, Sandbox, Status};

use super::ports::Published;
use super::wish::usage;
use super::{CONTROL, RULES, directory};
use crate::{Engine, EngineError};
use whatif_supervisor::control::{Answering, ControlClient};

/// What `whatif net allow` and `whatif net deny` do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Allow,
    Deny,
}

impl Engine {
    /// Holds at once, for what runs too: connections that are not allowed any more are cut.
    pub fn change_rules(&self, name: &str, change: Change, rules: &[Rule]) -> Result<Sandbox, EngineError> {
        let sandbox = self.resolve(Some(name))?;
        let _lock = self.lock(&sandbox)?;
        let mut sandbox = self.refresh(&sandbox)?;
        if sandbox.details.net != NetMode::Filtered {
            return Err(usage(
                format!("the network of '{name}' is '{}': it has no rules", sandbox.details.net),
                "make a sandbox with rules: whatif new --net allow=RULE, or --net registries",
            ));
        }
        if let Some(rule) = rules.iter().find(|r| change == Change::Deny && r.http().is_some()) {
            return Err(usage(format!("'{rule}' cannot be denied: a path can be written in many ways"), "deny the host"));
        }
        if change == Change::Allow {
            rules
                .iter()
                .try_for_each(check_leads_outside)
                .map_err(|m| usage(m, "services of this machine: whatif new --reach localhost:PORT"))?;
        }
        let wish = &mut sandbox.details.network;
        let (to, from) = match change {
            Change::Allow => (&mut wish.allow, &mut wish.deny),
            Change::Deny => (&mut wish.deny, &mut wish.allow),
        };
        from.retain(|known| !rules.contains(known));
        let new: Vec<Rule> = rules.iter().filter(|r| !to.contains(r)).cloned().collect();
        to.extend(new);
        self.store.update(&mut sandbox)?;
        if sandbox.status == Status::Active {
            self.publish(&sandbox);
            self.renew_rules(&sandbox)?;
        }
        Ok(sandbox)
    }

    /// Tells the supervisor, if there is one. Otherwise the next one will find them.
    pub fn renew_rules(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let place = directory(&self.directory(sandbox)?);
        if !place.join(RULES).exists() {
            return Ok(());
        }
        self.write_rules(&place, &self.rules_of(sandbox)?)?;
        let Ok(socket) = whatif_keeper::client::connect_to(&place, CONTROL) else { return Ok(()) };
        let failed = |message: String| EngineError::Supervisor { name: sandbox.name.clone(), message };
        // Given to it: one that root started may not open files of root's.
        let file = std::fs::File::open(place.join(RULES)).map_err(|e| EngineError::io("open", &place, e))?;
        ControlClient::over(socket).reload_from(file).map_err(|e| failed(e.to_string()))
    }

    /// For somebody who answers the questions of a sandbox's supervisor, if it is to ask any.
    #[must_use]
    pub fn answering(&self, sandbox: &Sandbox) -> Option<Answering> {
        if sandbox.details.net != NetMode::Filtered {
            return None;
        }
        let place = directory(&self.directory(sandbox).ok()?);
        let socket = whatif_keeper::client::connect_to(&place, CONTROL).ok()?;
        ControlClient::over(socket).answering().ok()
    }

    /// Ports that somebody else had may be free by now.
    pub(crate) fn publish_missing(&self, sandbox: &Sandbox) {
        let Ok(place) = self.directory(sandbox).map(|d| directory(&d)) else { return };
        for (publish, listener) in Published::bind_those_free(&self.missing_ports(sandbox)).0 {
            if let Ok(socket) = whatif_keeper::client::connect_to(&place, CONTROL) {
                // `missing_ports` tells if that does not work.
                let _ = ControlClient::over(socket).publish(publish.inside, &listener);
            }
        }
    }

    /// Takes a port back.
    pub fn unpublish(&self, name: Option<&str>, inside: u16) -> Result<Sandbox, EngineError> {
        let sandbox = self.resolve(name)?;
        let _lock = self.lock(&sandbox)?;
        let mut sandbox = self.refresh(&sandbox)?;
        let known = sandbox.details.network.publish.len();
        sandbox.details.network.publish.retain(|publish| publish.inside != inside);
        if sandbox.details.network.publish.len() == known {
            return Err(usage(
                format!("port {inside} of '{}' is not published", sandbox.name),
                "'whatif port NAME' lists those that are",
            ));
        }
        self.store.update(&mut sandbox)?;
        if sandbox.status == Status::Active {
            self.publish(&sandbox);
            if let Ok(socket) = whatif_keeper::client::connect_to(&directory(&self.directory(&sandbox)?), CONTROL) {
                // Not published by this supervisor: just as well.
                let _ = ControlClient::over(socket).unpublish(inside);
            }
        }
        Ok(sandbox)
    }

    /// Ports of a running sandbox that lead nowhere: somebody else had them when its supervisor was started.
    #[must_use]
    pub fn missing_ports(&self, sandbox: &Sandbox) -> Vec<Publish> {
        let wanted = &sandbox.details.network.publish;
        if wanted.is_empty() || sandbox.status != Status::Active {
            return Vec::new();
        }
        let place = self.directory(sandbox).map(|d| directory(&d));
        let socket = place.ok().and_then(|place| whatif_keeper::client::connect_to(&place, CONTROL).ok());
        let served = socket.and_then(|socket| ControlClient::over(socket).status().ok()).map(|s| s.published).unwrap_or_default();
        wanted.iter().filter(|publish| !served.iter().any(|port| port.inside == publish.inside)).copied().collect()
    }

    /// The ports of the host that lead inside; with one more if asked for.
    pub fn ports(&self, name: Option<&str>, wanted: Option<Publish>) -> Result<(Sandbox, Vec<Publish>), EngineError> {
        let sandbox = self.resolve(name)?;
        let Some(wanted) = wanted else {
            let ports = sandbox.details.network.publish.clone();
            return Ok((sandbox, ports));
        };
        if sandbox.details.net == NetMode::Host {
            return Err(usage("with --net host its ports are the host's".to_owned(), "use them as they are"));
        }
        let _lock = self.lock(&sandbox)?;
        let mut sandbox = self.refresh(&sandbox)?;
        let known = |publish: &&Publish| publish.inside == wanted.inside && (wanted.host == 0 || publish.host == wanted.host);
        if let Some(known) = sandbox.details.network.publish.iter().find(known).copied() {
            if sandbox.status == Status::Active {
                self.supervise(&sandbox)?;
                self.publish_missing(&sandbox);
            }
            return Ok((sandbox, vec![known]));
        }
        let mut bound = Published::bind(&[wanted])?;
        let numbers = bound.numbers();
        if sandbox.status == Status::Active {
            self.supervise_with(&sandbox, None)?;
            let socket = whatif_keeper::client::connect_to(&directory(&self.directory(&sandbox)?), CONTROL)?;
            let failed = |message: String| EngineError::Supervisor { name: sandbox.name.clone(), message };
            for (publish, listener) in bound.0.drain(..) {
                ControlClient::over(socket.try_clone().map_err(|e| failed(e.to_string()))?)
                    .publish(publish.inside, &listener)
                    .map_err(|e| failed(e.to_string()))?;
            }
        }
        sandbox.details.network.publish.extend(&numbers);
        self.store.update(&mut sandbox)?;
        if sandbox.status == Status::Active {
            self.publish(&sandbox);
        }
        Ok((sandbox, numbers))
    }
}
