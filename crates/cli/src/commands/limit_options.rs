//! How much a sandbox may use, and for how long: what `run` and `new` have in common.

use whatif_types::limits::Cpus;
use whatif_types::{Limits, Size, Span};

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitOptions {
    /// Processors' worth of time it may use, as in 0.5 or 2
    #[arg(long, value_name = "NUMBER")]
    cpus: Option<Cpus>,
    /// Memory of everything in it together, as in 512M; beyond it a process is killed (exit code 137)
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Processes and threads
    #[arg(long, value_name = "NUMBER")]
    pids: Option<u64>,
    /// What its changes may take on the disk, as in 2G
    #[arg(long, value_name = "SIZE")]
    disk: Option<Size>,
    /// How many files it may make or change
    #[arg(long, value_name = "NUMBER")]
    inodes: Option<u64>,
    /// End each command after this time (30s, 5m, 2h); the exit code is 124 then
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// End the sandbox after this time (30m, 2h); its changes are kept
    #[arg(long, value_name = "TIME")]
    ttl: Option<Span>,
    /// Stop the sandbox when no command ran in it for this time; the next one starts it again
    #[arg(long, value_name = "TIME")]
    idle: Option<Span>,
    /// Limits by name: small, medium, large, a profile of the configuration, or none
    #[arg(long = "limits", value_name = "NAME")]
    preset: Option<String>,
    /// Refuse to start if a limit cannot be enforced strictly on this machine
    #[arg(long)]
    require_limits: bool,
}

impl LimitOptions {
    pub fn timeout(&self) -> Option<Span> {
        self.timeout
    }

    #[must_use]
    pub fn into_limits(self) -> Limits {
        Limits {
            preset: self.preset,
            require: self.require_limits,
            cpus: self.cpus,
            memory: self.memory,
            pids: self.pids,
            disk: self.disk,
            inodes: self.inodes,
            timeout: self.timeout,
            ttl: self.ttl,
            idle: self.idle,
        }
    }
}
