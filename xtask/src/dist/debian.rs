//! A package for Debian, Ubuntu and their relatives.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::said;
use crate::failure::{Failure, on};
use crate::programs;

/// Nothing, where nobody has `dpkg-deb`.
pub(super) fn package(dist: &Path, files: &Path, version: &str) -> Result<Option<PathBuf>, Failure> {
    if programs::find("dpkg-deb").is_none() {
        println!("skip: no Debian package is made without dpkg-deb");
        return Ok(None);
    }
    let root = dist.join("debian");
    let document = root.join("usr/share/doc/whatif");
    put(&files.join("whatif"), &root.join("usr/bin"), "whatif", 0o755)?;
    for name in ["README.md", "CHANGELOG.md", "COMPATIBILITY.md", "SECURITY.md"] {
        put(&files.join(name), &document, name, 0o644)?;
    }
    let copyright = ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES.txt"].map(|name| fs::read_to_string(files.join(name)));
    let copyright = copyright.into_iter().collect::<Result<Vec<_>, _>>().map_err(on("read", files))?;
    fs::write(document.join("copyright"), copyright.join("\n\n")).map_err(on("write", &document))?;
    put(&files.join("completions/whatif.bash"), &root.join("usr/share/bash-completion/completions"), "whatif", 0o644)?;
    put(&files.join("completions/whatif.fish"), &root.join("usr/share/fish/vendor_completions.d"), "whatif.fish", 0o644)?;
    put(&files.join("completions/_whatif"), &root.join("usr/share/zsh/vendor-completions"), "_whatif", 0o644)?;
    let pages = files.join("man");
    for page in fs::read_dir(&pages).map_err(on("read", &pages))?.flatten() {
        put(&page.path(), &root.join("usr/share/man/man1"), &page.file_name().to_string_lossy(), 0o644)?;
    }
    let control = root.join("DEBIAN");
    fs::create_dir_all(&control).map_err(on("make", &control))?;
    fs::write(control.join("control"), description(version)).map_err(on("write", &control))?;
    let package = dist.join(format!("whatif_{version}_amd64.deb"));
    said(Command::new("dpkg-deb").args(["--build", "--root-owner-group"]).arg(&root).arg(&package).env("SOURCE_DATE_EPOCH", "0"))?;
    fs::remove_dir_all(&root).map_err(on("remove", &root))?;
    Ok(Some(package))
}

fn put(file: &Path, directory: &Path, name: &str, mode: u32) -> Result<(), Failure> {
    fs::create_dir_all(directory).map_err(on("make", directory))?;
    let there = directory.join(name);
    fs::copy(file, &there).map_err(on("copy", file))?;
    fs::set_permissions(&there, fs::Permissions::from_mode(mode)).map_err(on("change", &there))
}

fn description(version: &str) -> String {
    format!(
        "Package: whatif\nVersion: {version}\nArchitecture: amd64\nMaintainer: the whatif developers <whatif@localhost>\n\
         Section: devel\nPriority: optional\nRecommends: git\nDescription: run anything in a copy-on-write clone of the real environment\n \
         Shows what a command changed, and makes the approved part real in a\n crash-safe transaction that can be undone.\n"
    )
}
