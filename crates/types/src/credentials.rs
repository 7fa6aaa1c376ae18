//! Where credentials and private histories usually lie, and how a user's own rules change that list.

use std::path::{Path, PathBuf};

/// Relative to a home directory.
pub const IN_HOME: &[&str] = &[
    // keys and agents
    ".ssh",
    ".gnupg",
    ".age",
    ".config/sops",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".config/op",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/keepassxc",
    ".pki",
    ".Xauthority",
    ".ICEauthority",
    // clouds and clusters
    ".aws",
    ".azure",
    ".kube",
    ".config/gcloud",
    ".config/doctl",
    ".config/rclone",
    ".config/hcloud",
    ".oci",
    ".s3cfg",
    ".boto",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".fly",
    ".netlify",
    ".heroku",
    // forges, registries and package managers
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/git/config",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".docker/config.json",
    ".config/containers/auth.json",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".config/pip/pip.conf",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".nuget/NuGet/NuGet.Config",
    ".subversion/auth",
    ".config/huggingface/token",
    ".cache/huggingface/token",
    // databases
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    // agents and their sign-ins
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".config/github-copilot",
    // browsers and mail
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".thunderbird",
    "snap/firefox",
    "snap/chromium",
    // what was typed
    ".bash_history",
    ".zsh_history",
    ".histfile",
    ".local/share/fish/fish_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
    ".irb_history",
    ".lesshst",
    ".viminfo",
    ".local/share/recently-used.xbel",
];

/// Outside any home; only root could read them.
pub const SYSTEM: &[&str] = &[
    "/etc/krb5.keytab",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/docker/key.json",
    "/etc/rancher",
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/etc/NetworkManager/system-connections",
    "/etc/wpa_supplicant",
    "/etc/shadow-",
    "/etc/gshadow-",
];

/// Password files: shown with every secret replaced, because package managers must be able to add users.
pub const PASSWORD_FILES: &[&str] = &["/etc/shadow", "/etc/gshadow"];

/// The one file that is rewritten rather than hidden: git must know who commits.
pub const GIT_CONFIG: &str = ".gitconfig";

/// Resolves the paths to mask for these homes: the defaults and `extra`, without `exposed` and everything beneath it.
/// Entries may be absolute, begin with `~/`, or be relative to each home.
#[must_use]
pub fn masked_paths(homes: &[PathBuf], as_root: bool, extra: &[String], exposed: &[String]) -> Vec<PathBuf> {
    let exposed: Vec<PathBuf> = exposed.iter().flat_map(|e| resolve(homes, e)).collect();
    let mut paths: Vec<PathBuf> = homes.iter().flat_map(|h| IN_HOME.iter().map(|p| h.join(p))).collect();
    if as_root {
        paths.extend(SYSTEM.iter().map(PathBuf::from));
    }
    paths.extend(extra.iter().flat_map(|e| resolve(homes, e)));
    paths.retain(|p| !exposed.iter().any(|e| p.starts_with(e)));
    paths.sort();
    paths.dedup();
    paths
}

/// Whether a path such as `.gitconfig` or `/etc/shadow` was asked to be shown as it is.
#[must_use]
pub fn is_exposed(homes: &[PathBuf], exposed: &[String], path: &Path) -> bool {
    exposed.iter().flat_map(|e| resolve(homes, e)).any(|e| path.starts_with(e))
}

fn resolve(homes: &[PathBuf], entry: &str) -> Vec<PathBuf> {
    if entry.starts_with('/') {
        return vec![PathBuf::from(entry)];
    }
    let relative = entry.strip_prefix("~/").unwrap_or(entry);
    homes.iter().map(|h| h.join(relative)).collect()
}

/// `name:hash:…` becomes `name:*:…`, line by line; lines of another shape are dropped.
#[must_use]
pub fn without_password_hashes(text: &str) -> String {
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let (_, rest) = rest.split_once(':')?;
            Some(format!("{name}:*:{rest}\n"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposing_a_directory_exposes_what_is_beneath_it() {
        let homes = [PathBuf::from("/home/ann")];
        let all = masked_paths(&homes, false, &[], &[]);
        assert!(all.contains(&PathBuf::from("/home/ann/.ssh")));
        let fewer = masked_paths(&homes, false, &["~/notes".into()], &["~/.config".into(), ".ssh".into()]);
        assert!(fewer.contains(&PathBuf::from("/home/ann/notes")));
        assert!(!fewer.iter().any(|p| p.starts_with("/home/ann/.config") || p.starts_with("/home/ann/.ssh")));
    }

    #[test]
    fn password_files_keep_their_users_and_lose_their_hashes() {
        let clean = without_password_hashes("root:$y$j9T$abc:19000:0:99999:7:::\nbroken line\nwww:!:1::::::\n");
        assert_eq!(clean, "root:*:19000:0:99999:7:::\nwww:*:1::::::\n");
    }
}
