//! The files of an archive.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::said;
use crate::failure::{Failure, on};
use crate::workspace::Workspace;

const DOCUMENTS: [&str; 6] = ["README.md", "CHANGELOG.md", "COMPATIBILITY.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT"];
const SHELLS: [(&str, &str); 3] = [("bash", "whatif.bash"), ("fish", "whatif.fish"), ("zsh", "_whatif")];

pub(super) fn fill(root: &Path, workspace: &Workspace, binary: &Path) -> Result<(), Failure> {
    let program = root.join("whatif");
    fs::copy(binary, &program).map_err(on("copy", binary))?;
    for document in DOCUMENTS {
        let from = workspace.root.join(document);
        fs::copy(&from, root.join(document)).map_err(on("copy", &from))?;
    }
    let completions = root.join("completions");
    fs::create_dir(&completions).map_err(on("make", &completions))?;
    for (shell, name) in SHELLS {
        let script = said(Command::new(&program).args(["completions", shell]))?;
        fs::write(completions.join(name), script).map_err(on("write", &completions))?;
    }
    let manual = root.join("man");
    fs::create_dir(&manual).map_err(on("make", &manual))?;
    said(Command::new(&program).arg("man").arg(&manual))?;
    Ok(())
}

/// The same files make the same archive, whoever packs them and when.
pub(super) fn pack(root: &Path, archive: &Path) -> Result<(), Failure> {
    let (Some(parent), Some(name)) = (root.parent(), root.file_name()) else {
        return Err(Failure::new(format!("{} is not a directory to pack", root.display())));
    };
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rw,go=rX", "--mtime=@0"]);
    said(tar.args(["--use-compress-program=gzip -9n", "--file"]).arg(archive).arg("--directory").arg(parent).arg(name))?;
    Ok(())
}
