//! Builds the keeper's program with a cargo of its own, so that it can be carried inside of others.
//!
//! It has a profile of its own (`profile.keeper`) and a target directory that all who carry it share: it is built once, whatever
//! else is built. Statically, where the C library allows it: then it needs nothing of the root it is started in.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const PACKAGE: &str = "whatif-inside";
const PROGRAM: &str = "whatif-keeper";
/// All that it is made of, below `crates`.
const MADE_OF: [&str; 8] = ["inside", "keeper", "layers", "cgroup", "overlay", "types", "netpolicy", "sys"];

const STATIC: &str = "-Ctarget-feature=+crt-static";

fn main() {
    let crates = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("..");
    let workspace = crates.join("..");
    for name in MADE_OF {
        println!("cargo:rerun-if-changed={}", crates.join(name).join("src").display());
        println!("cargo:rerun-if-changed={}", crates.join(name).join("Cargo.toml").display());
    }
    for file in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", workspace.join(file).display());
    }
    println!("cargo:rerun-if-changed=build.rs");

    let out = PathBuf::from(variable("OUT_DIR"));
    let flags: &[&str] = if has_static_c_library() { &[STATIC] } else { &[] };
    if flags.is_empty() {
        println!("cargo:warning=no static C library found: the keeper is linked dynamically and starts more slowly");
    }
    let built = build(&workspace, &shared_target(&out), flags);
    let program = fs::read(&built).expect("it was built");
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    println!("cargo:rustc-env=WHATIF_KEEPER_VERSION={:016x}", hasher.finish());
    fs::write(out.join(PROGRAM), program).expect("the directory is ours");
}

/// Where it was built.
fn build(workspace: &Path, target: &Path, flags: &[&str]) -> PathBuf {
    let platform = variable("TARGET");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.current_dir(workspace).args(["build", "--quiet", "--package", PACKAGE, "--bin", PROGRAM]);
    // With a platform of its own the flags are for the program alone, and not for what is run to build it.
    cargo.args(["--profile", "keeper", "--target", &platform, "--target-dir"]).arg(target);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    // Whoever checks or lints what carries it wants to run it all the same.
    for wrapper in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(wrapper);
    }
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "the keeper's program cannot be built");
    target.join(platform).join("keeper").join(PROGRAM)
}

fn has_static_c_library() -> bool {
    let told = Command::new("cc").arg("-print-file-name=libc.a").output();
    // Without one, the name comes back as it was asked for.
    told.is_ok_and(|told| Path::new(String::from_utf8_lossy(&told.stdout).trim()).is_absolute())
}

/// `<target>/keeper` of `<target>/<profile>/build/<this>/out`.
fn shared_target(out: &Path) -> PathBuf {
    let target = out.ancestors().nth(4).expect("cargo puts it there");
    target.join("keeper")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
