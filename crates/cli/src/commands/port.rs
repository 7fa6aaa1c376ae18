//! `whatif port`.

use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::{Engine, Sandbox};
use whatif_types::Status;
use whatif_types::network::Publish;

use super::{Outcome, meant_and_told};
use crate::output::{Output, Style};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// The port inside, and the port on this machine if it differs (0: any free port)
    #[arg(value_name = "[HOST_PORT:]PORT")]
    port: Option<Publish>,
    /// Stop publishing this port (the number inside)
    #[arg(long, value_name = "PORT", conflicts_with = "port")]
    remove: Option<u16>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    if let Some(port) = args.remove {
        let sandbox = engine.network.unpublish(&meant_and_told(engine, args.name.as_deref(), output)?, port)?;
        output.document(&json!({ "sandbox": sandbox.name, "ports": sandbox.details.network.publish }));
        output.note(format!("port {port} of '{}' is not published any more", sandbox.name));
        return Ok(ExitCode::SUCCESS);
    }
    let (sandbox, ports) = engine.network.ports(&meant_and_told(engine, args.name.as_deref(), output)?, args.port)?;
    let taken = engine.network.missing_ports(&sandbox);
    output.document(&json!({ "sandbox": sandbox.name, "ports": ports, "taken": taken }));
    if ports.is_empty() {
        output.note(format!("no port of '{}' is published; to publish one: whatif port {} 8080", sandbox.name, sandbox.name));
    }
    tell_taken(&taken, &sandbox, output);
    for port in &ports {
        let when = match sandbox.status {
            _ if taken.contains(port) => "  (not reachable: taken by another program)",
            Status::Active => "",
            _ => "  (when it runs)",
        };
        output.line(format!("{}{when}", describe(*port)));
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(port: Publish) -> String {
    format!("127.0.0.1:{} -> {}", port.host, port.inside)
}

/// Another program may have had a port when the sandbox was started.
pub fn tell_missing(engine: &Engine, sandbox: &Sandbox, output: &Output) {
    tell_taken(&engine.network.missing_ports(sandbox), sandbox, output);
}

fn tell_taken(taken: &[Publish], sandbox: &Sandbox, output: &Output) {
    for port in taken {
        output.note(format!(
            "{} port {} of this machine is taken, so {} is not reachable there; to use another: whatif port {} --remove {}; whatif port {} 0:{}",
            output.paint_note(Style::Yellow, "whatif:"),
            port.host,
            port.inside,
            sandbox.name,
            port.inside,
            sandbox.name,
            port.inside,
        ));
    }
}

/// Says where a new sandbox can be reached; the number may not have been given.
pub fn tell(sandbox: &Sandbox, output: &Output) {
    for port in &sandbox.details.network.publish {
        output.note(format!("  {}", describe(*port)));
    }
}
