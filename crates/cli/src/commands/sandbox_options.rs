//! What `run` and `new` have in common.

use std::collections::BTreeMap;
use std::path::PathBuf;

use whatif_engine::{Engine, EngineError, NewSandbox};
use whatif_types::{Backend, label};

use super::grant_options::GrantOptions;
use super::limit_options::LimitOptions;
use super::network_options::NetworkOptions;
use super::{path_rule, variable};

#[derive(Debug, Default, clap::Args)]
pub struct SandboxOptions {
    /// Name of the sandbox; made up if not given
    #[arg(long)]
    pub name: Option<String>,
    /// Set a variable (NAME=VALUE), or pass one that looks like a secret (NAME)
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable::parse)]
    pub env: Vec<String>,
    /// Start in this directory; the sandbox belongs to the project around it
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Attach a label
    #[arg(long, value_name = "KEY=VALUE", value_parser = labelled)]
    pub label: Vec<(String, String)>,
    /// Isolation of processes
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// Implementation of copy-on-write; by default the best that works here
    #[arg(long, value_name = "overlay|fuse|copy")]
    pub backend: Option<Backend>,
    /// Hide this path too ('~/' is the home directory; other paths are relative to this directory)
    #[arg(long, value_name = "PATH", value_parser = path_rule::parse)]
    pub mask: Vec<String>,
    /// Show a path that is hidden by default
    #[arg(long, value_name = "PATH", value_parser = path_rule::parse)]
    pub expose: Vec<String>,
    /// Start from this template
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Take a snapshot before each command
    #[arg(long)]
    pub auto_snapshot: bool,
    #[command(flatten)]
    pub grants: GrantOptions,
    #[command(flatten)]
    pub network: NetworkOptions,
    #[command(flatten)]
    pub limits: LimitOptions,
}

impl SandboxOptions {
    pub fn into_new(self, engine: &Engine) -> Result<NewSandbox, EngineError> {
        let mut new = NewSandbox {
            name: self.name,
            labels: self.label.into_iter().collect::<BTreeMap<_, _>>(),
            provider: self.provider,
            backend: self.backend,
            mask: self.mask,
            expose: self.expose,
            grants: self.grants.into_grants(),
            env: self.env,
            cwd: self.cwd,
            idempotency_key: None,
            auto_snapshot: self.auto_snapshot,
            template: self.template,
            limits: self.limits.into_limits(),
            ..NewSandbox::default()
        };
        self.network.add_to(&mut new, &engine.caller().cwd)?;
        Ok(new)
    }
}

fn labelled(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => label::check_key(key).map(|()| (key.to_owned(), value.to_owned())),
        _ => Err("a label is KEY=VALUE".to_owned()),
    }
}
