//! What an archive says that its changes started from. Its maker may have written anything, so only bytes count, which can be held
//! against reality's: no inode and no time of another machine says that a file is unchanged.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::index::{self, Line};
use super::record::Record;
use super::writer::LONGEST_KEPT;
use crate::node::{Kind, Node};
use crate::{content, git_index};

/// Rewrites a `base/` directory that came with an archive. What is in it besides the index and the kept bytes goes.
pub fn distrust(directory: &Path) -> io::Result<()> {
    let mut said = Vec::new();
    index::read(&index::load(directory)?, |line| said.push(line));
    let mut lines = Vec::new();
    for line in said {
        let line = match line {
            Line::Known(record) => Line::Known(by_bytes(record, directory)?),
            forgotten => forgotten,
        };
        index::write(&line, &mut lines);
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // The index, too: it may be another name of a file in the layer.
        if entry.file_name().to_str().is_none_or(|name| name.parse::<u64>().is_err()) {
            fs::remove_file(entry.path())?;
        }
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.join(index::FILE))?;
    file.write_all(&lines)
}

fn by_bytes(mut record: Record, directory: &Path) -> io::Result<Record> {
    record.equal_to = None;
    // That nothing was there proves nothing about what is there now.
    if record.absent {
        return Ok(record);
    }
    record.node = Node { dev: 0, ino: 0, ctime: (0, 0), btime: None, ..record.node };
    if let Some(number) = record.content {
        let at = directory.join(number.to_string());
        let kept = Node::of(&at)?.filter(|kept| fits(&record, kept));
        match kept {
            Some(kept) if record.node.kind == Kind::File => {
                record.node.size = kept.size;
                record.hash = Some(content::hash(&content::open(&at)?, 0)?.0);
            }
            Some(_) => {}
            None => (record.content, record.hash) = (None, None),
        }
    }
    // Nothing is left to compare.
    let is_nothing = matches!(record.node.kind, Kind::File | Kind::Link) && !record.has_content();
    if is_nothing && !record.unknown {
        (record.unknown, record.lost) = (true, true);
    }
    Ok(record)
}

/// Whether something is kept in the form in which a sandbox here keeps it.
fn fits(record: &Record, kept: &Node) -> bool {
    match record.node.kind {
        Kind::Link => kept.kind == Kind::Link,
        Kind::File if git_index::is_one(&record.path) => kept.kind == Kind::File && kept.size <= git_index::LONGEST,
        // Of a directory some numbers or a path.
        _ => kept.kind == Kind::File && kept.size <= LONGEST_KEPT,
    }
}
