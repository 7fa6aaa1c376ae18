//! A change set as a patch that `git apply` takes.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use whatif_engine::{Change, ChangeKind, Kind, State};
use whatif_patch::Side;

/// Git itself calls longer files big; a patch has to hold them in memory.
const LONGEST: u64 = 512 << 20;

/// Writes all changes in the project that a patch can express, and returns the paths it cannot.
pub fn write(out: &mut dyn Write, changes: &[&Change], project: &Path) -> io::Result<Vec<PathBuf>> {
    let mut left_out = Vec::new();
    for change in changes {
        let Ok(path) = change.path.strip_prefix(project) else { continue };
        // Git does not take patches to its own data.
        if path.components().any(|c| c.as_os_str() == ".git") {
            continue;
        }
        let is_huge = |s: &Option<State>| s.as_ref().is_some_and(|s| s.node.kind == Kind::File && s.node.size > LONGEST);
        if change.kind == ChangeKind::Special || is_huge(&change.before) || is_huge(&change.after) {
            left_out.push(path.to_owned());
            continue;
        }
        let old_path = change.old_path().and_then(|p| p.strip_prefix(project).ok()).unwrap_or(path);
        let (before, after) = (content(change.before.as_ref())?, content(change.after.as_ref())?);
        // What git does not know about: owners, times, and modes but for one bit.
        if before == after && old_path == path {
            continue;
        }
        whatif_patch::write_patch(out, side(old_path, before.as_ref()), side(path, after.as_ref()), change.similarity)?;
    }
    Ok(left_out)
}

/// Git's mode and the bytes of a file or link; directories have neither.
fn content(state: Option<&State>) -> io::Result<Option<(u32, Vec<u8>)>> {
    let Some(state) = state else { return Ok(None) };
    match state.node.kind {
        Kind::File => {
            let mode = if state.node.mode & 0o100 != 0 { 0o100_755 } else { 0o100_644 };
            Ok(Some((mode, whatif_engine::read_up_to(&state.at, LONGEST)?)))
        }
        Kind::Link => Ok(Some((0o120_000, state.target()?.as_os_str().as_bytes().to_vec()))),
        _ => Ok(None),
    }
}

fn side<'a>(path: &'a Path, state: Option<&'a (u32, Vec<u8>)>) -> Option<Side<'a>> {
    state.map(|(mode, content)| Side { path: path.as_os_str().as_bytes(), mode: *mode, content })
}
