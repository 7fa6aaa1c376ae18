//! `whatif port`.

use std::process::ExitCode;

use serde_json::json;
use whatif_engine::Engine;
use whatif_types::network::Publish;

use super::Outcome;
use crate::output::Output;

/// Make a port inside reachable at this machine's loopback, or list those that are
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox: its name or the beginning of its id
    name: Option<String>,
    /// The port inside, and the one here if it is to be another; 0 for any that is free
    #[arg(value_name = "[HOST_PORT:]PORT")]
    port: Option<Publish>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let (sandbox, ports) = engine.ports(args.name.as_deref(), args.port)?;
    output.document(&json!({ "sandbox": sandbox.name, "ports": ports }));
    if ports.is_empty() {
        output.note(format!("no port of '{}' is published; to publish one: whatif port {} 8080", sandbox.name, sandbox.name));
    }
    for port in &ports {
        output.line(format!("127.0.0.1:{} -> {}", port.host, port.inside));
    }
    Ok(ExitCode::SUCCESS)
}
