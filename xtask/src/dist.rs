//! `cargo xtask dist`: what people install. A static archive with manual pages and completions, a Debian package, a list of what is in
//! them with all licences, and checksums.

mod debian;
mod licences;
mod parts;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, on};
use crate::workspace::Workspace;

/// What is made, and of what.
#[derive(Debug, Default)]
pub struct Options {
    /// Instead of building one, which takes minutes.
    binary: Option<PathBuf>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Self, Failure> {
        match arguments {
            [] => Ok(Self::default()),
            [option, path] if option == "--binary" => Ok(Self { binary: Some(path.into()) }),
            _ => Err(Failure::Usage("dist takes only --binary PATH".to_owned())),
        }
    }
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::find()?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => built(&workspace)?,
    };
    for file in make(&workspace, &binary)? {
        println!("{}", file.display());
    }
    Ok(())
}

/// Everything that is for downloading, in `target/dist`.
pub fn make(workspace: &Workspace, binary: &Path) -> Result<Vec<PathBuf>, Failure> {
    must_be_static(binary)?;
    must_be_stripped(binary)?;
    let version = version(binary)?;
    let parts = parts::of(workspace)?;
    let dist = workspace.target.join("dist-files");
    let _ = fs::remove_dir_all(&dist);
    let name = format!("whatif-{version}-x86_64-linux");
    let root = dist.join(&name);
    fs::create_dir_all(&root).map_err(on("make", &root))?;
    tree::fill(&root, workspace, binary)?;
    let licences = licences::text(&parts)?;
    fs::write(root.join("THIRD-PARTY-LICENSES.txt"), &licences).map_err(on("write", &root))?;
    let archive = dist.join(format!("{name}.tar.gz"));
    tree::pack(&root, &archive)?;
    let list = dist.join(format!("{name}.cdx.json"));
    fs::write(&list, parts::bill_of_materials(&parts, &version)).map_err(on("write", &list))?;
    let mut made = vec![archive, list];
    made.extend(debian::package(&dist, &root, &version)?);
    made.push(checksums(&dist, &made)?);
    fs::remove_dir_all(&root).map_err(on("remove", &root))?;
    Ok(made)
}

/// Packs the release build, unpacks it elsewhere, and starts what came out.
pub fn prove(workspace: &Workspace) -> Result<(), Failure> {
    licences::check(workspace)?;
    let made = make(workspace, &workspace.release_binary())?;
    let there = workspace.target.join("dist-unpacked");
    let _ = fs::remove_dir_all(&there);
    fs::create_dir(&there).map_err(on("make", &there))?;
    said(Command::new("tar").args(["--strip-components=1", "--file"]).arg(&made[0]).arg("--extract").current_dir(&there))?;
    let mut unpacked = vec![(there.join("whatif"), there.join("man/whatif-run.1"))];
    if let Some(package) = made.iter().find(|file| file.extension().is_some_and(|extension| extension == "deb")) {
        let root = there.join("debian");
        said(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&root))?;
        unpacked.push((root.join("usr/bin/whatif"), root.join("usr/share/man/man1/whatif-run.1")));
    }
    for (program, page) in unpacked {
        println!("{}: {}", program.display(), version(&program)?);
        fs::metadata(&page).map_err(on("find", &page))?;
    }
    fs::remove_dir_all(&there).map_err(on("remove", &there))
}

fn built(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let status = workspace
        .cargo(&["build", "--profile", "dist", "--package", "whatif"])
        .status()
        .map_err(on("start", Path::new("cargo")))?;
    if status.success() { Ok(workspace.target.join("dist/whatif")) } else { Err(Failure::new("the build failed")) }
}

/// It must start on every distribution.
fn must_be_static(binary: &Path) -> Result<(), Failure> {
    let asked = said(Command::new("readelf").arg("--program-headers").arg(binary))?;
    if asked.contains("INTERP") {
        return Err(Failure::new(format!("{} is linked dynamically: install the static C library", binary.display())));
    }
    Ok(())
}

/// The names of its functions are a fifth of it, and nothing needs them.
fn must_be_stripped(binary: &Path) -> Result<(), Failure> {
    let asked = said(Command::new("readelf").args(["--wide", "--sections"]).arg(binary))?;
    if asked.contains(" .symtab ") {
        return Err(Failure::new(format!("{} has the names of its functions: strip it", binary.display())));
    }
    Ok(())
}

fn version(binary: &Path) -> Result<String, Failure> {
    let said = said(Command::new(binary).arg("--version"))?;
    let version = said.split_whitespace().nth(1).ok_or_else(|| Failure::new(format!("{} says no version", binary.display())))?;
    Ok(version.to_owned())
}

fn checksums(dist: &Path, made: &[PathBuf]) -> Result<PathBuf, Failure> {
    let names = made.iter().filter_map(|file| file.file_name());
    let sums = said(Command::new("sha256sum").args(names).current_dir(dist))?;
    let file = dist.join("SHA256SUMS");
    fs::write(&file, sums).map_err(on("write", &file))?;
    Ok(file)
}

/// What a program prints, if it succeeds.
fn said(command: &mut Command) -> Result<String, Failure> {
    let program = Path::new(command.get_program()).to_owned();
    let output = command.output().map_err(on("start", &program))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(format!("{} failed ({}): {why}", program.display(), output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
