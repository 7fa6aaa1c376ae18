//! What whatif says it has decided.

use serde_json::Value;

use super::Outside;
use crate::World;

impl Outside {
    /// Everything recorded about a sandbox, oldest first.
    #[track_caller]
    pub fn decisions(&self, w: &World, sandbox: &str) -> Vec<Value> {
        let shown = w.json(["net", sandbox]);
        shown["decisions"].as_array().unwrap_or_else(|| panic!("no list: {shown}")).clone()
    }

    /// The decision about a connection to a host and port.
    #[track_caller]
    pub fn decision(&self, w: &World, sandbox: &str, host: &str, port: u16) -> Value {
        let all = self.decisions(w, sandbox);
        let fits = |decision: &&Value| decision["host"] == host && decision["port"] == port;
        all.iter().find(fits).cloned().unwrap_or_else(|| panic!("nothing about {host}:{port} in {all:#?}"))
    }
}
