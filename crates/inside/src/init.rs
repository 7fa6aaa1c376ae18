//! The keeper as the init of a root in which there is nothing else: what the program does as `init`, as PID 1 of a machine or a
//! container of its own.
//!
//! It is spoken to over a stream, which is its standard input and output. The wall around it is whoever started it: nothing is
//! confined here.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Dev, FileType, Mode, OFlags, makedev, mkdirat, mknodat, open, symlinkat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use whatif_keeper::server::{self, Parts};
use whatif_keeper::transport::Stream;
use whatif_sys::absence;
use whatif_types::boot::KeeperLimits;

use crate::error::KeeperError;

/// Name, major and minor number of the devices that every program may expect.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// Serves until the stream ends or somebody says stop. What goes wrong before is said on standard error, which is the console of a
/// machine.
#[must_use]
pub fn live(input: OwnedFd, output: OwnedFd) -> bool {
    match serve(input, output) {
        Ok(()) => true,
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            // There is nobody else to tell.
            let _ = rustix::io::write(rustix::stdio::stderr(), format!("whatif-keeper: {error}{cause}\n").as_bytes());
            false
        }
    }
}

fn serve(input: OwnedFd, output: OwnedFd) -> Result<(), KeeperError> {
    // 1. Ending everything is a signal to all processes, which is safe only for the first of a PID namespace.
    if !rustix::process::getpid().is_init() {
        return Err(KeeperError::NotInit);
    }
    // 2. Ended children are noticed from the very first on.
    let child_signals = whatif_sys::signals::as_descriptor(&[rustix::process::Signal::CHILD.as_raw()])?;
    let _ = rustix::thread::set_name(c"whatif-keeper");
    // 3. Commands get standard streams of their own, so the stream must not be where those are.
    let [input, output] = [away(&input)?, away(&output)?];
    // 4. What the kernel has to offer to programs.
    furnish()?;
    // 5. Serve.
    let near_head = open("/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)?;
    server::serve(Parts {
        foreign_proc: None,
        transport: Box::new(Stream::new(input, output)?),
        birth: None,
        child_signals,
        environment: Vec::new(),
        limits: KeeperLimits::default(),
        shares_uid: false,
        group: None,
        near_head,
        head: None,
        sockets: None,
        farewell: None,
        network: Vec::new(),
        overlays: Vec::new(),
    })?;
    Ok(())
}

fn away(fd: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
}

/// `/proc` and `/dev`, as far as whoever started us has not made them.
fn furnish() -> Result<(), KeeperError> {
    let step = |step: &'static str| move |source: io::Error| KeeperError::Furnish { step, source };
    let nothing = MountFlags::NOSUID | MountFlags::NOEXEC;
    if !is_there("/proc/self").map_err(step("look for /proc"))? {
        made(mkdirat(CWD, "/proc", Mode::from_raw_mode(0o555))).map_err(step("make /proc"))?;
        mount("proc", "/proc", "proc", nothing | MountFlags::NODEV, None).map_err(|e| step("mount /proc")(e.into()))?;
    }
    if !is_there("/dev/null").map_err(step("look for /dev/null"))? {
        made(mkdirat(CWD, "/dev", Mode::from_raw_mode(0o755))).map_err(step("make /dev"))?;
        mount("tmpfs", "/dev", "tmpfs", nothing, Some(c"mode=755")).map_err(|e| step("mount /dev")(e.into()))?;
        for (name, major, minor) in DEVICES {
            device(name, makedev(major, minor)).map_err(step("make devices"))?;
        }
    }
    if !is_there("/dev/pts/ptmx").map_err(step("look for /dev/pts"))? {
        made(mkdirat(CWD, "/dev/pts", Mode::from_raw_mode(0o755))).map_err(step("make /dev/pts"))?;
        mount("devpts", "/dev/pts", "devpts", nothing, Some(c"newinstance,mode=620,ptmxmode=666"))
            .map_err(|e| step("mount /dev/pts")(e.into()))?;
    }
    made(symlinkat("pts/ptmx", CWD, "/dev/ptmx")).map_err(step("make /dev/ptmx"))
}

fn is_there(path: &str) -> io::Result<bool> {
    absence::exists(Path::new(path))
}

fn device(name: &str, number: Dev) -> io::Result<()> {
    let path = format!("/dev/{name}");
    made(mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), number))?;
    Ok(rustix::fs::chmod(&path, Mode::from_raw_mode(0o666))?)
}

/// What is there already is as good.
fn made(done: rustix::io::Result<()>) -> io::Result<()> {
    match done {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
