//! Which end-to-end tests play attacks: SECURITY.md says it, in a table with a row for each of them.

use std::collections::BTreeSet;

use crate::failure::{Failure, on};
use crate::workspace::Workspace;

const HEADING: &str = "## Which tests play them";

/// The names of their files.
pub fn subjects(workspace: &Workspace) -> Result<Vec<String>, Failure> {
    let path = workspace.root.join("SECURITY.md");
    let text = std::fs::read_to_string(&path).map_err(on("read", &path))?;
    let named: BTreeSet<&str> = rows(&text).flat_map(|(_, tests)| quoted(tests)).collect();
    Ok(named.into_iter().map(str::to_owned).collect())
}

/// Attacks and tests, row by row.
fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let section = text.split_once(HEADING).map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or(rest));
    section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn security() -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../SECURITY.md")).unwrap_or_default()
    }

    /// `FS-01` and the like.
    fn ids(text: &str) -> BTreeSet<&str> {
        let is_id = |word: &&str| {
            word.split_once('-').is_some_and(|(group, number)| {
                group.len() == 2
                    && group.bytes().all(|b| b.is_ascii_uppercase())
                    && number.len() == 2
                    && number.bytes().all(|b| b.is_ascii_digit())
            })
        };
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(is_id).collect()
    }

    #[test]
    fn every_test_that_is_named_exists() {
        let text = security();
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/tests");
        let named: Vec<&str> = rows(&text).flat_map(|(_, tests)| quoted(tests)).collect();
        assert!(named.len() > 100, "{named:?}");
        let missing: Vec<&&str> = named.iter().filter(|name| !tests.join(format!("{name}.rs")).is_file()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_attack_that_is_named_has_a_row() {
        let text = security();
        let in_rows: BTreeSet<&str> = rows(&text).flat_map(|(attacks, _)| ids(attacks)).collect();
        let elsewhere = ids(text.split(HEADING).next().unwrap_or_default());
        let missing: Vec<&&str> = elsewhere.difference(&in_rows).collect();
        assert!(elsewhere.len() > 80 && missing.is_empty(), "{missing:?}");
    }
}
