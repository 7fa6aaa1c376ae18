//! The end-to-end tests by subject: each module of their program, and the harness's own tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::{Failure, on};
use crate::workspace::Workspace;

/// The program that has all tests but the harness's own.
const PROGRAM: &str = "e2e";

#[derive(Debug, PartialEq, Eq)]
pub struct Subject {
    pub name: String,
    pub program: PathBuf,
    pub tests: Vec<String>,
}

impl Subject {
    /// Runs its tests and no others.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--exact").args(&self.tests);
        command
    }
}

/// Builds all of them.
pub fn built(workspace: &Workspace) -> Result<Vec<Subject>, Failure> {
    let mut cargo = workspace.cargo(&["test", "--package", "whatif-e2e", "--no-run", "--quiet", "--message-format=json"]);
    let output = cargo.stderr(Stdio::inherit()).output().map_err(on("run", Path::new("cargo")))?;
    if !output.status.success() {
        return Err(Failure::new(format!("failed to build the end-to-end tests: {}", output.status)));
    }
    let mut subjects = Vec::new();
    for (name, program) in String::from_utf8_lossy(&output.stdout).lines().filter_map(program) {
        let listed = Command::new(&program).args(["--list", "--format", "terse"]).output().map_err(on("start", &program))?;
        let tests = String::from_utf8_lossy(&listed.stdout).lines().filter_map(test).map(str::to_owned).collect();
        subjects.extend(divided(&name, &program, tests));
    }
    Ok(subjects)
}

/// Those with these names.
pub fn selected(workspace: &Workspace, names: &[String]) -> Result<Vec<Subject>, Failure> {
    let mut subjects = built(workspace)?;
    if let Some(unknown) = names.iter().find(|name| !subjects.iter().any(|subject| subject.name == **name)) {
        return Err(Failure::Usage(format!("there are no tests called '{unknown}'")));
    }
    subjects.retain(|subject| names.contains(&subject.name));
    Ok(subjects)
}

/// How a person repeats them.
pub fn again(workspace: &Workspace, names: &[&str]) -> Command {
    let mut cargo = workspace.cargo(&["test", "--package", "whatif-e2e", "--"]);
    cargo.args(names.iter().map(|name| format!("{name}::"))).env("WHATIF_BIN", workspace.release_binary());
    cargo
}

/// The tests of a program, by their first module.
fn divided(name: &str, program: &Path, tests: Vec<String>) -> Vec<Subject> {
    let mut by_module: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for test in tests {
        let module = test.split_once("::").filter(|_| name == PROGRAM).map_or(name, |(module, _)| module);
        by_module.entry(module.to_owned()).or_default().push(test);
    }
    let subject = |(name, tests)| Subject { name, program: program.to_owned(), tests };
    by_module.into_iter().map(subject).collect()
}

/// Of a line of a program's list.
fn test(line: &str) -> Option<&str> {
    line.strip_suffix(": test")
}

/// Of one of cargo's messages, if it is about a program with tests.
fn program(message: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = PathBuf::from(message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?);
    Some((message["target"]["name"].as_str()?.to_owned(), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_tests_are_found_among_cargos_messages() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"e2e"},"profile":{"test":true},"executable":"/t/e2e-1"}"#;
        assert_eq!(program(message), Some(("e2e".to_owned(), PathBuf::from("/t/e2e-1"))));
        assert_eq!(program(&message.replace(r#""test":true"#, r#""test":false"#)), None);
        assert_eq!(program(&message.replace(r#""/t/e2e-1""#, "null")), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn each_module_is_a_subject_with_all_of_its_tests() {
        let list = "undo::one::as_root: test\ngc::one: test\nundo::one::as_user: test\nalone: test\n\nundo::slow: benchmark";
        let tests: Vec<String> = list.lines().filter_map(test).map(str::to_owned).collect();
        let found: Vec<_> = divided("e2e", Path::new("/t"), tests.clone()).into_iter().map(|s| (s.name, s.tests)).collect();
        let of = |name: &str, tests: &[&str]| (name.to_owned(), tests.iter().map(|test| (*test).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            found,
            [of("e2e", &["alone"]), of("gc", &["gc::one"]), of("undo", &["undo::one::as_root", "undo::one::as_user"])]
        );
        assert_eq!(divided("whatif_e2e", Path::new("/t"), tests).len(), 1);
    }
}
