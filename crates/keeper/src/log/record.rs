//! What is known of a command in the background, in a small file beside its log: a line of JSON when it starts, another when it has
//! ended.
//!
//! The file is made and filled with blanks before the command starts, so that a disk that is full by then does not matter. Only the
//! keeper writes to it afterwards. It is no more than a record: after a power cut it may say less than there was.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use crate::protocol::Finished;

/// Both lines fit: a command's line is cut after 256 characters, of which each may take six.
const SIZE: usize = 8 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub pid: i32,
    /// The keeper holds its standard input open.
    pub has_input: bool,
    pub is_terminal: bool,
    pub command: String,
}

/// All that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub started: Started,
    /// Absent while it runs, and for ever if its keeper was lost.
    pub finished: Option<Finished>,
}

impl Record {
    /// `None` for one whose command has not started.
    pub fn read(file: &File) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; SIZE];
        let mut length = 0;
        loop {
            match file.read_at(&mut bytes[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut lines = bytes[..length].split_inclusive(|byte| *byte == b'\n');
        let Some(started) = lines.next().and_then(whole) else { return Ok(None) };
        Ok(Some(Self { started, finished: lines.next().and_then(whole) }))
    }

    /// Takes the room for what will be written.
    pub fn prepare(file: &File) -> io::Result<()> {
        file.write_all_at(&[b' '; SIZE], 0)
    }
}

/// A line that is being written just now is not there yet.
fn whole<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
}

#[derive(Debug)]
pub struct Writer {
    file: File,
    length: u64,
}

impl Writer {
    /// Over a file that was prepared.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self { file, length: 0 }
    }

    pub fn started(&mut self, started: &Started) -> io::Result<()> {
        self.line(started)
    }

    pub fn finished(&mut self, finished: &Finished) -> io::Result<()> {
        self.line(finished)
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.file.write_all_at(&bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Exited;

    fn file() -> File {
        File::from(rustix::fs::memfd_create("record", rustix::fs::MemfdFlags::CLOEXEC).unwrap())
    }

    fn started() -> Started {
        Started { pid: 7, has_input: true, is_terminal: false, command: "\u{1}".repeat(256) + "…" }
    }

    fn finished() -> Finished {
        let exited: Exited = serde_json::from_value(serde_json::json!({
            "pid": 7, "id": "c3", "command": started().command, "code": 3, "signal": null, "timed_out": false,
            "others_alive": false, "missed_network": false,
        }))
        .unwrap();
        Finished { exited, output: 1 << 40 }
    }

    #[test]
    fn it_tells_what_is_known_so_far() {
        let file = file();
        Record::prepare(&file).unwrap();
        assert_eq!(Record::read(&file).unwrap(), None);
        let mut writer = Writer::new(file.try_clone().unwrap());
        writer.started(&started()).unwrap();
        assert_eq!(Record::read(&file).unwrap(), Some(Record { started: started(), finished: None }));
        writer.finished(&finished()).unwrap();
        assert_eq!(Record::read(&file).unwrap(), Some(Record { started: started(), finished: Some(finished()) }));
        assert_eq!(file.metadata().unwrap().len(), SIZE as u64, "it needed no more room");
    }

    #[test]
    fn half_a_line_is_none() {
        let file = file();
        Writer::new(file.try_clone().unwrap()).started(&started()).unwrap();
        let length = file.metadata().unwrap().len();
        for cut in (0..length).rev().step_by(100) {
            file.set_len(cut).unwrap();
            assert_eq!(Record::read(&file).unwrap(), None, "of {cut} bytes");
        }
        file.write_all_at(&[0; 4096], 0).unwrap();
        assert_eq!(Record::read(&file).unwrap(), None, "as a power cut leaves it");
    }
}
