//! The kernel's mount table, parsed from the text of `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::paths::is_same;
pub use crate::paths::is_within;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor` of the file system, the same for every mount of it.
    pub device: String,
    /// The directory of the file system that is mounted, `/` for all of it.
    pub root: PathBuf,
    pub mount_point: PathBuf,
    pub read_only: bool,
    pub fs_type: String,
}

impl Mount {
    /// Not storage: made anew inside, or not shown at all.
    #[must_use]
    pub fn is_pseudo(&self) -> bool {
        matches!(
            self.fs_type.as_str(),
            "proc"
                | "sysfs"
                | "devtmpfs"
                | "devpts"
                | "cgroup"
                | "cgroup2"
                | "mqueue"
                | "debugfs"
                | "tracefs"
                | "securityfs"
                | "pstore"
                | "bpf"
                | "configfs"
                | "fusectl"
                | "hugetlbfs"
                | "binfmt_misc"
                | "efivarfs"
                | "autofs"
                | "rpc_pipefs"
                | "nsfs"
                | "selinuxfs"
                | "nfsd"
                | "resctrl"
        )
    }
}

/// Parses the whole table. Lines that do not have the documented shape are an error: guessing here could expose a tree.
pub fn parse(text: &[u8]) -> Result<Vec<Mount>, MalformedMountInfo> {
    text.split(|b| *b == b'\n').filter(|line| !line.is_empty()).map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Result<Mount, MalformedMountInfo> {
    let malformed = || MalformedMountInfo { line: String::from_utf8_lossy(line).into_owned() };
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let separator = fields.iter().position(|f| *f == b"-").ok_or_else(malformed)?;
    let (Some(device), Some(root), Some(mount_point), Some(options), Some(fs_type)) =
        (fields.get(2), fields.get(3), fields.get(4), fields.get(5), fields.get(separator + 1))
    else {
        return Err(malformed());
    };
    let super_options = fields.get(separator + 3).copied().unwrap_or_default();
    Ok(Mount {
        device: String::from_utf8_lossy(device).into_owned(),
        root: unescape(root),
        mount_point: unescape(mount_point),
        read_only: has_option(options, b"ro") || has_option(super_options, b"ro"),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
    })
}

fn has_option(options: &[u8], wanted: &[u8]) -> bool {
    options.split(|b| *b == b',').any(|o| o == wanted)
}

/// The kernel writes space, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> PathBuf {
    if !field.contains(&b'\\') {
        return PathBuf::from(OsString::from_vec(field.to_vec()));
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| tail.get(..3)).flatten().and_then(|d| std::str::from_utf8(d).ok());
        match octal.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The mount a path lies on: the deepest one, and of those at the same place the last, which is on top.
#[must_use]
pub fn mount_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().filter(|m| is_within(path, &m.mount_point)).max_by_key(|m| m.mount_point.as_os_str().len())
}

/// Every other path under which the tree at `path` can be seen, through bind mounts or a second mount of its file system.
#[must_use]
pub fn aliases_of(mounts: &[Mount], path: &Path) -> Vec<PathBuf> {
    let Some(own) = mount_of(mounts, path) else { return Vec::new() };
    if !mounts.iter().any(|m| m.device == own.device && m.mount_point != own.mount_point) {
        return Vec::new();
    }
    let Ok(below) = path.strip_prefix(&own.mount_point) else { return Vec::new() };
    let inside = join(&own.root, below);
    let mut aliases: Vec<PathBuf> = mounts
        .iter()
        .filter(|m| m.device == own.device)
        .filter_map(|m| inside.strip_prefix(&m.root).ok().map(|rest| join(&m.mount_point, rest)))
        .filter(|alias| !is_same(alias, path))
        .collect();
    aliases.sort();
    aliases.dedup();
    aliases
}

fn join(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { base.to_owned() } else { base.join(rest) }
}

#[derive(Debug, thiserror::Error)]
#[error("the kernel's mount table has a line of unknown shape: {line:?}")]
pub struct MalformedMountInfo {
    line: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
        28 27 254:0 /srv/home /mnt/old\\040home rw - ext4 /dev/vda rw\n\
        29 27 254:3 / /boot ro,nosuid - vfat /dev/vdb rw\n";

    #[test]
    fn the_table_is_read_with_escapes_and_optional_fields() {
        let mounts = parse(TABLE).unwrap();
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[2].mount_point, Path::new("/mnt/old home"));
        assert!(mounts[3].read_only && !mounts[1].read_only);
        assert!(mounts[0].is_pseudo());
    }

    #[test]
    fn a_bind_mount_is_an_alias_in_both_directions() {
        let mounts = parse(TABLE).unwrap();
        assert_eq!(aliases_of(&mounts, Path::new("/srv/home/a/.ssh")), [Path::new("/mnt/old home/a/.ssh")]);
        assert_eq!(aliases_of(&mounts, Path::new("/mnt/old home/a/.ssh")), [Path::new("/srv/home/a/.ssh")]);
        assert!(aliases_of(&mounts, Path::new("/boot/x")).is_empty());
    }

    #[test]
    fn a_line_of_unknown_shape_is_refused() {
        assert!(parse(b"1 2 3\n").is_err());
    }
}
