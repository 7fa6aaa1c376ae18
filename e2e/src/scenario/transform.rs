//! Turning one tree into another, touching only what differs, the way tools do it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

/// A copy with plain modes, whatever the umask of the checkout was; scripts set others.
pub(super) fn copy(from: &Path, to: &Path, uid: u32) {
    let kind = fs::symlink_metadata(from).expect("it was listed");
    if kind.is_dir() {
        fs::create_dir(to).expect("a fresh scratch directory");
        for entry in entries(from) {
            copy(&from.join(&entry), &to.join(&entry), uid);
        }
        set_mode(to, 0o755);
    } else if kind.is_symlink() {
        symlink(fs::read_link(from).expect("it is a link"), to).expect("a fresh scratch directory");
    } else {
        fs::copy(from, to).expect("a fresh scratch directory");
        set_mode(to, 0o644);
    }
    lchown(to, Some(uid), Some(uid)).expect("it is ours to give away");
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

fn entries(directory: &Path) -> BTreeSet<OsString> {
    let listed = fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    listed.map(|entry| entry.expect("it can be listed").file_name()).collect()
}

/// A shell script that, run in a copy of the first tree, makes the second of it.
pub(super) fn script(from: &Path, to: &Path, replaces: bool) -> OsString {
    let mut writer = Writer { from, to, replaces, script: Vec::new() };
    writer.directory(Path::new(""));
    OsString::from_vec(writer.script)
}

struct Writer<'a> {
    from: &'a Path,
    to: &'a Path,
    replaces: bool,
    script: Vec<u8>,
}

impl Writer<'_> {
    fn directory(&mut self, relative: &Path) {
        let before = if self.from.join(relative).is_dir() { entries(&self.from.join(relative)) } else { BTreeSet::new() };
        let after = entries(&self.to.join(relative));
        for gone in before.difference(&after) {
            self.line(&["rm -rf --"], &[relative.join(gone).as_os_str()]);
        }
        for name in after {
            self.entry(&relative.join(name));
        }
    }

    fn entry(&mut self, relative: &Path) {
        let (old, new) = (self.from.join(relative), self.to.join(relative));
        let before = fs::symlink_metadata(&old).ok().map(|m| m.file_type());
        let after = fs::symlink_metadata(&new).expect("it was listed").file_type();
        if before.is_some_and(|b| b != after) {
            self.line(&["rm -rf --"], &[relative.as_os_str()]);
        }
        let before = before.filter(|b| *b == after);
        if after.is_dir() {
            if before.is_none() {
                self.line(&["mkdir --"], &[relative.as_os_str()]);
            }
            self.directory(relative);
        } else if after.is_symlink() {
            let target = fs::read_link(&new).expect("it is a link");
            if before.is_none() || fs::read_link(&old).ok().as_ref() != Some(&target) {
                self.line(&["ln -sfn --"], &[target.as_os_str(), relative.as_os_str()]);
            }
        } else if before.is_none() || fs::read(&old).ok() != fs::read(&new).ok() {
            self.write(relative, &new);
        }
    }

    fn write(&mut self, relative: &Path, content: &Path) {
        let name = relative.as_os_str();
        if self.replaces {
            let aside = PathBuf::from(OsString::from_vec([name.as_bytes(), b".tmp"].concat()));
            self.line(&["cp --"], &[content.as_os_str(), aside.as_os_str()]);
            self.line(&["mv --"], &[aside.as_os_str(), name]);
        } else {
            self.line(&["cat --", ">"], &[content.as_os_str(), name]);
        }
    }

    /// Words of the shell and names of files, in turns.
    fn line(&mut self, words: &[&str], names: &[&OsStr]) {
        for (index, name) in names.iter().enumerate() {
            if let Some(word) = words.get(index) {
                self.script.extend_from_slice(word.as_bytes());
                self.script.push(b' ');
            }
            self.script.extend_from_slice(&quoted(name));
            self.script.push(b' ');
        }
        self.script.push(b'\n');
    }
}

fn quoted(name: &OsStr) -> Vec<u8> {
    let inner: Vec<u8> = name.as_bytes().iter().flat_map(|b| if *b == b'\'' { b"'\\''".to_vec() } else { vec![*b] }).collect();
    [b"'", inner.as_slice(), b"'"].concat()
}
