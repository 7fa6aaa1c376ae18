//! The kernel's own name for an inode: the same file as long as the handle is the same, another file if it is not.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// As the kernel's `MAX_HANDLE_SZ`.
const LONGEST: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHandle {
    /// Which encoding the file system uses.
    pub kind: i32,
    pub bytes: Vec<u8>,
}

#[repr(C)]
struct Raw {
    length: libc::c_uint,
    kind: libc::c_int,
    bytes: [u8; LONGEST],
}

impl FileHandle {
    /// Of the entry itself, never of what a link points to. An error where the file system has no handles.
    pub fn at(directory: impl AsFd, path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut raw = Raw { length: LONGEST as libc::c_uint, kind: 0, bytes: [0; LONGEST] };
        let mut mount: libc::c_int = 0;
        // SAFETY: the path ends with a NUL; `raw` has the layout of `struct file_handle` with room for as many bytes as it says;
        // both it and `mount` live until the call returns.
        let result = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                directory.as_fd().as_raw_fd(),
                path.as_ptr(),
                &raw mut raw,
                &raw mut mount,
                0,
            )
        };
        crate::check(result)?;
        let length = (raw.length as usize).min(LONGEST);
        Ok(Self { kind: raw.kind, bytes: raw.bytes[..length].to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_replaces_another_has_another_handle() {
        let directory = std::env::temp_dir().join(format!("whatif-handle-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (one, two) = (directory.join("one"), directory.join("two"));
        std::fs::write(&one, "1").unwrap();
        std::fs::write(&two, "2").unwrap();
        let cwd = rustix::fs::CWD;
        // Not every file system has handles.
        if let Ok(before) = FileHandle::at(cwd, &one) {
            std::fs::rename(&one, directory.join("same")).unwrap();
            assert_eq!(FileHandle::at(cwd, &directory.join("same")).unwrap(), before);
            std::fs::rename(&two, &one).unwrap();
            assert_ne!(FileHandle::at(cwd, &one).unwrap(), before);
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}
