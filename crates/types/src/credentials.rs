//! Where credentials and private histories usually lie, and how a user's own rules change that list.

use std::ffi::{OsStr, OsString};
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
    ".authinfo",
    ".authinfo.gpg",
    ".android/adbkey",
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
    ".aliyun/config.json",
    ".cloudflared/cert.pem",
    ".mc/config.json",
    ".pulumi/credentials.json",
    ".vercel/auth.json",
    ".config/helm/registry/config.json",
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
    ".npmrc.bak",
    ".npmrc.old",
    ".npmrc~",
    ".config/pnpm/rc",
    ".config/pnpm/auth.ini",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".config/pip/pip.conf",
    ".config/pypoetry/auth.toml",
    ".local/share/uv/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".local/share/gem/credentials",
    ".bundle/config",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".sbt/.credentials",
    ".ivy2/.credentials",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".nuget/NuGet/NuGet.Config",
    ".config/NuGet/NuGet.Config",
    ".hex/hex.config",
    ".config/dart/pub-tokens.json",
    ".subversion/auth",
    ".config/huggingface/token",
    ".cache/huggingface/token",
    ".huggingface/token",
    ".kaggle/kaggle.json",
    ".sentryclirc",
    // databases
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".databrickscfg",
    ".dbt/profiles.yml",
    ".snowsql/config",
    // agents and their sign-ins
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".config/github-copilot",
    ".local/share/opencode/auth.json",
    // sandboxes, and with them copies of files
    ".local/state/whatif",
    // browsers and mail
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".thunderbird",
    ".msmtprc",
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

/// Where many of them lie.
pub const SETTINGS: &str = ".config";

/// Outside any home; only root could read them.
pub const SYSTEM: &[&str] = &[
    "/var/lib/whatif",
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

/// Masked in the caller's own home even while absent, so that signing in somewhere later does not show inside.
pub const ALWAYS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".vault-token",
    ".config/gh",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/containers/auth.json",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".bash_history",
    ".zsh_history",
];

/// The defaults for one home: those whose first component is in the listing of that home, which is sorted, and for `own` also the
/// `ALWAYS` ones.
pub fn in_home<'a>(home: &'a Path, own: bool, listing: &'a [OsString]) -> impl Iterator<Item = PathBuf> + 'a {
    IN_HOME
        .iter()
        .filter(move |entry| {
            let first = entry.split('/').next().unwrap_or(entry);
            let is_listed = listing.binary_search_by(|name| name.as_os_str().cmp(OsStr::new(first))).is_ok();
            is_listed || (own && ALWAYS.contains(entry))
        })
        .map(|entry| home.join(entry))
}

/// Resolves entries of a rule: absolute, beginning with `~/`, or relative to each home.
#[must_use]
pub fn resolve_all(homes: &[PathBuf], entries: &[String]) -> Vec<PathBuf> {
    entries.iter().flat_map(|e| resolve(homes, e)).collect()
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
    fn a_home_is_masked_by_what_it_contains_and_the_own_one_also_by_what_it_may_contain() {
        let home = Path::new("/home/ann");
        let listing = [".config", ".mozilla", "src"].map(OsString::from);
        let other: Vec<PathBuf> = in_home(home, false, &listing).collect();
        assert!(other.contains(&home.join(".config/gh")) && other.contains(&home.join(".mozilla")));
        assert!(!other.contains(&home.join(".ssh")));
        assert!(in_home(home, true, &listing).any(|p| p == home.join(".ssh")));
        assert!(ALWAYS.iter().all(|a| IN_HOME.contains(a)));
    }

    #[test]
    fn rules_name_paths_in_three_ways() {
        let homes = [PathBuf::from("/home/ann")];
        let resolved = resolve_all(&homes, &["~/notes".into(), ".x".into(), "/etc/y".into()]);
        assert_eq!(resolved, [Path::new("/home/ann/notes"), Path::new("/home/ann/.x"), Path::new("/etc/y")]);
    }

    #[test]
    fn password_files_keep_their_users_and_lose_their_hashes() {
        let clean = without_password_hashes("root:$y$j9T$abc:19000:0:99999:7:::\nbroken line\nwww:!:1::::::\n");
        assert_eq!(clean, "root:*:19000:0:99999:7:::\nwww:*:1::::::\n");
    }
}
