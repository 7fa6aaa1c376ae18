//! Devices with which a sandbox would be none.

use std::path::Path;

/// Why a character device is never shown, by its number.
pub(super) fn because_of(path: &Path, (major, minor): (u32, u32)) -> Option<&'static str> {
    const MEMORY: &str = "it is the memory of the whole machine";
    const DISK: &str = "it talks to disks below every file system";
    const SCREEN: &str = "it is a terminal of the machine";
    const INPUT: &str = "it sees or makes what is typed on the machine";
    let by_number = match (major, minor) {
        (1, 1 | 2 | 4) => Some(MEMORY),
        (1, 11) => Some("it is the log of the machine's kernel"),
        (4 | 7, _) | (5, 1) | (204, _) => Some(SCREEN),
        // Of the sandbox's own terminals there are plenty.
        (5, 2) | (136..=143, _) => Some(SCREEN),
        (9 | 21 | 86 | 162, _) => Some(DISK),
        (13, _) | (10, 223 | 239) => Some(INPUT),
        (10, 126) => Some("it does what is denied inside: it stops the kernel in the middle of a read"),
        (10, 130) => Some("it restarts the machine"),
        (10, 231 | 234..=237) => Some("it controls disks, mounts or the sleep of the machine"),
        (202 | 203, _) => Some("it reads and sets registers of the processors"),
        _ => None,
    };
    by_number.or_else(|| {
        // These have no fixed number.
        let name = path.file_name()?.to_str()?;
        let is_disk = name.starts_with("nvme")
            || name.starts_with("ng") && name.contains('n') && name.ends_with(|c: char| c.is_ascii_digit());
        match name {
            _ if is_disk || path.starts_with("/dev/bsg") || path.starts_with("/dev/mapper") || path.starts_with("/dev/raw") => {
                Some(DISK)
            }
            _ if name.starts_with("hidraw") || path.starts_with("/dev/input") => Some(INPUT),
            _ if name.starts_with("watchdog") => Some("it restarts the machine"),
            _ if name.starts_with("mtd") || name.starts_with("ubi") => Some(DISK),
            "mem" | "kmem" | "port" | "crash" => Some(MEMORY),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_open_the_machine_is_refused() {
        for (path, number) in [
            ("/dev/mem", (1, 1)),
            ("/dev/other-name-of-mem", (1, 1)),
            ("/dev/port", (1, 4)),
            ("/dev/kmsg", (1, 11)),
            ("/dev/tty1", (4, 1)),
            ("/dev/console", (5, 1)),
            ("/dev/pts/3", (136, 3)),
            ("/dev/sg0", (21, 0)),
            ("/dev/input/event0", (13, 64)),
            ("/dev/uinput", (10, 223)),
            ("/dev/mapper/control", (10, 236)),
            ("/dev/loop-control", (10, 237)),
            ("/dev/userfaultfd", (10, 126)),
            ("/dev/cpu/0/msr", (202, 0)),
            ("/dev/nvme0", (241, 0)),
            ("/dev/ng0n1", (240, 0)),
            ("/dev/hidraw0", (242, 0)),
            ("/dev/watchdog0", (243, 0)),
        ] {
            assert!(because_of(Path::new(path), number).is_some(), "{path}");
        }
        for (path, number) in [
            ("/dev/kvm", (10, 232)),
            ("/dev/fuse", (10, 229)),
            ("/dev/net/tun", (10, 200)),
            ("/dev/ttyUSB0", (188, 0)),
            ("/dev/nvidia0", (195, 0)),
            ("/dev/nvidiactl", (195, 255)),
            ("/dev/nvidia-uvm", (510, 0)),
            ("/dev/dri/renderD128", (226, 128)),
            ("/dev/video0", (81, 0)),
            ("/dev/snd/pcmC0D0p", (116, 2)),
        ] {
            assert_eq!(because_of(Path::new(path), number), None, "{path}");
        }
    }
}
