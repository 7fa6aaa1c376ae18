//! `cargo xtask order`: which functions short commands reach, in the order in which they do. The linker puts them next to each other
//! (`crates/cli/build.rs`), so that a short command has a few pages of the program mapped instead of half of it.
//!
//! The names have the compiler's hashes in them. What a later build calls otherwise stays where the linker would put it anyway.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, on};
use crate::workspace::Workspace;

/// Short, and run thousands of times. Those that matter most come first.
const COMMANDS: [&[&str]; 4] =
    [&["exec", "s", "--", "true"], &["run", "--", "true"], &["run", "--", "sh", "-c", "echo changed > file"], &["new", "another"]];

pub fn run() -> Result<(), Failure> {
    let workspace = Workspace::find()?;
    let program = build(&workspace)?;
    let functions = functions(&program)?;
    let place = Place::make()?;
    place.demand(&program, &["new", "s"])?;
    let (mut known, mut order) = (HashSet::new(), String::new());
    for command in COMMANDS {
        for address in place.steps(&program, command, &workspace)? {
            let name = function_at(&functions, address);
            if let Some(name) = name.filter(|name| known.insert(*name)) {
                order.push_str(name);
                order.push('\n');
            }
        }
    }
    place.demand(&program, &["rm", "--all", "--yes"])?;
    let file = workspace.root.join("crates/cli/functions.order");
    fs::write(&file, order).map_err(on("write", &file))?;
    println!("{} functions in {}", known.len(), file.display());
    Ok(())
}

/// With the names of its functions. The next release build makes one without again.
fn build(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let mut cargo = workspace.cargo(&["rustc", "--release", "--package", "whatif", "--bin", "whatif", "--", "-Cstrip=none"]);
    let status = cargo.status().map_err(on("run", Path::new("cargo")))?;
    if status.success() { Ok(workspace.release_binary()) } else { Err(Failure::new("the release build failed")) }
}

/// By address.
fn functions(program: &Path) -> Result<Vec<(u64, String)>, Failure> {
    let listed = Command::new("nm").arg("--numeric-sort").arg(program).output().map_err(on("run", Path::new("nm")))?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    let functions: Vec<_> = listed.lines().filter_map(function).collect();
    if functions.is_empty() { Err(Failure::new("the program has no names")) } else { Ok(functions) }
}

fn function(line: &str) -> Option<(u64, String)> {
    let mut words = line.splitn(3, ' ');
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let address = u64::from_str_radix(address, 16).ok()?;
    "tTwWi".contains(kind).then(|| (address, name.to_owned()))
}

fn function_at(functions: &[(u64, String)], address: u64) -> Option<&str> {
    let after = functions.partition_point(|(begin, _)| *begin <= address);
    functions.get(after.checked_sub(1)?).map(|(_, name)| name.as_str())
}

/// A home and a project of its own.
struct Place(PathBuf);

impl Place {
    fn make() -> Result<Self, Failure> {
        let place = Self(PathBuf::from(format!("/var/tmp/whatif-order-{}", std::process::id())));
        let project = place.project();
        fs::create_dir_all(&project).map_err(on("create", &project))?;
        Ok(place)
    }

    fn project(&self) -> PathBuf {
        self.0.join("project")
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project()).env("HOME", &self.0).env("WHATIF_HOME", self.0.join("state"));
        command
    }

    fn demand(&self, program: &Path, arguments: &[&str]) -> Result<(), Failure> {
        let status = self.command(program).args(arguments).status().map_err(on("start", program))?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("{arguments:?}: {status}"))) }
    }

    /// Where a command was for the first time.
    fn steps(&self, program: &Path, arguments: &[&str], workspace: &Workspace) -> Result<Vec<u64>, Failure> {
        println!("step by step: {}", arguments.join(" "));
        let written = self.0.join("steps");
        let mut command = self.command(Path::new("python3"));
        command.arg(workspace.root.join("xtask/order/steps.py")).arg(&written).arg(program).args(arguments);
        let status = command.status().map_err(on("start", Path::new("python3")))?;
        if !status.success() {
            return Err(Failure::new(format!("{arguments:?}, step by step: {status}")));
        }
        let text = fs::read_to_string(&written).map_err(on("read", &written))?;
        Ok(text.lines().filter_map(|line| u64::from_str_radix(line, 16).ok()).collect())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let listed = "0000000000001000 T first\n                 w missing\n0000000000001010 t second\n0000000000002000 d data";
        let functions: Vec<_> = listed.lines().filter_map(function).collect();
        let at = |address| function_at(&functions, address);
        assert_eq!([at(0xfff), at(0x1000), at(0x100f), at(0x1010)], [None, Some("first"), Some("first"), Some("second")]);
    }
}
