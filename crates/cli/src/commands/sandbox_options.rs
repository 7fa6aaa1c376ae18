//! What `run` and `new` have in common.

use std::collections::BTreeMap;
use std::path::PathBuf;

use whatif_engine::{Engine, EngineError, NewSandbox};
use whatif_types::Backend;

use super::limit_options::LimitOptions;
use super::network_options::NetworkOptions;
use super::path_rule;

#[derive(Debug, Default, clap::Args)]
pub struct SandboxOptions {
    /// Name it; a memorable one is made up otherwise
    #[arg(long)]
    pub name: Option<String>,
    /// Carry a variable although it looks like a secret (NAME), or set one (NAME=VALUE)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Directory to start in, instead of this one; its project is the sandbox's
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Attach a label, as KEY=VALUE
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
    /// How processes are isolated
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// How copy-on-write is done; the best that works here by default
    #[arg(long, value_name = "overlay|fuse|copy")]
    pub backend: Option<Backend>,
    /// Hide a further path ('~/' is the home; others count from here)
    #[arg(long, value_name = "PATH", value_parser = path_rule::parse)]
    pub mask: Vec<String>,
    /// Show a path that is hidden by default
    #[arg(long, value_name = "PATH", value_parser = path_rule::parse)]
    pub expose: Vec<String>,
    /// Start from a template instead of from reality alone
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Take a snapshot before each command, to be able to step back
    #[arg(long)]
    pub auto_snapshot: bool,
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

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, _)) if key.starts_with("whatif.") => Err("labels that begin with 'whatif.' are whatif's own".to_owned()),
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is KEY=VALUE".to_owned()),
    }
}
