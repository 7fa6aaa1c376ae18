//! Which applies are undone, for all that knows of them: what an apply made a sandbox start from is also in the snapshots, forks and
//! exports that were made meanwhile, and frozen layers are never written again. So each line of an index names the apply it came
//! with, and the lines of an apply that is undone do not count.
//!
//! One line of JSON for each time that an apply was undone or done again; the last one about it counts.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_sys::absence::OrAbsent;
use whatif_types::text;

/// What became of an apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fate {
    pub apply: String,
    pub undone: bool,
    /// Paths at which it was not undone.
    #[serde(default, with = "text::paths", skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<PathBuf>,
}

/// The applies that are undone, with the paths at which they are not.
#[derive(Debug, Default)]
pub(super) struct Undone(HashMap<String, HashSet<PathBuf>>);

impl Undone {
    pub(super) fn read(file: &Path) -> io::Result<Self> {
        let mut undone = HashMap::new();
        let bytes = std::fs::read(file).or_absent()?.unwrap_or_default();
        // A line that a crash cut short is written again.
        for fate in bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<Fate>(line).ok()) {
            match fate.undone {
                true => undone.insert(fate.apply, fate.except.into_iter().collect()),
                false => undone.remove(&fate.apply),
            };
        }
        Ok(Self(undone))
    }

    pub(super) fn is_undone(&self, apply: &str, path: &Path) -> bool {
        self.0.get(apply).is_some_and(|except| !except.contains(path))
    }
}

/// Writes down what became of applies.
pub fn note(file: &Path, fates: &[Fate]) -> io::Result<()> {
    // An empty line first: what a crash cut short must not swallow the next one.
    let mut lines = vec![b'\n'];
    for fate in fates {
        serde_json::to_writer(&mut lines, fate)?;
        lines.push(b'\n');
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    file.write_all(&lines)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_about_an_apply_counts() {
        let file = std::env::temp_dir().join(format!("whatif-undone-{}", std::process::id()));
        let fate = |apply: &str, undone: bool, except: &[&str]| Fate {
            apply: apply.to_owned(),
            undone,
            except: except.iter().map(PathBuf::from).collect(),
        };
        assert!(!Undone::read(&file).unwrap().is_undone("a", Path::new("/x")));
        note(&file, &[fate("a", true, &[]), fate("b", true, &["/x"])]).unwrap();
        std::fs::write(&file, [std::fs::read(&file).unwrap(), b"{\"apply\":\"c\",\"und".to_vec()].concat()).unwrap();
        let undone = Undone::read(&file).unwrap();
        assert!(undone.is_undone("a", Path::new("/x")) && undone.is_undone("b", Path::new("/y")));
        assert!(!undone.is_undone("b", Path::new("/x")) && !undone.is_undone("c", Path::new("/x")));
        note(&file, &[fate("a", false, &[]), fate("c", true, &[])]).unwrap();
        let undone = Undone::read(&file).unwrap();
        assert!(!undone.is_undone("a", Path::new("/x")) && undone.is_undone("c", Path::new("/x")));
        std::fs::remove_file(&file).unwrap();
    }
}
