//! Under which terms the parts of the program come, and whether we may pass them on under ours.

use std::fs;

use spdx::{Expression, LicenseReq, ParseMode};

use super::parts::{self, Part};
use crate::failure::{Failure, on};
use crate::workspace::Workspace;

/// Permissive ones only: whoever gets our program gets no duties beyond naming its authors.
const ACCEPTED: [&str; 7] = ["Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Unlicense", "Zlib"];

/// Fails for a part that comes from elsewhere than the registry, or under terms that are not accepted.
pub(super) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let parts = parts::of(workspace)?;
    let problems: Vec<String> = parts.iter().filter_map(problem).collect();
    if problems.is_empty() {
        println!("the licences of all {} parts are accepted", parts.len());
        return Ok(());
    }
    Err(Failure::new(problems.join("\n")))
}

fn problem(part: &Part) -> Option<String> {
    let Part { name, version, licence, source, .. } = part;
    if source.as_ref().is_some_and(|source| !source.starts_with("registry+")) {
        return Some(format!("{name} {version} comes from {}, not from the registry", source.as_deref().unwrap_or_default()));
    }
    let Some(licence) = licence else { return Some(format!("{name} {version} has no licence")) };
    match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression) if expression.evaluate(is_accepted) => None,
        Ok(_) => Some(format!("{name} {version} comes under '{licence}', which is not accepted")),
        Err(error) => Some(format!("{name} {version} comes under '{licence}': {error}")),
    }
}

fn is_accepted(required: &LicenseReq) -> bool {
    required.license.id().is_some_and(|id| ACCEPTED.contains(&id.name))
}

/// All of them, with their texts, for those who get the program.
pub(super) fn text(parts: &[Part]) -> Result<String, Failure> {
    let mut text = "whatif contains these libraries.\n".to_owned();
    for part in parts.iter().filter(|part| part.source.is_some()) {
        let licence = part.licence.as_deref().unwrap_or_default();
        text.push_str(&format!("\n{}\n{} {} ({licence})\n", "=".repeat(80), part.name, part.version));
        let mut names: Vec<_> =
            fs::read_dir(&part.directory).map_err(on("read", &part.directory))?.flatten().map(|entry| entry.path()).collect();
        names.sort();
        for path in names.iter().filter(|path| path.is_file() && is_licence(path)) {
            text.push_str(&format!("\n{}\n", String::from_utf8_lossy(&fs::read(path).map_err(on("read", path))?).trim_end()));
        }
    }
    Ok(text)
}

fn is_licence(path: &std::path::Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(licence: &str, source: &str) -> Part {
        let [name, version] = ["some", "1.0.0"].map(str::to_owned);
        Part { name, version, licence: Some(licence.to_owned()), source: Some(source.to_owned()), directory: "/".into() }
    }

    #[test]
    fn only_permissive_parts_of_the_registry_are_accepted() {
        for licence in ["MIT", "MIT/Apache-2.0", "(MIT OR GPL-3.0-only) AND Zlib", "Apache-2.0 WITH LLVM-exception OR MIT"] {
            assert_eq!(problem(&part(licence, "registry+here")), None, "{licence}");
        }
        for licence in ["GPL-3.0-only", "MIT AND MPL-2.0", "nonsense", ""] {
            assert!(problem(&part(licence, "registry+here")).is_some(), "{licence}");
        }
        assert!(problem(&part("MIT", "git+there")).is_some());
    }
}
