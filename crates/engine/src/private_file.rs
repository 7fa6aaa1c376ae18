//! Files that are replaced as a whole; nearly all of them are ours, and nobody else may read them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use whatif_layers::durable;

/// Created or emptied, for its owner alone.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path)?.write_all(bytes)
}

/// At once: whoever reads it meanwhile has the old one or the new one, and of several who write at the same time one is last.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path);
    let replaced = write(&new, bytes).and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// The same for everybody to read, as a machine's own settings are.
pub(crate) fn replace_for_all(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path);
    let readable = || fs::set_permissions(&new, fs::Permissions::from_mode(0o644));
    let replaced = write(&new, bytes).and_then(|()| readable()).and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// The same, and on the disk when this returns, for what a power cut must not take back.
pub(crate) fn replace_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path);
    let write = || {
        let mut file = create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    if let Err(error) = write() {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    durable::names_in(path.parent().unwrap_or(Path::new("."))).map_err(|error| error.source)
}

/// A name that no other process and no other thread uses.
fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    path.with_extension(format!("new-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_or_stays_as_it_was() {
        let directory = std::env::temp_dir().join(format!("whatif-private-file-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("file.json");
        replace(&path, b"first").unwrap();
        replace(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // What cannot take its place leaves nothing behind.
        fs::create_dir(directory.join("taken")).unwrap();
        assert!(replace(&directory.join("taken"), b"third").is_err());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        fs::remove_dir_all(&directory).unwrap();
    }
}
