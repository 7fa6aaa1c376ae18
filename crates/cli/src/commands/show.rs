//! `whatif show`.

use crate::exit::ExitCode;

use whatif_engine::{Engine, Shown};
use whatif_types::grants::Allowed;
use whatif_types::limits::Then;
use whatif_types::sandbox::{StopReason, is_given_up};
use whatif_types::{Identity, timestamp};

use super::{Outcome, meant};
use crate::output::{Output, Style, bytes, counted, printable};
use crate::{ending, table};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let shown = engine.lifecycle.show(&meant(engine, args.name.as_deref())?)?;
    output.document(&shown);
    output.line(table::render(&rows(&shown, output)));
    Ok(ExitCode::SUCCESS)
}

fn rows(shown: &Shown, output: &Output) -> Vec<Vec<String>> {
    let details = &shown.details;
    let mut rows: Vec<(&str, String)> = vec![
        ("name", output.paint(Style::Bold, &shown.listed.name)),
        ("id", shown.listed.id.clone()),
        (
            "status",
            match details.stop_reason {
                Some(StopReason::NotStarted) => format!("{} (not started yet)", shown.listed.status),
                Some(reason) => format!("{} ({})", shown.listed.status, format!("{reason:?}").to_lowercase()),
                None => shown.listed.status.to_string(),
            },
        ),
        ("created", shown.listed.created_at.clone()),
        ("project", path(&shown.listed.project)),
        ("started in", path(&details.cwd)),
        ("provider", shown.listed.provider.clone()),
        (
            "backend",
            match &details.backend_reason {
                Some(reason) => format!("{} (because: {})", details.backend, printable(reason)),
                None => details.backend.to_string(),
            },
        ),
        ("identity", identity(details.identity)),
        ("network", super::net::describe(details)),
        (
            "landlock",
            if shown.protection.landlock_abi == 0 {
                "not available in this kernel".to_owned()
            } else if details.grants.allows(Allowed::Userns) {
                format!("ABI {}, for signals and abstract sockets only", shown.protection.landlock_abi)
            } else {
                format!("ABI {}", shown.protection.landlock_abi)
            },
        ),
        ("copy-on-write", details.trees.iter().filter(|t| !is_given_up(t)).map(|t| path(t)).collect::<Vec<_>>().join(" ")),
        ("changed", format!("{}, {}", counted(shown.changes.changed_files, "path"), bytes(shown.listed.size_bytes))),
    ];
    for missing in &shown.listed.missing {
        rows.push(("missing", output.paint(Style::Red, printable(&missing.to_string()))));
    }
    let grants = &details.grants;
    rows.extend(grants.devices.iter().map(|device| ("granted", format!("the device {}", path(device)))));
    rows.extend(grants.gpu.iter().map(|gpu| ("granted", format!("NVIDIA cards: {gpu}"))));
    if grants.allows(Allowed::Userns) {
        rows.push(("granted", "user namespaces; confinement is weaker".to_owned()));
    }
    for port in &shown.taken_ports {
        let text = format!("port {} at 127.0.0.1:{}: taken by another program", port.inside, port.host);
        rows.push(("not reachable", output.paint(Style::Red, text)));
    }
    if let Some(origin) = &details.position.made_from {
        rows.push(("made from", printable(origin)));
    }
    if let Some(label) = &shown.at {
        rows.push(("stands at", format!("{label}, {}", counted(details.position.stack.len() as u64, "layer"))));
    }
    if details.auto_snapshot {
        rows.push(("snapshots", "one before each command".to_owned()));
    }
    for (place, reason) in &shown.protection.read_only {
        rows.push(("read-only", format!("{} ({})", path(place), printable(reason))));
    }
    for (place, reason) in &shown.protection.shared {
        rows.push(("shared", format!("pipes, sockets and locks in {} ({})", path(place), printable(reason))));
    }
    for (view, reason) in &shown.protection.borrowed {
        rows.push(("borrowed", format!("{} of what is around the sandbox, read-only ({})", path(view), printable(reason))));
    }
    let left_out = match details.dropped_env.len() {
        0 => "none".to_owned(),
        count => format!("{count} ({})", printable(&details.dropped_env.join(" "))),
    };
    rows.push(("variables left out", left_out));
    rows.push(("masked", format!("{} paths of credentials and histories (--json lists them)", shown.masked_paths.len())));
    if !details.labels.is_empty() {
        rows.push(("labels", details.labels.iter().map(|(k, v)| printable(&format!("{k}={v}"))).collect::<Vec<_>>().join(" ")));
    }
    if !details.command.is_empty() {
        rows.push(("command", printable(&details.command.join(" "))));
    }
    if let Some(code) = details.exit_code {
        rows.push(("exit code", code.to_string()));
    }
    if let Some(used) = &details.usage {
        rows.push(("it used", ending::usage(used)));
    }
    for (resource, limit) in details.limits.resources() {
        let by = details.enforced.iter().find(|e| e.resource == resource).map(|e| format!(" ({})", e.by)).unwrap_or_default();
        rows.push(("limit", format!("{resource} {limit}{by}")));
    }
    if let Some(defaults) = &details.default_limits {
        rows.extend(defaults.describe().into_iter().map(|text| ("default limit", text)));
        rows.extend(defaults.missing.iter().map(|why| ("no default limit", printable(why))));
    } else if details.limits.are_off() {
        rows.push(("default limits", "none".to_owned()));
    }
    let limits = &details.limits;
    for (what, span, note) in [("timeout", limits.timeout, " for each command"), ("ttl", limits.ttl, ""), ("idle", limits.idle, "")]
    {
        rows.extend(span.map(|span| ("limit", format!("{what} {span}{note}"))));
    }
    if let Some(ms) = shown.remaining_ms {
        rows.push(("ends in", if ms == 0 { "its time is up".to_owned() } else { timestamp::countdown(ms) }));
        if limits.then == Some(Then::Remove) {
            rows.push(("then", "it is removed, with its changes".to_owned()));
        }
    }
    if let Some(pid) = shown.keeper_pid {
        rows.push(("keeper", format!("process {pid}")));
    }
    rows.push(("processes", shown.processes.len().to_string()));
    if let Some(stats) = &shown.stats {
        let (cpu, up) = (stats.cpu_ms as f64 / 1000.0, stats.uptime_ms / 1000);
        rows.push(("uses", format!("{} of memory, {cpu:.1} s of CPU time, up for {up} s", bytes(stats.memory_bytes))));
    }
    for ended in shown.ended.iter().rev().take(3) {
        rows.push((
            "ended",
            format!("{} with {}: {}", printable(&ended.command), ending::code(ended), ending::usage(&ended.usage)),
        ));
    }
    rows.into_iter().map(|(label, value)| vec![output.paint(Style::Dim, label), value]).collect()
}

fn identity(identity: Identity) -> String {
    match identity {
        Identity::Mapped { base, .. } => format!("root inside is uid {base} outside"),
        Identity::Same => "root inside is root outside: this kernel or file system cannot map owners".to_owned(),
        Identity::Own { uid, .. } => format!("uid {uid}, inside and outside"),
    }
}

fn path(path: &std::path::Path) -> String {
    printable(&path.to_string_lossy())
}
