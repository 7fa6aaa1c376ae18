//! Running the tests, outside and inside, in directories of their own.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Network, Suite};
use crate::failure::{Failure, on};

/// Whoever the tests are run by with `--user`.
const ORDINARY: u32 = 65534;
/// Tests that hang have failed.
const LONGEST: Duration = Duration::from_secs(3600);
/// Where a machine's certificates and proxies are, for the package managers.
const WAY_OUT: [&str; 7] =
    ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO", "http_proxy", "https_proxy", "no_proxy"];

/// What is run: one part of a suite.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub suite: &'a Suite,
    /// Where the suite is installed.
    pub directory: &'a Path,
    pub command: &'a str,
}

/// A home of its own for whoever runs the tests.
#[derive(Debug)]
pub(super) struct Runner {
    binary: PathBuf,
    directory: PathBuf,
    as_user: bool,
    at_most: Duration,
    runs: AtomicU32,
}

impl Runner {
    pub fn make(binary: PathBuf, as_user: bool, at_most: Option<Duration>) -> Result<Self, Failure> {
        // Not in /tmp: a sandbox has a /tmp of its own.
        let directory = PathBuf::from(format!("/var/tmp/whatif-suites-{}", std::process::id()));
        let runner = Self { binary, directory, as_user, at_most: at_most.unwrap_or(LONGEST), runs: AtomicU32::new(0) };
        runner.make_directory(&runner.directory)?;
        for name in ["home", "state"] {
            runner.make_directory(&runner.directory.join(name))?;
        }
        Ok(runner)
    }

    fn make_directory(&self, path: &Path) -> Result<(), Failure> {
        fs::create_dir(path).map_err(on("make", path))?;
        if self.as_user {
            chown(path, Some(ORDINARY), Some(ORDINARY)).map_err(on("give away", path))?;
        }
        Ok(())
    }

    /// What it prints; how it ends is in what it prints. None when it takes longer than asked for.
    pub fn outside(&self, part: Part<'_>) -> Result<Option<String>, Failure> {
        self.run(part, self.at_most, &["/bin/sh", "-c", part.command])
    }

    pub fn inside(&self, part: Part<'_>) -> Result<Option<String>, Failure> {
        let binary = self.binary.to_string_lossy();
        let mut call = vec![binary.as_ref(), "run", "--rm", "--quiet"];
        call.extend(match part.suite.network {
            Network::Loopback => ["--net", "none"],
            Network::Registries => ["--net", "registries"],
        });
        call.extend(part.suite.options);
        call.extend(["--", "/bin/sh", "-c", part.command]);
        self.run(part, LONGEST, &call)
    }

    fn run(&self, part: Part<'_>, at_most: Duration, command: &[&str]) -> Result<Option<String>, Failure> {
        let work = self.directory.join(format!("work-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        self.make_directory(&work)?;
        let mut call = Command::new("timeout");
        call.args(["--kill-after=30", &at_most.as_secs().to_string()]);
        // Tests that keep to this machine disturb no server on it, and send nothing. Only root can make them such a place.
        if part.suite.network == Network::Loopback && rustix::process::geteuid().is_root() {
            call.args(["unshare", "--net", "/bin/sh", "-c", r#"ip link set lo up && exec "$@""#, "sh"]);
        }
        if self.as_user {
            call.args(["setpriv", &format!("--reuid={ORDINARY}"), &format!("--regid={ORDINARY}"), "--clear-groups", "--"]);
        }
        call.args(command).current_dir(&work).stdin(Stdio::null()).stderr(Stdio::null()).env_clear();
        // Programs of the suite itself come first: also for whatif, which asks them for their registries.
        let programs =
            part.suite.programs.map(|programs| format!("{}:", part.directory.join(programs).display())).unwrap_or_default();
        call.env("PATH", format!("{programs}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")).env("LANG", "C.UTF-8");
        call.env("HOME", self.directory.join("home")).env("WHATIF_HOME", self.directory.join("state"));
        call.envs(WAY_OUT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        let output = call.output().map_err(on("start", Path::new("the tests")))?;
        // A program that a test left running may still write there. What cannot be removed now is removed in the end.
        let _ = fs::remove_dir_all(&work);
        let took_too_long = matches!(output.status.code(), Some(124 | 137)) && at_most < LONGEST;
        Ok((!took_too_long).then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // What cannot be removed lies in /var/tmp, where it is cleaned up in time.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
