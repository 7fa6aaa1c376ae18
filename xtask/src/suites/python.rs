//! `CPython`'s tests of what it asks of the system, as Debian packages them.

use std::path::Path;
use std::process::Command;

use super::compare::{Outcome, Outcomes};
use super::{Network, Suite, debian};
use crate::failure::{Failure, on};

pub(super) const SUITE: Suite =
    Suite { name: "python", prepare: install, usual, all, command, read, network: Network::Loopback, programs: None, options: &[] };

const PYTHON: &str = "/usr/bin/python3.11";

/// Those that talk to the kernel. The others compute, need a terminal, or need the internet.
const USUAL: [&str; 36] = [
    "test_asyncio.test_subprocess",
    "test_dbm",
    "test_epoll",
    "test_eintr",
    "test_fcntl",
    "test_file",
    "test_fileio",
    "test_filecmp",
    "test_fileinput",
    "test_fork1",
    "test_getpass",
    "test_glob",
    "test_grp",
    "test_io",
    "test_largefile",
    "test_mailbox",
    "test_mmap",
    "test_openpty",
    "test_os",
    "test_pathlib",
    "test_poll",
    "test_popen",
    "test_posix",
    "test_pty",
    "test_pwd",
    "test_resource",
    "test_select",
    "test_selectors",
    "test_shutil",
    "test_signal",
    "test_stat",
    "test_subprocess",
    "test_tarfile",
    "test_tempfile",
    "test_wait4",
    "test_zipfile",
];

fn install(directory: &Path) -> Result<(), Failure> {
    debian::prepare(directory, "packages libpython3.11-testsuite")
}

fn usual(_: &Path) -> Result<Vec<String>, Failure> {
    Ok(USUAL.map(str::to_owned).to_vec())
}

/// Everything that needs no internet and no terminal.
fn all(_: &Path) -> Result<Vec<String>, Failure> {
    let mut list = Command::new(PYTHON);
    let output = list.args(["-m", "test", "--list-tests"]).output().map_err(on("run", Path::new(PYTHON)))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with("test_")).map(str::to_owned).collect())
}

fn command(_: &Path, part: &str) -> Result<String, Failure> {
    Ok(format!("{PYTHON} -m test --timeout 300 --junit-xml results.xml {part} >/dev/null; echo \"part {part}\"; cat results.xml"))
}

/// The report is JUnit's, one line long, after the name of the part.
fn read(report: &str) -> Outcomes {
    let part = report.lines().find_map(|line| line.strip_prefix("part ")).unwrap_or_default();
    let cases = report.split("<testcase ").skip(1).map(|case| case.split("</testcase>").next().unwrap_or_default());
    let named = cases.filter_map(|case| Some((case.split_once("name=\"")?.1.split('"').next()?, case)));
    let outcome = |case: &str| match case {
        _ if case.contains("<failure") || case.contains("<error") => Outcome::Failed,
        _ if case.contains("<skipped") || case.contains("result=\"skipped\"") => Outcome::Skipped,
        _ => Outcome::Passed,
    };
    named.map(|(name, case)| (format!("{part}: {name}").replace(": ", " "), outcome(case))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "part test_os\n<testsuites><testcase name=\"a.b\" status=\"run\"></testcase><testcase name=\"c\"><skipped>no</skipped></testcase>\
                      <testcase name=\"d\"><failure>x</failure></testcase></testsuites>";
        let outcomes = read(report);
        let of = |name: &str| outcomes.get(&format!("test_os {name}")).copied();
        assert_eq!([of("a.b"), of("c"), of("d")], [Some(Outcome::Passed), Some(Outcome::Skipped), Some(Outcome::Failed)]);
    }
}
