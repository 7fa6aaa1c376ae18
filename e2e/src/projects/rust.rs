//! A library whose dependency is vendored in two versions, as `cargo vendor` would.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Project;
use crate::World;

const MANIFEST: &str = "[package]\nname = \"headline\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nwords = \"1\"\n";
const VENDORED: &str =
    "[source.crates-io]\nreplace-with = \"vendored\"\n\n[source.vendored]\ndirectory = \"vendor\"\n\n[net]\noffline = true\n";

const BEFORE: &str = "pub fn length(headline: &str) -> usize {\n    words::count(headline)\n}\n";
const AFTER: &str = "pub fn length(headline: &str) -> usize {\n    words::count(headline)\n}\n\npub fn shout(headline: &str) -> String {\n    headline.to_uppercase()\n}\n";
const TESTS: &str = r#"#[test]
fn words_are_counted() {
    assert_eq!(headline::length("what if"), 2);
}

#[test]
fn wide_gaps_are_no_words() {
    assert_eq!(headline::length("what  if"), 2);
}

#[test]
fn a_headline_can_be_shouted() {
    assert_eq!(headline::shout("what if"), "WHAT IF");
}
"#;

/// Looks reasonable, and is not what is wrong.
const TRIM: &str = "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,5 +1,5 @@\n pub fn length(headline: &str) -> usize {\n-    words::count(headline)\n+    words::count(headline.trim())\n }\n \n pub fn shout(headline: &str) -> String {\n";

/// The fault is in the dependency; the newer version does not have it. Nothing if there is no toolchain for this identity.
#[must_use]
pub fn rust(w: &World) -> Option<Project> {
    let path = toolchain(w)?;
    w.write("Cargo.toml", MANIFEST);
    w.write(".cargo/config.toml", VENDORED);
    w.write(".gitignore", "target\n");
    vendor(w, "1.0.0", "pub fn count(text: &str) -> usize {\n    text.split(' ').count()\n}\n");
    w.write("src/lib.rs", BEFORE);
    w.write("tests/headline.rs", TESTS);
    w.program("/usr/bin/env").args(["cargo", "generate-lockfile", "--offline"]).env("PATH", &path).go().ok();
    vendor(w, "1.1.0", "pub fn count(text: &str) -> usize {\n    text.split_whitespace().count()\n}\n");
    w.commit("Count words");
    w.write("src/lib.rs", AFTER);
    w.commit("Shout");
    Some(Project {
        test: "cargo test --offline --quiet",
        dependency: "cargo update --offline --quiet --package words --precise 1.1.0",
        patch: w.write(w.dir.join("trim.patch"), TRIM),
        protect: None,
        winner: "dependency",
        tests: 3,
        path: Some(path),
    })
}

fn vendor(w: &World, version: &str, code: &str) {
    let directory = format!("vendor/words-{version}");
    let manifest = format!("[package]\nname = \"words\"\nversion = \"{version}\"\nedition = \"2021\"\n");
    // A lock file wants the checksum of the package; without any of files, none is compared.
    let sum = format!("{:0>64}", version.replace('.', ""));
    w.write(format!("{directory}/Cargo.toml"), manifest);
    w.write(format!("{directory}/src/lib.rs"), code);
    w.write(format!("{directory}/.cargo-checksum.json"), format!("{{\"files\":{{}},\"package\":\"{sum}\"}}"));
}

/// A cargo that this identity can use, in a search path. A toolchain in root's home is closed to others; they get one of their
/// own that shares its files.
fn toolchain(w: &World) -> Option<String> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    let is_usable = |root: &Path| {
        let bin = root.join("bin").display().to_string();
        w.outside(&format!("test -x {bin}/cargo && test -x {bin}/rustc")).code == 0
    };
    let own = w.dir.join("toolchain");
    if !is_usable(&sysroot) {
        share(&sysroot, &own)?;
    }
    let root = if is_usable(&sysroot) { sysroot } else { own };
    is_usable(&root).then(|| format!("{}/bin:/usr/local/bin:/usr/bin:/bin", root.display()))
}

/// Links where both are on one file system, copies where not.
fn share(sysroot: &Path, own: &Path) -> Option<()> {
    std::fs::create_dir_all(own).ok()?;
    let copy = |how: &str, from: &str, to: PathBuf| {
        Command::new("/usr/bin/cp")
            .args([how, "-T", "--"])
            .arg(sysroot.join(from))
            .arg(to)
            .status()
            .is_ok_and(|status| status.success())
    };
    for from in ["bin", "lib"] {
        (copy("-al", from, own.join(from)) || copy("-a", from, own.join(from))).then_some(())?;
    }
    Some(())
}
