//! A change of one file, as `git apply` reads it.

use std::io;

use crate::blob::blob_id;
use crate::edits::edits;
use crate::hunks::{LineKind, groups};
use crate::literal::literal;
use crate::quote::quoted;
use crate::text::{Text, is_binary};

const CONTEXT: usize = 3;

/// The id git writes where there is no file.
const NO_ID: &str = "0000000000000000000000000000000000000000";

/// The bits of a mode that tell a file from a symbolic link.
const KIND: u32 = 0o170_000;

/// A file on one side of a change.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Relative to the root of the patch, with slashes.
    pub path: &'a [u8],
    /// `0o100644`, `0o100755` or, for a symbolic link, `0o120000`.
    pub mode: u32,
    /// What is in the file; for a symbolic link its target.
    pub content: &'a [u8],
}

/// Writes one complete `diff --git` entry, in one piece; nothing if nothing changed.
///
/// `rename` is the similarity to state if the paths differ. What git cannot say in one entry is a deletion followed by a
/// creation: a file that became a link or the reverse, and two paths without `rename`.
pub fn write_patch(out: &mut dyn io::Write, before: Option<Side>, after: Option<Side>, rename: Option<u8>) -> io::Result<()> {
    let mut entry = Vec::new();
    match (before, after) {
        (Some(old), Some(new)) if old.mode & KIND != new.mode & KIND || (old.path != new.path && rename.is_none()) => {
            deleted(&mut entry, &old);
            created(&mut entry, &new);
        }
        (Some(old), Some(new)) => changed(&mut entry, &old, &new, rename),
        (Some(old), None) => deleted(&mut entry, &old),
        (None, Some(new)) => created(&mut entry, &new),
        (None, None) => {}
    }
    out.write_all(&entry)
}

fn created(out: &mut Vec<u8>, new: &Side) {
    title(out, new.path, new.path);
    line(out, &format!("new file mode {:06o}", new.mode));
    line(out, &format!("index {NO_ID}..{}", blob_id(new.content)));
    content(out, Names { before: None, after: Some(new.path) }, b"", new.content);
}

fn deleted(out: &mut Vec<u8>, old: &Side) {
    title(out, old.path, old.path);
    line(out, &format!("deleted file mode {:06o}", old.mode));
    line(out, &format!("index {}..{NO_ID}", blob_id(old.content)));
    content(out, Names { before: Some(old.path), after: None }, old.content, b"");
}

fn changed(out: &mut Vec<u8>, old: &Side, new: &Side, rename: Option<u8>) {
    let moved = old.path != new.path;
    let edited = old.content != new.content;
    if !moved && !edited && old.mode == new.mode {
        return;
    }
    title(out, old.path, new.path);
    if old.mode != new.mode {
        line(out, &format!("old mode {:06o}", old.mode));
        line(out, &format!("new mode {:06o}", new.mode));
    }
    if let Some(similarity) = rename.filter(|_| moved) {
        line(out, &format!("similarity index {}%", similarity.min(100)));
        path_line(out, b"rename from ", old.path);
        path_line(out, b"rename to ", new.path);
    }
    if edited {
        let mode = if old.mode == new.mode { format!(" {:06o}", new.mode) } else { String::new() };
        line(out, &format!("index {}..{}{mode}", blob_id(old.content), blob_id(new.content)));
        content(out, Names { before: Some(old.path), after: Some(new.path) }, old.content, new.content);
    }
}

fn title(out: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    out.extend_from_slice(b"diff --git ");
    quoted(out, b"a/", old);
    out.push(b' ');
    quoted(out, b"b/", new);
    out.push(b'\n');
}

fn line(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(b'\n');
}

fn path_line(out: &mut Vec<u8>, what: &[u8], path: &[u8]) {
    out.extend_from_slice(what);
    quoted(out, b"", path);
    out.push(b'\n');
}

/// The paths of a change, where there is a file.
struct Names<'a> {
    before: Option<&'a [u8]>,
    after: Option<&'a [u8]>,
}

fn content(out: &mut Vec<u8>, names: Names, before: &[u8], after: &[u8]) {
    if before == after {
        // An empty file came or went; the header has said it all.
        return;
    }
    if is_binary(before) || is_binary(after) {
        out.extend_from_slice(b"GIT binary patch\n");
        literal(out, after);
        literal(out, before);
        return;
    }
    name(out, b"--- ", b"a/", names.before);
    name(out, b"+++ ", b"b/", names.after);
    hunks(out, before, after);
}

fn name(out: &mut Vec<u8>, sign: &[u8], prefix: &[u8], path: Option<&[u8]>) {
    out.extend_from_slice(sign);
    match path {
        Some(path) => {
            quoted(out, prefix, path);
            // Tells a blank of the name from what other tools write after a name.
            if path.contains(&b' ') {
                out.push(b'\t');
            }
        }
        None => out.extend_from_slice(b"/dev/null"),
    }
    out.push(b'\n');
}

fn hunks(out: &mut Vec<u8>, before: &[u8], after: &[u8]) {
    let edits = edits(before, after);
    let (old, new) = (Text::new(before), Text::new(after));
    for group in groups(&edits, &old, &new, CONTEXT) {
        let [before, after] = group.spans().map(span);
        line(out, &format!("@@ -{before} +{after} @@"));
        group.each_line(&old, &new, |kind, text| hunk_line(out, kind, text));
    }
}

/// A start and a number of lines; a single line goes without saying.
fn span((start, lines): (usize, usize)) -> String {
    if lines == 1 { start.to_string() } else { format!("{start},{lines}") }
}

fn hunk_line(out: &mut Vec<u8>, kind: LineKind, text: &[u8]) {
    out.push(match kind {
        LineKind::Context => b' ',
        LineKind::Added => b'+',
        LineKind::Removed => b'-',
    });
    out.extend_from_slice(text);
    if !text.ends_with(b"\n") {
        out.extend_from_slice(b"\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests;
