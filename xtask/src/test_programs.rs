//! The programs that cargo makes of the end-to-end tests: one for each file, and one for the harness's own tests.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::failure::{Failure, on};
use crate::workspace::Workspace;

#[derive(Debug, PartialEq, Eq)]
pub struct TestProgram {
    pub name: String,
    pub path: PathBuf,
    /// What cargo runs it for.
    pub selection: Vec<String>,
}

/// Builds those that cargo selects by these arguments, and asks it where they are.
pub fn built(workspace: &Workspace, selection: &[&str]) -> Result<Vec<TestProgram>, Failure> {
    let mut cargo = workspace.cargo(&["test", "--package", "whatif-e2e", "--no-run", "--quiet", "--message-format=json"]);
    let output = cargo.args(selection).stderr(Stdio::inherit()).output().map_err(on("run", Path::new("cargo")))?;
    if !output.status.success() {
        return Err(Failure::new(format!("failed to build the end-to-end tests: {}", output.status)));
    }
    let mut programs: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect();
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(programs)
}

/// Of one message, if it is about a program with tests.
fn program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = PathBuf::from(message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?);
    let name = message["target"]["name"].as_str()?.to_owned();
    let is_library = message["target"]["kind"][0] == "lib";
    let selection = if is_library { vec!["--lib".to_owned()] } else { vec!["--test".to_owned(), name.clone()] };
    Some(TestProgram { name, path, selection })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_tests_are_found_among_cargos_messages() {
        let file = r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"undo"},"profile":{"test":true},"executable":"/t/undo-1"}"#;
        let undo = program(file).expect("it is one");
        assert_eq!((undo.name.as_str(), undo.path.as_path()), ("undo", Path::new("/t/undo-1")));
        assert_eq!(undo.selection, ["--test", "undo"]);
        let library = file.replace(r#"["test"],"name":"undo""#, r#"["lib"],"name":"whatif_e2e""#);
        assert_eq!(program(&library).expect("it has tests, too").selection, ["--lib"]);
        assert_eq!(program(&file.replace(r#""test":true"#, r#""test":false"#)), None);
        assert_eq!(program(&file.replace(r#""/t/undo-1""#, "null")), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
