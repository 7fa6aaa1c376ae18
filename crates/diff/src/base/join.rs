//! Makes one `base/` directory of several, or of another.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::Record;
use super::index::{self, Line};
use super::writer::{Writer, link_or_copy, make, numbers};

/// Writes one directory that says what the chain says, oldest first. What was forgotten stays forgotten: there may be older
/// directories below. Nothing is made if there is nothing to say.
pub fn join(from: &[&Path], to: &Path) -> io::Result<()> {
    join_read(lines, from, to)
}

/// The same for whoever keeps all others from writing to them: a second lock would wait for the first one.
pub fn join_held(from: &[&Path], to: &Path) -> io::Result<()> {
    join_read(index::load, from, to)
}

fn join_read(read: impl Fn(&Path) -> io::Result<Vec<u8>>, from: &[&Path], to: &Path) -> io::Result<()> {
    let mut said: BTreeMap<OsString, Vec<(Line, &Path)>> = BTreeMap::new();
    for directory in from {
        let bytes = read(directory).map_err(|e| named(e, directory))?;
        index::read(&bytes, |line| {
            let about = said.entry(line.path().as_os_str().to_owned()).or_default();
            // What an apply said does not replace what was said before: that counts again once it is undone.
            if line.by().is_none() {
                about.clear();
            }
            about.push((line, directory));
        });
    }
    if said.is_empty() {
        return Ok(());
    }
    write(said.into_values().flatten(), to).map_err(|e| named(e, to))
}

/// Adds what one directory says to another one.
pub fn add(from: &Path, to: &Path) -> io::Result<()> {
    let bytes = lines(from).map_err(|e| named(e, from))?;
    let mut said = Vec::new();
    index::read(&bytes, |line| said.push((line, from)));
    write(said, to).map_err(|e| named(e, to))
}

fn write<'d>(said: impl IntoIterator<Item = (Line, &'d Path)>, to: &Path) -> io::Result<()> {
    let mut writer = Writer::begin(to)?;
    for (line, directory) in said {
        let line = match line {
            Line::Known(record) => {
                let content = match record.content {
                    Some(number) => writer.take_over(&directory.join(number.to_string()))?,
                    None => None,
                };
                Line::Known(Record { content, ..record })
            }
            forgotten => forgotten,
        };
        writer.add(&line);
    }
    writer.end()
}

/// Copies one directory as it is, with all that it said before: an undo may come back to that. Nothing is made of none.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    // First the index: bytes are there before the lines that speak of them.
    let bytes = lines(from).map_err(|e| named(e, from))?;
    if bytes.is_empty() {
        return Ok(());
    }
    make(to).map_err(|e| named(e, to))?;
    for number in numbers(from).map_err(|e| named(e, from))? {
        let name = number.to_string();
        link_or_copy(&from.join(&name), &to.join(&name)).map_err(|e| named(e, &to.join(&name)))?;
    }
    let mut writer = Writer::begin(to).map_err(|e| named(e, to))?;
    index::read(&bytes, |line| writer.add(&line));
    writer.end().map_err(|e| named(e, to))
}

/// The index of a directory, not while somebody writes it.
fn lines(directory: &Path) -> io::Result<Vec<u8>> {
    match File::open(directory.join(index::FILE)) {
        Ok(file) => {
            flock(&file, FlockOperation::LockShared)?;
            index::load(directory)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
