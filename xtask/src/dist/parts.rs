//! The crates that are part of the program.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::failure::{Failure, on};
use crate::workspace::Workspace;

#[derive(Debug)]
pub(super) struct Part {
    pub name: String,
    pub version: String,
    /// In the words of SPDX, or nothing.
    pub licence: Option<String>,
    /// Nothing for what is in this repository.
    pub source: Option<String>,
    pub directory: PathBuf,
}

/// Those that `whatif` is linked with on Linux, sorted by name. What only builds or tests it is none of them.
pub(super) fn of(workspace: &Workspace) -> Result<Vec<Part>, Failure> {
    let mut cargo =
        workspace.cargo(&["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = cargo.output().map_err(on("run", Path::new("cargo metadata")))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(on("read", Path::new("cargo metadata")))?;
    let nodes = listed(&metadata["resolve"]["nodes"]);
    let nodes: HashMap<&str, &Value> = nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let packages = listed(&metadata["packages"]);
    let program = packages.iter().find(|package| package["name"] == "whatif").and_then(|package| package["id"].as_str());
    let mut linked = vec![program.ok_or_else(|| Failure::new("there is no package 'whatif'"))?];
    let mut next = 0;
    while let Some(id) = linked.get(next) {
        next += 1;
        let dependencies = nodes.get(id).map_or(&[][..], |node| listed(&node["deps"]));
        let needed =
            dependencies.iter().filter(|dependency| listed(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()));
        for id in needed.filter_map(|dependency| dependency["pkg"].as_str()) {
            if !linked.contains(&id) {
                linked.push(id);
            }
        }
    }
    let is_linked = |package: &&Value| package["id"].as_str().is_some_and(|id| linked.contains(&id));
    let mut parts: Vec<Part> = packages.iter().filter(is_linked).map(part).collect();
    parts.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(parts)
}

fn listed(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn part(package: &Value) -> Part {
    let text = |key: &str| package[key].as_str().map(str::to_owned);
    let manifest = PathBuf::from(text("manifest_path").unwrap_or_default());
    Part {
        name: text("name").unwrap_or_default(),
        version: text("version").unwrap_or_default(),
        licence: text("license"),
        source: text("source"),
        directory: manifest.parent().unwrap_or(Path::new("")).to_owned(),
    }
}

/// As CycloneDX 1.5 has it.
pub(super) fn bill_of_materials(parts: &[Part], version: &str) -> String {
    let components: Vec<Value> = parts
        .iter()
        .filter(|part| part.source.is_some())
        .map(|part| {
            let address = format!("pkg:cargo/{}@{}", part.name, part.version);
            json!({
                "type": "library", "bom-ref": address, "name": part.name, "version": part.version, "purl": address,
                "licenses": [{ "expression": part.licence.as_deref().unwrap_or_default().replace('/', " OR ") }],
            })
        })
        .collect();
    let program = json!({ "type": "application", "bom-ref": "whatif", "name": "whatif", "version": version });
    let list = json!({ "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": { "component": program }, "components": components });
    format!("{list:#}\n")
}
