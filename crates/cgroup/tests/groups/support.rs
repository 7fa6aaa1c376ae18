//! Groups with names of their own, and processes that enter them.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use whatif_cgroup::{Found, Group, Meters, Wanted};

/// How a skip begins that is due to missing control groups.
pub const UNUSABLE: &str = "skipped, without control groups";

pub const MIB: u64 = 1 << 20;

/// A group that is removed in the end, come what may.
pub struct Trial {
    pub found: Found,
    pub name: String,
    pub group: Group,
}

impl Trial {
    /// `None` where this user cannot have what is wanted. That is a skip with a reason.
    pub fn new(wanted: &Wanted) -> Option<Trial> {
        let found = usable(wanted)?;
        let name = fresh_name();
        let group = Group::make(&found, &name, wanted).unwrap();
        Some(Trial { found, name, group })
    }

    /// As the keeper gets them.
    pub fn meters(&self) -> Meters {
        Meters::new(self.group.meters().iter().map(|(kind, file)| (*kind, file.try_clone().unwrap())).collect())
    }

    /// Runs a shell script that has entered the group. The entrances are its standard streams, so there can be three.
    pub fn enter(&self, script: &str) -> Child {
        let mut streams: Vec<Stdio> = self.group.entrances().iter().map(|file| file.try_clone().unwrap().into()).collect();
        let entering: String = (0..streams.len()).map(|stream| format!("printf 0 >&{stream} || exit 99; ")).collect();
        streams.resize_with(3, Stdio::null);
        let [input, output, errors]: [Stdio; 3] = streams.try_into().unwrap_or_else(|_| panic!("too many entrances"));
        let script = format!("{entering} exec <&- >/dev/null 2>&1; {script}");
        Command::new("sh").arg("-c").arg(script).stdin(input).stdout(output).stderr(errors).spawn().unwrap()
    }

    /// The directories of the group, told by its files.
    pub fn directories(&self) -> Vec<PathBuf> {
        let file = |fd: i32| fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        self.group.entrances().iter().map(|entrance| file(entrance.as_raw_fd()).parent().unwrap().to_owned()).collect()
    }

    /// What the only file of that name in the group says.
    pub fn says(&self, file: &str) -> String {
        let there = self.directories().into_iter().map(|directory| directory.join(file)).find(|path| path.exists());
        fs::read_to_string(there.unwrap_or_else(|| panic!("no {file}"))).unwrap().trim().to_owned()
    }

    pub fn has(&self, file: &str) -> bool {
        self.directories().iter().any(|directory| directory.join(file).exists())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let removed = whatif_cgroup::remove(&self.found, &self.name);
        if !thread::panicking() {
            removed.unwrap();
            assert!(whatif_cgroup::list(&self.found, &self.name).unwrap().is_empty());
        }
    }
}

pub fn usable(wanted: &Wanted) -> Option<Found> {
    let found = Found::look();
    let needed = [
        (wanted.memory.is_some(), found.memory().err()),
        (wanted.pids.is_some(), found.pids().err()),
        (wanted.cpus_milli.is_some(), found.cpu().err()),
    ];
    let missing = needed.into_iter().filter(|(wanted, _)| *wanted).find_map(|(_, why)| why.cloned());
    match missing {
        Some(why) => {
            let strict = std::env::var_os("CI").is_some() && rustix::process::geteuid().is_root();
            assert!(!strict, "would be skipped, which CI does not allow: {why}");
            println!("{UNUSABLE}: {why}");
            None
        }
        None => Some(found),
    }
}

/// No name is the beginning of another.
pub fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("whatif-test-{}-{:04}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is gone or only waits to be reaped.
pub fn is_dead(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])))
}
