//! How much a sandbox may use, and for how long: what `run` and `new` have in common.

use whatif_types::limits::{Cpus, Then};
use whatif_types::{Limits, Size, Span};

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitOptions {
    /// Number of processors it may use, such as 0.5 or 2
    #[arg(long, value_name = "NUMBER")]
    cpus: Option<Cpus>,
    /// Memory for the whole sandbox, such as 512M; beyond it, a process is killed (exit code 137)
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Number of processes and threads
    #[arg(long, value_name = "NUMBER")]
    pids: Option<u64>,
    /// Disk space for its changes, such as 2G
    #[arg(long, value_name = "SIZE")]
    disk: Option<Size>,
    /// Number of files it may create or change
    #[arg(long, value_name = "NUMBER")]
    inodes: Option<u64>,
    /// End each command after this time (30s, 5m, 2h), with exit code 124
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// Stop the sandbox after this time (30m, 2h); its changes are kept, unless --then says otherwise
    #[arg(long, value_name = "TIME")]
    ttl: Option<Span>,
    /// Stop the sandbox when the time of --ttl is up (the default), or remove it with its changes
    #[arg(long, value_name = "stop|remove", requires = "ttl")]
    then: Option<Then>,
    /// Stop the sandbox when it was idle for this long; the next command starts it again
    #[arg(long, value_name = "TIME")]
    idle: Option<Span>,
    /// A set of limits: small, medium, large, a profile from the configuration, or none
    #[arg(long = "limits", value_name = "NAME")]
    preset: Option<String>,
    /// Fail if this machine cannot enforce a limit strictly
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
            then: self.then,
            idle: self.idle,
        }
    }
}
