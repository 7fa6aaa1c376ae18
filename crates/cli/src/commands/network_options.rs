//! What can be said about the network of a new sandbox.

use std::path::Path;

use whatif_engine::network::secrets;
use whatif_engine::{EngineError, NewSandbox};
use whatif_types::network::{NetChoice, Publish, Reach, SecretSource};

use super::path_rule;

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Network")]
pub struct NetworkOptions {
    /// Network access: none, registries (those of your package managers; the default), local, host, or allow=RULE[,RULE]
    ///
    /// A rule is a domain, *.domain, an address or a network, each with an optional :port, or http://host/path. Repeatable.
    #[arg(long, value_name = "none|registries|local|host|allow=RULE")]
    pub net: Vec<NetChoice>,
    /// Let the sandbox reach one service of this machine, at the same port
    #[arg(long, value_name = "localhost:PORT")]
    pub reach: Vec<Reach>,
    /// Make a port of the sandbox reachable at 127.0.0.1
    #[arg(long, value_name = "[HOST_PORT:]PORT")]
    pub publish: Vec<Publish>,
    /// Let commands use a credential that they cannot read: NAME holds a placeholder inside, which is replaced in requests to --for
    /// HOST
    #[arg(long, value_name = "NAME=@FILE|NAME=env[:VARIABLE]")]
    pub secret: Vec<String>,
    /// The only host that receives the preceding --secret
    #[arg(long = "for", value_name = "HOST", requires = "secret")]
    pub secret_for: Vec<String>,
    /// Replace the placeholder in this header field too; Authorization, X-Api-Key and similar fields are included
    #[arg(long, value_name = "[NAME=]FIELD", requires = "secret")]
    pub field: Vec<String>,
}

impl NetworkOptions {
    pub fn add_to(self, new: &mut NewSandbox, cwd: &Path) -> Result<(), EngineError> {
        new.net = self.net;
        new.reach = self.reach;
        new.publish = self.publish;
        if !self.secret.is_empty() {
            new.secrets = secrets::wishes(&self.secret, &self.secret_for, &self.field, cwd)?;
        }
        // Inside, the file would be as good as the secret.
        for secret in &new.secrets {
            if let SecretSource::File(path) = &secret.source {
                let file = path_rule::stepped_up(path).map_err(|source| EngineError::io("examine", path, source))?;
                new.mask.push(file.to_string_lossy().into_owned());
            }
        }
        Ok(())
    }
}
