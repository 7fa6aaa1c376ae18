//! Paths that a configuration hides, as they are written there. An entry that can hide nothing is a mistake, and refused: what
//! somebody believes to be hidden must be.

use std::path::{Component, Path, PathBuf};

/// Refuses what can be written but hides nothing, or everything.
pub fn check(entries: &[String]) -> Result<(), String> {
    for entry in entries {
        if entry.contains('*') {
            return Err(format!("files.mask: '{entry}' has a wildcard, and would hide nothing; name the file or directory"));
        }
        if matches!(entry.as_str(), "/" | "~" | "~/" | ".") {
            return Err(format!("files.mask: '{entry}' cannot be hidden as a whole; name what is in it"));
        }
    }
    Ok(())
}

/// An entry of a project's own file: what is neither absolute nor in the home counts from the project.
pub fn in_project(entry: &str, project: &Path) -> Result<String, String> {
    if entry.starts_with("~/") {
        return Ok(entry.to_owned());
    }
    let path = without_steps_up(&project.join(entry));
    if project.starts_with(&path) {
        return Err(format!("files.mask: '{entry}' would hide the project itself"));
    }
    path.into_os_string().into_string().map_err(|_| format!("files.mask: the path of '{entry}' is not UTF-8"))
}

/// The path without `.` and `..`, by its names alone.
#[must_use]
pub fn without_steps_up(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_project_hides_counts_from_the_project() {
        let hidden = |entry: &str| in_project(entry, Path::new("/work/shop"));
        for (entry, path) in [
            (".env", "/work/shop/.env"),
            ("./config/../keys", "/work/shop/keys"),
            ("../other", "/work/other"),
            ("/etc/shop", "/etc/shop"),
            ("~/customers", "~/customers"),
        ] {
            assert_eq!(hidden(entry).as_deref(), Ok(path), "{entry}");
        }
        for entry in ["..", "./", "/work", "x/.."] {
            assert!(hidden(entry).is_err(), "{entry}");
        }
    }

    #[test]
    fn what_hides_nothing_or_everything_is_refused() {
        for entry in ["*.pem", "keys/*", "/", "~", "~/", "."] {
            assert!(check(&[entry.to_owned()]).is_err(), "{entry}");
        }
        assert_eq!(check(&[".env".to_owned(), "~/letters".to_owned()]), Ok(()));
    }
}
