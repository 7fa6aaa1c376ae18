//! The network namespace that stands for the world.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::super::scratch::Scratch;
use super::passed::{self, Group};
use super::{names, servers};
use crate::failure::{Failure, on};
use crate::programs;

/// An address that a rule names.
pub const ADDRESS: &str = "203.0.113.5";
/// Public as far as rules can tell, and announced by nobody: where names may lead.
pub const PUBLIC: &str = "25.64.113.5";

/// Says to the command that it is in there.
const MARK: &str = "WHATIF_BENCH_OUTSIDE";
pub const AS_USER: &str = "user";
const AS_SELF: &str = "self";

/// Ports of connections that ended stay taken for a minute, and tens of thousands will: looking for a free one would be most of what
/// is measured.
///
/// The steps in brackets are for peers, which want to see a way out and need a device that only root may have here. They may fail.
const ENTER: &str = r#"
set -e
ip link set lo up
ip address add 203.0.113.5 dev lo
ip address add 25.64.113.5 dev lo
echo '1024 65535' > /proc/sys/net/ipv4/ip_local_port_range
echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse
mount -t tmpfs tmpfs /mnt
echo 'nameserver 127.0.0.53' > /mnt/resolv.conf
echo '127.0.0.1 localhost' > /mnt/hosts
mount --bind /mnt/resolv.conf /etc/resolv.conf
mount --bind /mnt/hosts /etc/hosts
{
    ip link add up0 type veth peer name up1 && ip address add 198.51.100.1/24 dev up0 &&
    ip link set up0 up && ip link set up1 up && ip route add default via 198.51.100.2
    mknod /mnt/tun c 10 200 && chmod 666 /mnt/tun && mount --bind /mnt/tun /dev/net/tun
} > /dev/null 2>&1 || true
exec "$@"
"#;
const INTERFACES: [&str; 3] = ["lo", "up0", "up1"];

#[derive(Debug)]
pub struct Outside {
    pub ports: servers::Ports,
}

/// Starts this program again, in there, and reads what it has measured.
pub fn started_there(scratch: &Scratch, effort: &str) -> Result<Vec<Group>, Failure> {
    let missing = |name: &&str| programs::find(name).is_none();
    if let Some(name) = ["unshare", "ip"].iter().find(|name| missing(name)) {
        let skipped = vec![("connections".to_owned(), format!("{name} is not installed"))];
        return Ok(vec![Group { title: "network".to_owned(), figures: Vec::new(), skipped }]);
    }
    let program = own_program()?;
    let user = if scratch.uid() == 0 { AS_SELF } else { AS_USER };
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", ENTER, "outside"]);
    command.arg(program).arg("net-outside").arg(scratch.whatif(&[]).get_program()).args([user, effort]);
    command.env(MARK, "1").stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| Failure::new(format!("unshare failed: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new(format!("measuring in a network namespace failed: {}", output.status)));
    }
    passed::read(&output.stdout)
}

pub fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::new(format!("failed to find this program: {error}")))
}

impl Outside {
    pub fn open() -> Result<Self, Failure> {
        // Anywhere else the addresses above would be those of real machines.
        let path = std::path::Path::new("/proc/self/net/dev");
        let devices = std::fs::read_to_string(path).map_err(on("read", path))?;
        let is_known = |line: &str| line.split_once(':').is_some_and(|(name, _)| INTERFACES.contains(&name.trim()));
        if std::env::var_os(MARK).is_none() || !devices.lines().skip(2).all(is_known) {
            return Err(Failure::new("this is not a network namespace of bench"));
        }
        names::start()?;
        Ok(Self { ports: servers::start()? })
    }

    pub fn echo(&self) -> String {
        format!("{ADDRESS}:{}", self.ports.echo)
    }

    pub fn stream(&self) -> String {
        format!("{ADDRESS}:{}", self.ports.stream)
    }
}
