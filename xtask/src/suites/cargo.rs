//! Crates that work with files, built and tested with their dependencies from the registry.

use std::path::Path;

use super::compare::{Outcome, Outcomes};
use super::{Network, Suite, debian};
use crate::failure::Failure;

pub(super) const SUITE: Suite = Suite {
    name: "cargo",
    prepare: fetch,
    usual,
    all: usual,
    command,
    read,
    network: Network::Registries,
    programs: Some("toolchain/bin"),
    options: &[],
};

/// The toolchain lies where an ordinary user cannot read it; linked here, it costs no space.
const FETCH: &str = r#"
[ ! -e fetched ] || exit 0
rm -rf toolchain package
cp -al "$(rustc --print sysroot)" toolchain 2>/dev/null || { rm -rf toolchain; cp -a "$(rustc --print sysroot)" toolchain; }
mkdir -p package/src
touch package/src/lib.rs
cat > package/Cargo.toml <<'END'
[package]
name = "fetched"
version = "0.0.0"
edition = "2021"
[dependencies]
tempfile = "=3.20.0"
walkdir = "=2.5.0"
[workspace]
END
(cd package && cargo vendor -q vendor >/dev/null)
chmod -R a+rX package
touch fetched
"#;

fn fetch(directory: &Path) -> Result<(), Failure> {
    debian::prepare(directory, FETCH)
}

fn usual(_: &Path) -> Result<Vec<String>, Failure> {
    Ok(["tempfile", "walkdir"].map(str::to_owned).to_vec())
}

fn command(directory: &Path, part: &str) -> Result<String, Failure> {
    let directory = directory.display();
    Ok(format!(
        "cp -r '{directory}/package/vendor/{part}' crate && cd crate
         echo 'part {part}'; cargo test 2>&1"
    ))
}

/// As Rust's test harness prints it.
fn read(report: &str) -> Outcomes {
    let part = report.lines().find_map(|line| line.strip_prefix("part ")).unwrap_or_default();
    let outcome = |line: &str| {
        let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        let outcome = match outcome {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            _ if outcome.starts_with("ignored") => Outcome::Skipped,
            _ => return None,
        };
        Some((format!("{part} {name}").replace(": ", " "), outcome))
    };
    report.lines().filter_map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "part p\nrunning 4 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d ... ignored, slow\ntest result: FAILED. 1 passed\n";
        let expected = [("p a::b", Outcome::Passed), ("p c", Outcome::Failed), ("p d", Outcome::Skipped)];
        assert_eq!(read(report), expected.map(|(name, outcome)| (name.to_owned(), outcome)).into());
    }
}
