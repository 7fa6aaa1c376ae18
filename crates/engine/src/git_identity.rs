//! The one part of a user's git configuration that goes inside: who commits, and harmless habits.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use whatif_sys::run_to_end::run_to_end;

use crate::private_file;

/// Keys that name no program, no file and no credential.
const CARRIED: [&str; 9] = [
    "user.name",
    "user.email",
    "init.defaultbranch",
    "core.autocrlf",
    "core.eol",
    "pull.rebase",
    "push.default",
    "merge.conflictstyle",
    "color.ui",
];

/// The content of a `.gitconfig` with only these keys. Asking git takes long, so the answer is kept as long as the file is
/// the same.
pub(crate) fn only_identity(config: &Path, cache: &Path) -> io::Result<String> {
    let metadata = fs::metadata(config)?;
    let stamp = format!("# {} {} {} {}\n", metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    let cached = cache.join("gitconfig");
    if let Some(text) = fs::read_to_string(&cached).ok().and_then(|t| t.strip_prefix(&stamp).map(str::to_owned)) {
        return Ok(text);
    }
    let text = extract(config);
    let _ = private_file::write(&cached, format!("{stamp}{text}").as_bytes());
    Ok(text)
}

/// `git` itself reads the real file, because of includes; without git, a plain reading of it must do.
fn extract(config: &Path) -> String {
    let mut text = String::from("# Made by whatif: the identity from your own configuration, and nothing else of it.\n");
    for key in CARRIED {
        if let Some(value) = with_git(config, key).or_else(|| without_git(config, key)) {
            let (section, name) = key.split_once('.').unwrap_or((key, ""));
            text.push_str(&format!("[{section}]\n\t{name} = \"{}\"\n", value.replace('\\', "\\\\").replace('"', "\\\"")));
        }
    }
    text
}

fn with_git(config: &Path, key: &str) -> Option<String> {
    let home = config.parent()?;
    let mut command = Command::new("git");
    command.args(["config", "--includes", "--file"]).arg(config).args(["--get", key]);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home).current_dir("/").stdin(Stdio::null());
    let output = run_to_end(&mut command).ok()?;
    let value = String::from_utf8(output.stdout).ok()?.trim_end_matches('\n').to_owned();
    (output.status.success() && !value.is_empty() && !value.contains('\n')).then_some(value)
}

fn without_git(config: &Path, key: &str) -> Option<String> {
    let (wanted_section, wanted_name) = key.split_once('.')?;
    let mut section = String::new();
    let mut found = None;
    for line in fs::read_to_string(config).ok()?.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').trim().to_ascii_lowercase();
        } else if let Some((name, value)) = line.split_once('=')
            && section == wanted_section
            && name.trim().eq_ignore_ascii_case(wanted_name)
        {
            found = Some(value.trim().trim_matches('"').to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_kept_and_credentials_are_not() {
        let directory = std::env::temp_dir().join(format!("whatif-git-identity-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let config = directory.join(".gitconfig");
        fs::write(&config, "[user]\n\tname = Ann \"A\" Example\n\temail = ann@example.org\n[credential]\n\thelper = store\n[core]\n\tpager = evil\n").unwrap();
        let text = only_identity(&config, &directory).unwrap();
        assert_eq!(only_identity(&config, &directory).unwrap(), text, "the remembered answer is the same");
        fs::remove_dir_all(&directory).unwrap();
        assert!(text.contains("ann@example.org"), "{text}");
        assert!(!text.contains("evil") && !text.contains("credential"), "{text}");
    }
}
