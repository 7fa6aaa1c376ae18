//! The devices that a sandbox was granted: which they are now, and what they mean.
//!
//! A sandbox has no device of the machine unless the user names it (`--device`, `--gpu`). Some are refused even then: with them a
//! sandbox would be none.

mod nvidia;
mod refused;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use whatif_sys::absence::MeansAbsent;
use whatif_types::boot::Device;
use whatif_types::grants::{Allowed, Grants};
use whatif_types::{Explain, Kind, Remedy, remedy};

const DEV: &str = "/dev";
/// Every sandbox has these.
const USUAL: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("{} is not below /dev", path.display())]
    NotInDev { path: PathBuf },
    #[error("there is no device {}", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a device", path.display())]
    NotADevice { path: PathBuf },
    #[error("{} is not passed into a sandbox: {because}", path.display())]
    Refused { path: PathBuf, because: &'static str },
    #[error("you cannot open {} yourself ({because})", path.display())]
    Closed { path: PathBuf, because: String },
    #[error("cannot examine {}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("no NVIDIA driver was found; looked for {looked_for}{}", hint.as_deref().unwrap_or_default())]
    NoDriver { looked_for: String, hint: Option<String> },
    #[error("there is no card {number}; there {}", present(found))]
    NoCard { number: u32, found: Vec<u32> },
}

fn present(found: &[u32]) -> String {
    let names: Vec<String> = found.iter().map(|number| format!("/dev/nvidia{number}")).collect();
    if names.len() == 1 { format!("is {}", names[0]) } else { format!("are {}", names.join(", ")) }
}

impl Explain for DeviceError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoDriver { .. } | Self::NoCard { .. } => "no_gpu",
            Self::Unreadable { .. } => "io_error",
            _ => "bad_device",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::NotInDev { .. } | Self::NotADevice { .. } | Self::Refused { .. } => Kind::Invalid,
            Self::Missing { .. } | Self::NoDriver { .. } | Self::NoCard { .. } => Kind::NotFound,
            Self::Closed { .. } => Kind::Invalid,
            Self::Unreadable { source, .. } => whatif_types::explain::kind_of(source),
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        match self {
            Self::NotInDev { .. } | Self::Missing { .. } | Self::NotADevice { .. } => {
                vec![remedy!["name a character device below /dev"]]
            }
            Self::NoDriver { .. } => vec![remedy!["outside, 'nvidia-smi' says whether a driver works here"]],
            _ => Vec::new(),
        }
    }
}

/// The devices to show inside, as they are now.
pub(crate) fn granted(grants: &Grants) -> Result<Vec<Device>, DeviceError> {
    let mut devices: Vec<Device> = Vec::new();
    for path in &grants.devices {
        for device in named(path)? {
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
    }
    if let Some(gpu) = &grants.gpu {
        for path in nvidia::nodes(Path::new(DEV), gpu)? {
            match examined(&path) {
                // Parts of cards and channels between machines can be for some users only.
                Err(DeviceError::Closed { .. }) if !nvidia::is_needed(&path) => {}
                other => {
                    let device = other?;
                    if !devices.contains(&device) {
                        devices.push(device);
                    }
                }
            }
        }
    }
    devices.retain(|device| !USUAL.iter().any(|usual| device.path == Path::new(usual)));
    Ok(devices)
}

/// Names that stand for something else in each process or sandbox: a sandbox has its own.
const OWN: [(&str, &str); 8] = [
    ("fd", "it stands for an open file of whoever asks; name the device itself"),
    ("stdin", "it stands for the standard input of whoever asks; name the device itself"),
    ("stdout", "it stands for the standard output of whoever asks; name the device itself"),
    ("stderr", "it stands for the standard error of whoever asks; name the device itself"),
    ("ptmx", "a sandbox has terminals of its own"),
    ("pts", "a sandbox has terminals of its own"),
    ("shm", "a sandbox has shared memory of its own"),
    ("mqueue", "a sandbox has message queues of its own"),
];

/// A device by the name that the user gave it, and by its own if that is a link.
fn named(path: &Path) -> Result<Vec<Device>, DeviceError> {
    let is_plain = path.is_absolute() && !path.components().any(|part| matches!(part, Component::ParentDir));
    let not_in_dev = || DeviceError::NotInDev { path: path.to_owned() };
    if !is_plain || path == Path::new(DEV) || !path.starts_with(DEV) {
        return Err(not_in_dev());
    }
    let own = path.components().nth(2).and_then(|name| OWN.iter().find(|(own, _)| name.as_os_str() == *own));
    if let Some((_, because)) = own {
        return Err(DeviceError::Refused { path: path.to_owned(), because });
    }
    let real = fs::canonicalize(path).map_err(|error| unreadable(path, error))?;
    if !real.starts_with(DEV) {
        return Err(not_in_dev());
    }
    let device = examined(&real)?;
    let by_link = Device { path: path.components().collect(), ..device.clone() };
    Ok(if by_link == device { vec![device] } else { vec![device, by_link] })
}

fn examined(path: &Path) -> Result<Device, DeviceError> {
    let found = fs::symlink_metadata(path).map_err(|error| unreadable(path, error))?;
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let refused = |because| Err(DeviceError::Refused { path: path.to_owned(), because });
    if found.file_type().is_block_device() {
        return refused("whatever can read or write a disk can read or write every file on it");
    }
    if !found.file_type().is_char_device() {
        return Err(DeviceError::NotADevice { path: path.to_owned() });
    }
    if let Some(because) = refused::because_of(path, (major, minor)) {
        return refused(because);
    }
    // Root inside gets a node of its own; a user gets the real one, with the rights that it has there.
    let wanted = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    let may = |access| rustix::fs::accessat(rustix::fs::CWD, path, access, rustix::fs::AtFlags::EACCESS);
    if let Err(errno) = may(wanted)
        && may(rustix::fs::Access::READ_OK).is_err()
    {
        return Err(DeviceError::Closed { path: path.to_owned(), because: std::io::Error::from(errno).to_string() });
    }
    Ok(Device { path: path.to_owned(), real: path.to_owned(), major, minor, mode: found.mode() & 0o777 })
}

fn unreadable(path: &Path, source: std::io::Error) -> DeviceError {
    match source.means_absent() {
        true => DeviceError::Missing { path: path.to_owned() },
        false => DeviceError::Unreadable { path: path.to_owned(), source },
    }
}

/// What the grants mean, for whoever makes the sandbox: one line for each. Nothing is granted without these.
#[must_use]
pub fn risks(grants: &Grants) -> Vec<String> {
    let mut risks = Vec::new();
    for path in &grants.devices {
        risks.push(format!(
            "{} is the real device: what is done with it is neither reviewed nor undone, and a hole in its driver is a hole in the sandbox",
            path.display()
        ));
    }
    if let Some(gpu) = &grants.gpu {
        let which = match gpu {
            whatif_types::grants::Gpu::All => "all cards".to_owned(),
            numbers => format!("card {numbers}"),
        };
        risks.push(format!(
            "the NVIDIA driver is within reach ({which}): it is a large part of the kernel, and a hole in it is a hole in the sandbox"
        ));
        risks.extend(nvidia::missing(Path::new("/")));
    }
    if grants.allows(Allowed::Userns) {
        risks.push(
            "user namespaces are allowed: more of the kernel is within reach, and Landlock does not guard files, so confinement is weaker"
                .to_owned(),
        );
    }
    risks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_something_else_in_a_sandbox_is_no_device_to_name() {
        for path in ["/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/0", "/dev/ptmx", "/dev/pts/0", "/dev/shm/x", "/dev//fd/0"]
        {
            let told = named(Path::new(path)).map_err(|error| error.to_string()).expect_err(path);
            assert!(told.starts_with(&format!("{path} is not passed into a sandbox: ")), "{told}");
        }
        assert!(named(Path::new("/dev/null")).is_ok());
    }
}
