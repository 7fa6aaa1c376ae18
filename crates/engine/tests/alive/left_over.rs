//! What there is of a world in the machine.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::Pid;

/// Control groups are nested no deeper than this where machines are sane.
const DEEPEST_GROUP: usize = 6;

/// The open descriptors of this process, and what they lead to.
#[derive(Debug, PartialEq, Eq)]
pub struct Descriptors(BTreeMap<String, String>);

impl Descriptors {
    pub fn now() -> Self {
        let own = format!("/proc/{}/fd", std::process::id());
        let lead = |name: String| {
            let to = fs::read_link(format!("{own}/{name}")).ok()?.display().to_string();
            // The one that lists them.
            (to != own).then_some((name, to))
        };
        Self(entries(Path::new(&own)).into_iter().filter_map(lead).collect())
    }
}

/// The names in a directory, sorted. One that was never needed is not there.
pub fn entries(directory: &Path) -> Vec<String> {
    let listed = fs::read_dir(directory).into_iter().flatten().map(|entry| entry.expect("it can be listed").file_name());
    let mut names: Vec<String> = listed.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn pids() -> impl Iterator<Item = Pid> {
    entries(Path::new("/proc")).into_iter().filter_map(|name| Pid::from_raw(name.parse().ok()?))
}

/// Children of this process, ended ones that nobody has collected among them.
pub fn children() -> Vec<String> {
    let own = std::process::id().to_string();
    let is_ours = |stat: &String| stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&own);
    pids().filter_map(|pid| fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()).filter(is_ours).collect()
}

/// Processes that name this directory in their command line.
pub fn processes(directory: &Path) -> Vec<(Pid, String)> {
    let needle = directory.display().to_string();
    let line = |pid: Pid| {
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    pids().filter_map(line).filter(|(_, line)| line.contains(&needle)).collect()
}

pub fn mounts(directory: &Path) -> Vec<String> {
    let (table, needle) = (fs::read_to_string("/proc/self/mountinfo").expect("there is one"), directory.display().to_string());
    table.lines().filter(|line| line.contains(&needle)).map(|line| format!("left mounted: {line}")).collect()
}

/// Control groups of sandboxes of this state directory.
pub fn groups(state: &fs::Metadata) -> Vec<String> {
    let mut found = Vec::new();
    find_groups(Path::new("/sys/fs/cgroup"), &format!("whatif-{:x}-{:x}-", state.dev(), state.ino()), DEEPEST_GROUP, &mut found);
    found
}

fn find_groups(directory: &Path, prefix: &str, depth: usize, found: &mut Vec<String>) {
    // Groups of others come and go.
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(format!("left: {}", entry.path().display()));
        } else if depth > 0 {
            find_groups(&entry.path(), prefix, depth - 1, found);
        }
    }
}
