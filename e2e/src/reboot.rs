//! The machine switched off and on again, as far as a program can tell.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Call, Outcome, World, eventually};

const ANOTHER_BOOT: &str = "11111111-2222-4333-8444-555555555555";

/// Arguments: the file with the boot's name, a user, then the script. A second /proc, because the kernel lets an ordinary user
/// mount one only where a whole one can be seen, and the first is covered in one place.
const ENTER: &str = r#"
set -e
mount -t proc proc /mnt
mount --bind "$1" /proc/sys/kernel/random/boot_id
exec setpriv --reuid="$2" --regid="$2" --clear-groups -- /bin/sh -c "$3"
"#;

impl World {
    /// Everything of this world ends at once and without a word, and no control group is left.
    pub fn reboot(&self) {
        eventually("everything is dead", || {
            let running = self.own_process_ids();
            for pid in running.iter().filter_map(|pid| Pid::from_raw(*pid)) {
                let _ = kill_process(pid, Signal::KILL);
            }
            running.is_empty()
        });
        // A process has no files and no memory any more before it leaves its group.
        eventually("control groups and mounts go with what was in them", || {
            for group in self.control_groups() {
                let _ = fs::remove_dir(&group);
            }
            self.control_groups().is_empty() && self.mounts().is_empty()
        });
    }

    /// Runs a script in the next boot, which began ten seconds before the first of them. `$W` is the binary. Only root can arrange that.
    #[track_caller]
    pub fn in_next_boot(&self, script: &str) -> Outcome {
        let boot_id = self.dir.join("boot_id");
        fs::write(&boot_id, format!("{ANOTHER_BOOT}\n")).expect("the scratch directory is writable");
        let began = self.dir.join("uptime");
        if !began.exists() {
            fs::copy("/proc/uptime", &began).expect("the scratch directory is writable");
        }
        let uptime = fs::read_to_string(&began).ok().and_then(|t| t.split('.').next()?.parse::<i64>().ok()).expect("it is up");
        let like_us = self.program("/bin/true").into_command();
        let mut command = Command::new("/usr/bin/unshare");
        command.args(["--mount", "--propagation", "private", "--time", "--fork", "--boottime", &(10 - uptime).to_string()]);
        command.args(["/bin/sh", "-c", ENTER, "next-boot"]).arg(&boot_id).arg(self.uid().to_string()).arg(script);
        command.env_clear().envs(like_us.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("W", &self.bin);
        command.current_dir(&self.project);
        Call::new(command).go()
    }
}
