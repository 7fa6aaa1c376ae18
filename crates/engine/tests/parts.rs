//! The parts of the engine stand on one another, and nothing points upward.

use std::fs;
use std::path::{Path, PathBuf};

/// Each may use those before it.
const PARTS: [&str; 7] = ["ground", "network", "lifecycle", "history", "changes", "races", "upkeep"];
/// Neither of these is above the other.
const SIDE_BY_SIDE: (&str, &str) = ("changes", "history");
/// What builds the parts, the sum of their errors, what looks at the whole, and what our program is when it is started for a sandbox.
const ABOVE: [&str; 4] = ["lib", "error", "doctor", "role"];
/// What the root of the crate may be asked for. Everything else there is for clients: by way of it an arrow could point upward
/// without being seen.
const OF_THE_ROOT: [&str; 4] = ["Caller", "EngineError", "Trouble", "now"];

#[test]
fn no_arrow_points_upward() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for file in files(&source) {
        let inside = file.strip_prefix(&source).expect("it is in there").with_extension("");
        let top = inside.iter().next().and_then(|name| name.to_str()).expect("plain names");
        if ABOVE.contains(&top) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("source is text");
        for name in asked_of_the_crate(&text) {
            seen += 1;
            if !may_use(top, name) {
                wrong.push(format!("{} uses crate::{name}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 500, "only {seen} arrows were found: does this test still see them?");
}

fn may_use(user: &str, used: &str) -> bool {
    if used.starts_with(char::is_uppercase) || used == "now" {
        return OF_THE_ROOT.contains(&used);
    }
    let level = |name: &str| PARTS.iter().position(|part| *part == name).map_or(0, |position| position + 1);
    !ABOVE.contains(&used) && level(used) <= level(user) && (user, used) != SIDE_BY_SIDE
}

/// The first name of each path that begins at the root of the crate.
fn asked_of_the_crate(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        Some(group) => group.split('}').next().unwrap_or_default().split(',').map(first_name).collect(),
        None => vec![first_name(rest)],
    })
}

fn first_name(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("source is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}
