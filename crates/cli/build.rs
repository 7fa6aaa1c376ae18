//! Links the release binaries (of the CLI and of the daemon) statically where the C library allows it, and in an order where the linker can.
//!
//! Why: without a dynamic loader it starts 0.4 ms sooner, and with what short commands need in one place it has a third of the page
//! faults. `-C target-feature=+crt-static` cannot be used for it: as a
//! workspace-wide flag it also hits procedural macros, which cannot be static. So the shared C libraries rustc asks
//! for are answered, for this one binary, by linker scripts that name their static archives.
//! On a system without static archives (glibc-static is a separate package on some) the binary is linked as usual.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const LIBRARIES: [(&str, &str); 7] = [
    ("gcc_s", "libgcc_eh.a"),
    ("c", "libc.a"),
    ("m", "libm.a"),
    ("util", "libutil.a"),
    ("rt", "librt.a"),
    ("pthread", "libpthread.a"),
    ("dl", "libdl.a"),
];

fn main() {
    // From both packages that it builds for.
    println!("cargo:rerun-if-changed=../cli/build.rs");
    println!("cargo:rerun-if-env-changed=WHATIF_LINK_DYNAMIC");
    let release = env::var("PROFILE").as_deref() == Ok("release");
    let gnu_linux = env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu");
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    if !(release && gnu_linux && native) || env::var_os("WHATIF_LINK_DYNAMIC").is_some() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    match write_linker_scripts(&out) {
        Some(()) => {
            println!("cargo:rustc-link-arg-bins=-L{}", out.display());
            // At a fixed address: a program that can be anywhere writes to two hundred pages of its own constants before it begins.
            println!("cargo:rustc-link-arg-bins=-static");
            println!("cargo:rustc-link-arg-bins=-no-pie");
            put_in_order(&out);
        }
        None => println!("cargo:warning=no static C library found: the program is linked dynamically and starts more slowly"),
    }
}

/// Which functions short commands reach, and when: `cargo xtask order` writes it. Not every linker can be told.
fn put_in_order(out: &Path) {
    let order = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("functions.order");
    // A daemon starts once.
    if !order.exists() {
        return;
    }
    println!("cargo:rerun-if-changed={}", order.display());
    let told = [format!("-Wl,--symbol-ordering-file={}", order.display()), "-Wl,--no-warn-symbol-ordering".to_owned()];
    if is_understood(&told, out) {
        told.iter().for_each(|argument| println!("cargo:rustc-link-arg-bins={argument}"));
    }
}

/// Whether the linker that will be used takes these arguments: tried out.
fn is_understood(arguments: &[String], out: &Path) -> bool {
    let source = out.join("empty.rs");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.arg(&source).arg("-o").arg(out.join("empty")).args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    rustc.args(env::var("RUSTC_LINKER").ok().map(|linker| format!("-Clinker={linker}")));
    rustc.args(arguments.iter().map(|argument| format!("-Clink-arg={argument}")));
    fs::write(&source, "fn main() {}").is_ok() && rustc.output().is_ok_and(|tried| tried.status.success())
}

/// One `lib<name>.so` text file for each library, which the linker reads as a script naming the archive.
fn write_linker_scripts(out: &Path) -> Option<()> {
    let unwinder = static_archive("libgcc_eh.a")?;
    for (name, archive) in LIBRARIES {
        let archive = static_archive(archive)?;
        let script = format!("GROUP({} {})\n", archive.display(), unwinder.display());
        fs::write(out.join(format!("lib{name}.so")), script).ok()?;
    }
    Some(())
}

fn static_archive(file: &str) -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name={file}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path).filter(|p| p.exists())
}
