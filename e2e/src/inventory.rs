//! Everything on this machine that belongs to a world, or that only we could have made: to be taken twice and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{World, wait_for};

/// Control groups are nested no deeper than this where machines are sane.
const DEEPEST_GROUP: usize = 8;
/// How long something may take to go away by itself.
const LAST_MOMENTS: Duration = Duration::from_secs(180);

/// Kind of thing to the things, each in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory(BTreeMap<&'static str, BTreeSet<String>>);

impl Inventory {
    /// What another one has more and less. Empty if they are the same.
    #[must_use]
    pub fn differences(&self, later: &Self) -> BTreeSet<String> {
        let kinds = self.0.keys().chain(later.0.keys());
        let of = |inventory: &Self, kind| inventory.0.get(kind).cloned().unwrap_or_default();
        kinds
            .flat_map(|kind| {
                let (before, after) = (of(self, kind), of(later, kind));
                let more: Vec<String> = after.difference(&before).map(|thing| format!("+ {kind} {thing}")).collect();
                let less = before.difference(&after).filter(|thing| !is_connection(thing));
                let less: Vec<String> = less.map(|thing| format!("- {kind} {thing}")).collect();
                [more, less].concat()
            })
            .collect()
    }
}

impl World {
    /// Mounts, processes, namespaces, sockets, control groups, packet filter tables and files.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        let processes = self.own_processes();
        Inventory(BTreeMap::from([
            ("mount", self.mounts().into_iter().collect()),
            ("process", processes.iter().map(Process::shown).collect()),
            ("namespace", processes.iter().flat_map(Process::namespaces).collect()),
            ("socket", processes.iter().flat_map(Process::sockets).collect()),
            ("control group", control_groups(&self.prefix())),
            ("packet filter table", packet_filter_tables(&self.prefix())),
            ("file", self.state_files()),
        ]))
    }

    /// Panics with what is there now and was not, or the other way round, and stays so.
    #[track_caller]
    pub fn assert_inventory_is(&self, before: &Inventory, context: &str) {
        let mut lasting = before.differences(&self.inventory());
        // Only what is there each time counts: other tests make and remove things meanwhile.
        let settled = wait_for(LAST_MOMENTS, || {
            if !lasting.is_empty() {
                let now = before.differences(&self.inventory());
                lasting.retain(|difference| now.contains(difference));
            }
            lasting.is_empty().then_some(())
        });
        assert!(settled.is_some(), "{context}: {lasting:#?}");
    }

    /// Whatever names this world in its arguments, environment, program, directory or open files.
    #[must_use]
    pub fn own_process_ids(&self) -> Vec<i32> {
        self.own_processes().iter().filter_map(|p| p.path.file_name()?.to_str()?.parse().ok()).collect()
    }

    /// What control groups and the like of this state directory are called.
    #[must_use]
    pub fn prefix(&self) -> String {
        let meta = fs::metadata(&self.state).expect("there is a state directory");
        format!("whatif-{:x}-{:x}-", meta.dev(), meta.ino())
    }

    /// The control groups of this state directory's sandboxes, in all hierarchies.
    #[must_use]
    pub fn control_groups(&self) -> BTreeSet<String> {
        control_groups(&self.prefix())
    }

    fn own_processes(&self) -> Vec<Process> {
        let needle = self.dir.to_string_lossy().into_owned();
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let own = std::process::id().to_string();
        entries
            .filter(|e| e.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()) && e.file_name() != own.as_str())
            .map(|e| Process { path: e.path() })
            .filter(|p| p.mentions(&needle))
            .collect()
    }

    /// Two levels of the state directory, without what may grow and shrink by itself.
    fn state_files(&self) -> BTreeSet<String> {
        let by_itself = ["cache", "events", "spare", "state.db", "state.db-wal", "state.db-shm", "reserve"];
        let mut files = BTreeSet::new();
        for path in children(&self.state) {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if by_itself.contains(&name.as_str()) {
                continue;
            }
            // A directory is made when it is first needed, and stays.
            if !path.is_dir() {
                files.insert(path.display().to_string());
            }
            files.extend(children(&path).iter().map(|child| child.display().to_string()));
        }
        files
    }
}

/// A line of the kernel's table of sockets. That of a command which has just ended may go a moment later.
fn is_connection(socket: &str) -> bool {
    socket.split_whitespace().nth(5) == Some("03")
}

struct Process {
    path: PathBuf,
}

impl Process {
    fn mentions(&self, needle: &str) -> bool {
        let has = |bytes: Vec<u8>| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
        let reads = ["cmdline", "environ"].iter().any(|name| fs::read(self.path.join(name)).is_ok_and(has));
        reads
            || self.links(&["exe", "cwd"]).iter().any(|l| l.contains(needle))
            || self.descriptors().iter().any(|l| l.contains(needle))
    }

    fn shown(&self) -> String {
        let line = fs::read(self.path.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        format!("{} {}", self.path.display(), line.chars().take(200).collect::<String>())
    }

    /// Those it does not share with us.
    fn namespaces(&self) -> Vec<String> {
        let kinds = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];
        let of = |process: &Path, kind: &str| fs::read_link(process.join("ns").join(kind)).ok();
        let ours = |kind: &str| of(Path::new("/proc/self"), kind);
        let links = kinds.iter().filter_map(|kind| of(&self.path, kind).filter(|link| Some(link) != ours(kind).as_ref()));
        links.map(|link| link.display().to_string()).collect()
    }

    fn sockets(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let inodes: Vec<String> = self
            .descriptors()
            .iter()
            .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
            .collect();
        let is_its = |line: &&str| line.split_whitespace().nth(6).is_some_and(|inode| inodes.iter().any(|i| i == inode));
        table.lines().filter(is_its).map(str::to_owned).collect()
    }

    fn descriptors(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path.join("fd")).into_iter().flatten().filter_map(Result::ok);
        entries.filter_map(|e| fs::read_link(e.path()).ok()).map(|l| l.display().to_string()).collect()
    }

    fn links(&self, names: &[&str]) -> Vec<String> {
        names.iter().filter_map(|name| fs::read_link(self.path.join(name)).ok()).map(|l| l.display().to_string()).collect()
    }
}

fn control_groups(prefix: &str) -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_hierarchy = |line: &&str| line.contains(" - cgroup ") || line.contains(" - cgroup2 ");
    let roots = table.lines().filter(is_hierarchy).filter_map(|line| line.split(' ').nth(4));
    roots.flat_map(|root| groups_in(Path::new(root), prefix, DEEPEST_GROUP)).collect()
}

fn groups_in(directory: &Path, prefix: &str, depth: usize) -> Vec<String> {
    let groups = children(directory).into_iter().filter(|c| depth > 0 && c.is_dir());
    groups
        .flat_map(|group| {
            let mut found = groups_in(&group, prefix, depth - 1);
            if group.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)) {
                found.push(group.display().to_string());
            }
            found
        })
        .collect()
}

fn packet_filter_tables(prefix: &str) -> BTreeSet<String> {
    let Ok(listed) = Command::new("nft").args(["list", "tables"]).output() else { return BTreeSet::new() };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines().filter(|line| line.contains(prefix)).map(str::to_owned).collect()
}

fn children(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok).map(|e| e.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_says_what_came_and_what_went() {
        let one = |things: &[&str]| Inventory(BTreeMap::from([("mount", things.iter().map(|t| (*t).to_owned()).collect())]));
        let (before, after) = (one(&["a", "b"]), one(&["b", "c"]));
        assert_eq!(before.differences(&after), BTreeSet::from(["+ mount c".to_owned(), "- mount a".to_owned()]));
        assert!(before.differences(&before).is_empty());
        let socket = |state: &str| one(&[&format!("0: 00000002 00000000 00000000 0001 {state} 7 /keeper.sock")]);
        assert!(socket("03").differences(&one(&[])).is_empty(), "a connection that has ended is missed by nobody");
        assert_eq!(socket("01").differences(&one(&[])).len(), 1);
    }
}
