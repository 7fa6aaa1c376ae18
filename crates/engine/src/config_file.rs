//! Reads a configuration file that somebody else may have put there.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// No configuration is longer.
const LONGEST: u64 = 1 << 20;

/// The text of a regular file of sensible size; `None` if there is none. A pipe would wait for ever and a device never end.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let opened = File::options().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path);
    let file = match opened {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        other => other?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Err(io::Error::other("it is not a regular file of sensible size"));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(Some(text))
}
