//! A file that is there as a whole or not at all, whenever its writer is stopped.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

pub struct WholeFile {
    file: File,
    path: PathBuf,
    /// What it is called before it may have its own name.
    part: PathBuf,
    has_part: bool,
}

impl WholeFile {
    /// Nobody else may read it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let part = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Without a name the kernel deletes it with its last descriptor. Not every file system can do that.
        let nameless = rustix::fs::open(directory, OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        let (file, has_part) = match nameless {
            Ok(file) => (File::from(file), false),
            Err(_) => (File::options().write(true).create_new(true).mode(0o600).open(&part)?, true),
        };
        Ok(Self { file, path: path.to_owned(), part, has_part })
    }

    pub fn writer(&self) -> &File {
        &self.file
    }

    /// Puts it in its place, over what is there.
    pub fn publish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if !self.has_part {
            let itself = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            rustix::fs::linkat(CWD, itself, CWD, &self.part, AtFlags::SYMLINK_FOLLOW)?;
            self.has_part = true;
        }
        fs::rename(&self.part, &self.path)?;
        self.has_part = false;
        // What was reported as written survives a power cut.
        let directory = self.path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory)?.sync_all()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.has_part {
            let _ = fs::remove_file(&self.part);
        }
    }
}
