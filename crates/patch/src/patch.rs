//! A change of one file, as `git apply` reads it.

use std::io;

use crate::blob::blob_id;
use crate::edits::edits;
use crate::hunks::{LineKind, groups};
use crate::literal::literal;
use crate::quote::quoted;
use crate::text::{Text, is_binary, is_too_long};

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

/// Writes one complete `diff --git` entry; nothing if nothing changed.
///
/// `rename` is the similarity to state if the paths differ. What git cannot say in one entry is a deletion followed by a
/// creation: a file that became a link or the reverse, and two paths without `rename`.
pub fn write_patch(out: &mut dyn io::Write, before: Option<Side>, after: Option<Side>, rename: Option<u8>) -> io::Result<()> {
    match (before, after) {
        (Some(old), Some(new)) if old.mode & KIND != new.mode & KIND || (old.path != new.path && rename.is_none()) => {
            deleted(out, &old)?;
            created(out, &new)
        }
        (Some(old), Some(new)) => changed(out, &old, &new, rename),
        (Some(old), None) => deleted(out, &old),
        (None, Some(new)) => created(out, &new),
        (None, None) => Ok(()),
    }
}

fn created(out: &mut dyn io::Write, new: &Side) -> io::Result<()> {
    let mut head = Vec::new();
    title(&mut head, new.path, new.path);
    line(&mut head, &format!("new file mode {:06o}", new.mode));
    line(&mut head, &format!("index {NO_ID}..{}", blob_id(new.content)));
    out.write_all(&head)?;
    content(out, Names { before: None, after: Some(new.path) }, b"", new.content)
}

fn deleted(out: &mut dyn io::Write, old: &Side) -> io::Result<()> {
    let mut head = Vec::new();
    title(&mut head, old.path, old.path);
    line(&mut head, &format!("deleted file mode {:06o}", old.mode));
    line(&mut head, &format!("index {}..{NO_ID}", blob_id(old.content)));
    out.write_all(&head)?;
    content(out, Names { before: Some(old.path), after: None }, old.content, b"")
}

fn changed(out: &mut dyn io::Write, old: &Side, new: &Side, rename: Option<u8>) -> io::Result<()> {
    let moved = old.path != new.path;
    let edited = old.content != new.content;
    if !moved && !edited && old.mode == new.mode {
        return Ok(());
    }
    let mut head = Vec::new();
    title(&mut head, old.path, new.path);
    if old.mode != new.mode {
        line(&mut head, &format!("old mode {:06o}", old.mode));
        line(&mut head, &format!("new mode {:06o}", new.mode));
    }
    if let Some(similarity) = rename.filter(|_| moved) {
        line(&mut head, &format!("similarity index {}%", similarity.min(100)));
        path_line(&mut head, b"rename from ", old.path);
        path_line(&mut head, b"rename to ", new.path);
    }
    if edited {
        let mode = if old.mode == new.mode { format!(" {:06o}", new.mode) } else { String::new() };
        line(&mut head, &format!("index {}..{}{mode}", blob_id(old.content), blob_id(new.content)));
    }
    out.write_all(&head)?;
    content(out, Names { before: Some(old.path), after: Some(new.path) }, old.content, new.content)
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

fn content(out: &mut dyn io::Write, names: Names, before: &[u8], after: &[u8]) -> io::Result<()> {
    if before == after {
        // An empty file came or went, or nothing but the header changed; it has said it all.
        return Ok(());
    }
    // Git takes any file in this form, also a text that would need too much memory as lines.
    if [before, after].into_iter().any(|side| is_binary(side) || is_too_long(side)) {
        out.write_all(b"GIT binary patch\n")?;
        literal(out, after)?;
        return literal(out, before);
    }
    let mut head = Vec::new();
    name(&mut head, b"--- ", b"a/", names.before);
    name(&mut head, b"+++ ", b"b/", names.after);
    out.write_all(&head)?;
    hunks(out, before, after)
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

fn hunks(out: &mut dyn io::Write, before: &[u8], after: &[u8]) -> io::Result<()> {
    let edits = edits(before, after);
    let (old, new) = (Text::new(before), Text::new(after));
    let groups: Vec<_> = groups(&edits, &old, &new, CONTEXT).collect();
    for (index, group) in groups.iter().enumerate() {
        let mut hunk = Vec::new();
        let [before, after] = group.spans().map(span);
        // What follows the place is for readers: those who choose hunks name them by their numbers.
        let number = if groups.len() > 1 { format!(" hunk {} of {}", index + 1, groups.len()) } else { String::new() };
        line(&mut hunk, &format!("@@ -{before} +{after} @@{number}"));
        group.each_line(&old, &new, |kind, text| hunk_line(&mut hunk, kind, text));
        out.write_all(&hunk)?;
    }
    Ok(())
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
