//! A path in a layer, told as the path inside that it stands for: nobody looks for a file by where its layer lies.

use std::path::{Component, Path, PathBuf};

use whatif_archive::ArchiveError;

use crate::EngineError;
use crate::ground::GroundError;
use crate::history::HistoryError;

impl EngineError {
    /// The same about the user's file. `state` is the state directory, `trees` what the sandbox's trees stand for.
    pub(crate) fn about_inside(mut self, state: &Path, trees: &[PathBuf]) -> Self {
        let named = match &mut self {
            Self::Ground(GroundError::Path(error)) => Some(&mut error.path),
            Self::Ground(GroundError::Io { path, .. }) => Some(path),
            Self::History(HistoryError::Archive(ArchiveError::Io { path, .. } | ArchiveError::Changed { path })) => Some(path),
            _ => None,
        };
        if let Some(path) = named
            && let Some(inside) = inside(path, state, trees)
        {
            *path = inside;
        }
        self
    }
}

/// Layers and heads have a directory for each tree, by its number: `…/head/1/src`, `…/0a1b2c3d4e5f/1/src`. An archive names them from
/// the layer's id on.
fn inside(path: &Path, state: &Path, trees: &[PathBuf]) -> Option<PathBuf> {
    let within = if path.is_absolute() { path.strip_prefix(state).ok()? } else { path };
    let parts: Vec<&str> = within.components().map_while(|part| part_of(part)).collect();
    let is_id = |part: &str| part.len() == 12 && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let at = parts.windows(2).position(|pair| (pair[0] == "head" || is_id(pair[0])) && pair[1].parse::<usize>().is_ok())?;
    let tree = trees.get(parts[at + 1].parse::<usize>().ok()?)?;
    let rest: PathBuf = within.components().skip(at + 2).collect();
    Some(if rest.as_os_str().is_empty() { tree.clone() } else { tree.join(rest) })
}

/// Names that are no text come only after the tree's number.
fn part_of(part: Component<'_>) -> Option<&str> {
    match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_layer_is_told_as_the_path_inside() {
        let trees = [PathBuf::from("/etc"), PathBuf::from("/home/u/p")];
        let told = |path: &str| inside(Path::new(path), Path::new("/state"), &trees);
        let file = Some(PathBuf::from("/home/u/p/ac/acl"));
        assert_eq!(told("/state/sandboxes/0a1b2c3d4e5f/head/1/ac/acl"), file);
        assert_eq!(told("/state/layers/9bn6pw3scp27/1/ac/acl"), file);
        assert_eq!(told("9bn6pw3scp27/1/ac/acl"), file);
        assert_eq!(told("9bn6pw3scp27/0"), Some(PathBuf::from("/etc")));
        assert_eq!(told("/state/sandboxes/0a1b2c3d4e5f/head/7/x"), None);
        assert_eq!(told("/home/u/9bn6pw3scp27/1/x"), None);
    }
}
