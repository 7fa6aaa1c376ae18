//! A network of its own for each test, name servers in it, and the host's files as the test likes them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "not every test file needs all of it")]

pub mod dnsmasq;
pub mod fake;
pub mod inside;
pub mod message;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::UnshareFlags;
use whatif_supervisor::resolver::{Files, Resolver};

/// Runs a test in a fresh network namespace, where port 53 of all loopback addresses is free and nothing else is near. `name` is
/// that of the test: an ordinary user needs a user namespace first, and has to start anew in it.
pub fn in_namespace<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F + Send) {
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| {
            if whatif_sys::namespaces::unshare(UnshareFlags::NEWNET).is_err() {
                return again_in_user_namespace(name);
            }
            whatif_sys::loopback::bring_up().unwrap();
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap().block_on(test());
        });
        if let Err(panic) = alone.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn again_in_user_namespace(name: &str) {
    assert!(!rustix::process::geteuid().is_root(), "root may make a network namespace");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--"]).arg(std::env::current_exe().unwrap());
    let output = command.args([name, "--exact", "--nocapture"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("1 passed"), "{name} was not run: {told}");
}

pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "would be skipped, which CI does not allow: {reason}");
    // Not `eprintln!`: the test runner would swallow it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

/// Waits for what has to become true.
pub async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_true() {
        assert!(Instant::now() < deadline, "not after 10 seconds: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A directory that goes with the test.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("whatif-names-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        // As careful programs do it: never half a file.
        std::fs::write(self.path("new"), text).unwrap();
        std::fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    pub fn resolver(&self, hosts: &str, resolv_conf: &str) -> Resolver {
        self.write("hosts", hosts);
        self.write("resolv.conf", resolv_conf);
        Resolver::new(Files { hosts: self.path("hosts"), resolv_conf: self.path("resolv.conf") })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
