//! A change set as a patch that `git apply` takes.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use whatif_diff::{Change, ChangeKind, Kind, State, Unreadable};
use whatif_patch::Side;

use super::Implied;
use super::granted_words as words;

/// A patch holds both sides of one file in memory, and spells them out there. Longer ones have no lines to show either.
const LONGEST: u64 = 32 << 20;

/// What a patch does not have.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// A patch counts from the project; what lies elsewhere has no name in it.
    pub outside: Vec<PathBuf>,
    /// Git's own data that must not be overlooked.
    pub of_git: Vec<PathBuf>,
    /// Too large, or nothing that git knows.
    pub unfit: Vec<PathBuf>,
    pub unreadable: Vec<Unreadable>,
    /// What is done to a path that git knows no words for.
    pub unsaid: Vec<(PathBuf, String)>,
}

/// Writes all changes in the project that a patch can express, and returns those it cannot.
pub fn write_patch(out: &mut dyn Write, changes: &[&Change], project: &Path) -> io::Result<LeftOut> {
    let mut left_out = LeftOut::default();
    let implied = Implied::by(changes);
    for change in changes {
        let Ok(path) = change.path.strip_prefix(project) else {
            left_out.outside.extend((!implied.has(change)).then(|| change.path.clone()));
            continue;
        };
        // Git does not take patches to its own data.
        if path.components().any(|c| c.as_os_str() == ".git") {
            left_out.of_git.extend(change.needs_approval().then(|| path.to_owned()));
            continue;
        }
        let is_huge = |s: &Option<State>| s.as_ref().is_some_and(|s| s.node.kind == Kind::File && s.node.size > LONGEST);
        if change.kind == ChangeKind::Special || is_huge(&change.before) || is_huge(&change.after) {
            left_out.unfit.push(path.to_owned());
            continue;
        }
        let old_path = change.old_path().and_then(|p| p.strip_prefix(project).ok()).unwrap_or(path);
        let read = content(change.before.as_ref()).and_then(|before| Ok((before, content(change.after.as_ref())?)));
        let (before, after) = match read {
            Ok(read) => read,
            Err(error) => {
                left_out.unreadable.push(Unreadable::of(&change.path, &error));
                continue;
            }
        };
        let unsaid = unsaid(change);
        if !unsaid.is_empty() {
            left_out.unsaid.push((path.to_owned(), unsaid.join("; ")));
        }
        // What git does not know about: owners, times, attributes, and modes but for one bit.
        if before == after && old_path == path {
            continue;
        }
        whatif_patch::write_patch(out, side(old_path, before.as_ref()), side(path, after.as_ref()), change.similarity)?;
    }
    Ok(left_out)
}

/// Owners, attributes, and modes but for the one bit.
fn unsaid(change: &Change) -> Vec<String> {
    let is_executable = |s: &Option<State>| s.as_ref().is_some_and(|s| s.node.mode & 0o100 != 0);
    let is_said = change.shown_kind() == Kind::File && is_executable(&change.before) != is_executable(&change.after);
    let mode = words::mode(change).filter(|_| !is_said);
    mode.into_iter().chain(words::owner(change)).chain(words::attributes(change)).collect()
}

/// Git's mode and the bytes of a file or link; directories have neither.
fn content(state: Option<&State>) -> io::Result<Option<(u32, Vec<u8>)>> {
    let Some(state) = state else { return Ok(None) };
    match state.node.kind {
        Kind::File => {
            let mode = if state.node.mode & 0o100 != 0 { 0o100_755 } else { 0o100_644 };
            Ok(Some((mode, state.bytes()?.into_owned())))
        }
        Kind::Link => Ok(Some((0o120_000, state.target()?.as_os_str().as_bytes().to_vec()))),
        _ => Ok(None),
    }
}

fn side<'a>(path: &'a Path, state: Option<&'a (u32, Vec<u8>)>) -> Option<Side<'a>> {
    state.map(|(mode, content)| Side { path: path.as_os_str().as_bytes(), mode: *mode, content })
}
