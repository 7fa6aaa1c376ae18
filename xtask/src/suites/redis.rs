//! Redis' own tests, of Debian's sources, with the programs that Debian ships.

use std::fs;
use std::path::Path;

use super::compare::{Outcome, Outcomes};
use super::{Network, Suite, debian};
use crate::failure::{Failure, on};

pub(super) const SUITE: Suite =
    Suite { name: "redis", prepare: install, usual, all, command, read, network: Network::Loopback, programs: None, options: &[] };

/// Those that talk to the kernel: processes, sockets, files, restarts. The others are about commands.
const USUAL: [&str; 21] = [
    "unit/auth",
    "unit/protocol",
    "unit/expire",
    "unit/other",
    "unit/aofrw",
    "unit/limits",
    "unit/networking",
    "unit/oom-score-adj",
    "unit/shutdown",
    "unit/introspection",
    "unit/pubsub",
    "integration/aof",
    "integration/aof-multi-part",
    "integration/rdb",
    "integration/logging",
    "integration/shutdown",
    "integration/replication-3",
    "integration/psync2-master-restart",
    "integration/redis-cli",
    "integration/redis-benchmark",
    "integration/dismiss-mem",
];

const INSTALL: &str = r#"
packages redis-server redis-tools tcl
[ ! -e unpacked ] || exit 0
rm -rf redis-*/
sources redis "$(dpkg-query -W -f '${source:Version}' redis-server)"
chmod -R a+rX .
touch unpacked
"#;

fn install(directory: &Path) -> Result<(), Failure> {
    // Debian starts the server as soon as it is installed. Each test starts its own.
    debian::prepare(directory, INSTALL)
}

fn usual(_: &Path) -> Result<Vec<String>, Failure> {
    Ok(USUAL.map(str::to_owned).to_vec())
}

/// The list in the middle of the program that runs them.
fn all(directory: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(directory).map_err(on("read", directory))?.flatten();
    let program = entries.map(|entry| entry.path().join("tests/test_helper.tcl")).find(|path| path.is_file());
    let program = program.ok_or_else(|| Failure::new(format!("there are no sources of redis in {}", directory.display())))?;
    let text = fs::read_to_string(&program).map_err(on("read", &program))?;
    let list = text.split("set ::all_tests {").nth(1).and_then(|rest| rest.split('}').next()).unwrap_or_default();
    Ok(list.split_whitespace().map(str::to_owned).collect())
}

/// The tests write beside themselves, and start the programs where they would have been built.
fn command(directory: &Path, part: &str) -> Result<String, Failure> {
    Ok(format!(
        "cp -r '{}'/redis-*/tests '{0}'/redis-*/runtest . && mkdir src && \
         for p in server cli benchmark check-aof check-rdb sentinel; do ln -s /usr/bin/redis-$p src/redis-$p; done; \
         echo 'part {part}'; ./runtest --clients 1 --single {part}",
        directory.display()
    ))
}

fn read(report: &str) -> Outcomes {
    let part = report.lines().find_map(|line| line.strip_prefix("part ")).unwrap_or_default();
    let outcome = |line: &str| {
        let (kind, test) = line.strip_prefix('[')?.split_once("]: ")?;
        let outcome = match kind {
            "ok" => Outcome::Passed,
            "err" | "exception" | "timeout" => Outcome::Failed,
            "skip" | "ignore" => Outcome::Skipped,
            _ => return None,
        };
        Some((format!("{part} {}", name(test)).replace(": ", " "), outcome))
    };
    report.lines().filter_map(outcome).collect()
}

/// Without how long it took, and where it is.
fn name(test: &str) -> &str {
    let test = test.split(" in tests/").next().unwrap_or(test);
    match test.rsplit_once(" (") {
        Some((name, took)) if took.ends_with(" ms)") => name,
        _ => test,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report =
            "part unit/auth\n[ready]: 12\n[ok]: AUTH (a): fails (3 ms)\n[err]: it works in tests/unit/auth.tcl\n[ignore]: large\n";
        let expected = [
            ("unit/auth AUTH (a) fails", Outcome::Passed),
            ("unit/auth it works", Outcome::Failed),
            ("unit/auth large", Outcome::Skipped),
        ];
        assert_eq!(read(report), expected.map(|(name, outcome)| (name.to_owned(), outcome)).into());
    }
}
