//! Standard input from a file, for a command that must not have the file itself.
//!
//! A program that reads from a file may go back in it: `head -1` leaves the second line to the next program. So the command gets a copy
//! in memory that it can read, seek in, and not change. Afterwards our own position in the file moves as far as the command moved in the
//! copy. A large file is not copied but sent through a pipe: see [`super::relay`].

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, fcntl_add_seals, memfd_create, open, seek};
use rustix::io::Errno;

/// Takes a few milliseconds to copy.
const LARGEST: u64 = 16 << 20;

/// The file and its copy. The position in each is shared: with our caller, and with the command.
#[derive(Debug)]
pub(super) struct FileInput {
    file: OwnedFd,
    copy: OwnedFd,
    began_at: u64,
}

impl FileInput {
    /// `None` if it is not a file, or one that is not copied. The descriptor is for the command.
    pub(super) fn of(stdin: BorrowedFd<'_>) -> io::Result<Option<(Self, OwnedFd)>> {
        let file = File::from(stdin.try_clone_to_owned()?);
        let about = file.metadata()?;
        // What the kernel makes up as it is read has no size.
        if !about.is_file() || !(1..=LARGEST).contains(&about.len()) {
            return Ok(None);
        }
        let Ok(at) = seek(&file, SeekFrom::Current(0)) else { return Ok(None) };
        let Some(content) = content(&file, about.len())? else { return Ok(None) };
        let mut copy = File::from(in_memory()?);
        copy.write_all(&content)?;
        fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        // Opened for reading only, as the file is.
        let copy = open(format!("/proc/self/fd/{}", copy.as_raw_fd()), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        seek(&copy, SeekFrom::Start(at))?;
        let passed = copy.as_fd().try_clone_to_owned()?;
        Ok(Some((Self { file: file.into(), copy, began_at: at }, passed)))
    }

    /// After the command's end: the next reader goes on where it stopped.
    pub(super) fn go_on_from_there(&self) {
        let Ok(at) = seek(&self.copy, SeekFrom::Current(0)) else { return };
        // By how much, not where to: another program may have read on meanwhile.
        let moved = i64::try_from(at).unwrap_or(i64::MAX).saturating_sub(i64::try_from(self.began_at).unwrap_or(i64::MAX));
        if moved != 0 {
            let _ = seek(&self.file, SeekFrom::Current(moved));
        }
    }
}

/// Without moving its position. `None` if it cannot be read, or grows at this moment.
fn content(file: &File, length: u64) -> io::Result<Option<Vec<u8>>> {
    let mut content = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let mut filled = 0;
    loop {
        match file.read_at(&mut content[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The relay tells what is wrong with it in the way that it always did.
            Err(_) => return Ok(None),
        }
    }
    content.truncate(filled);
    Ok((file.metadata()?.len() == filled as u64).then_some(content))
}

fn in_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create("input", flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know it.
        Err(Errno::INVAL) => Ok(memfd_create("input", flags)?),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = File::from(memfd_create("file", MemfdFlags::CLOEXEC).expect("memory"));
        file.write_all(content).expect("room");
        file.rewind().expect("a file");
        file
    }

    #[test]
    fn the_next_reader_goes_on_where_the_command_stopped() {
        let mut file = file(b"one\ntwo\nthree\n");
        file.seek(io::SeekFrom::Start(4)).expect("a file");
        let (input, passed) = FileInput::of(file.as_fd()).expect("it is copied").expect("it is a file");
        assert_eq!(file.stream_position().expect("a file"), 4, "looking moved it");
        let mut command = File::from(passed);
        let mut line = [0; 4];
        command.read_exact(&mut line).expect("it has a line");
        assert_eq!(&line, b"two\n");
        assert!(command.write_all(b"x").is_err(), "a copy was written to");
        input.go_on_from_there();
        let mut rest = String::new();
        file.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "three\n");
    }

    #[test]
    fn what_is_large_or_no_file_is_not_copied() {
        let large = file(b"x");
        large.set_len(LARGEST + 1).expect("room");
        assert!(FileInput::of(large.as_fd()).expect("it can be looked at").is_none());
        assert!(FileInput::of(file(b"").as_fd()).expect("it can be looked at").is_none());
        let (pipe, _writer) = io::pipe().expect("a pipe");
        assert!(FileInput::of(pipe.as_fd()).expect("it can be looked at").is_none());
    }
}
