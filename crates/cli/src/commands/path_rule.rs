//! A path that is to be hidden or shown, as it is said on the command line.

use std::io;
use std::path::{Component, Path, PathBuf};

use whatif_sys::absence::MeansAbsent;
use whatif_types::mask::without_steps_up;

/// The path without `..`. A step up from a link is one from where it leads, as for every program that opens the path.
pub fn stepped_up(path: &Path) -> io::Result<PathBuf> {
    let components: Vec<Component<'_>> = path.components().collect();
    let Some(last) = components.iter().rposition(|c| *c == Component::ParentDir) else { return Ok(path.to_owned()) };
    let (steps, rest) = components.split_at(last + 1);
    match std::fs::canonicalize(steps.iter().collect::<PathBuf>()) {
        Ok(real) => Ok(real.join(rest.iter().collect::<PathBuf>())),
        // There is no link to follow, or none that could be followed inside.
        Err(error) if error.means_absent() || error.kind() == io::ErrorKind::PermissionDenied => Ok(without_steps_up(path)),
        Err(error) => Err(error),
    }
}

/// Absolute from where the caller stands; what begins with `~` is left to the homes that it may mean.
pub fn parse(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    // A single dot is no more than a slip, and refused later.
    if text.starts_with('~') || text == "." {
        return Ok(text.to_owned());
    }
    let absolute = std::path::absolute(text).map_err(|e| e.to_string())?;
    let plain = stepped_up(&absolute).map_err(|e| e.to_string())?;
    plain.into_os_string().into_string().map_err(|_| "it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_counts_from_here() {
        let here = std::env::current_dir().expect("we are somewhere");
        let parsed = |text: &str| parse(text).expect("it is a path");
        assert_eq!(parsed("~/letters"), "~/letters");
        assert_eq!(parsed("/a/../b/./c"), "/b/c");
        assert_eq!(Path::new(&parsed("./.env")), here.join(".env"));
        assert_eq!(Path::new(&parsed("../x")), here.parent().expect("not at the top").join("x"));
        assert!(parse("").is_err());
    }
}
