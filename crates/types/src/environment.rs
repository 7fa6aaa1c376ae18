//! Which environment variables go inside.
//!
//! Everything is carried except what looks like a secret (by name or by the shape of its value), what points at a host
//! service, and what belongs to this program. What was dropped is always listed.

mod values;
mod words;

use std::borrow::Cow;

use self::words::Words;
use crate::config::EnvironmentRules;

/// Substrings of a name that make it a secret. Names, because values of short secrets look like anything else.
static SECRET_WORDS: Words = Words::of(&[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PHRASE",
    "CREDENTIAL",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "ACCESS_CODE",
    "WEBHOOK",
    "PRIVATE",
    "COOKIE",
    "BEARER",
    "KEYRING",
]);
static SECRET_PREFIXES: Words =
    Words::of(&["AWS_", "GITHUB_", "GH_", "GITLAB_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "VAULT_", "DIGITALOCEAN_"]);
const SECRET_SUFFIXES: [&str; 4] = ["PASS", "_PWD", "_SIGNATURE", "_LOGIN"];
/// Whole parts of a name, between underscores.
const SECRET_PARTS: [&str; 14] =
    ["KEY", "KEYS", "KEYSTRING", "AUTH", "CRED", "CREDS", "DSN", "P12", "PAT", "PFX", "PSK", "PW", "SAS", "SIG"];
/// What Bundler is told about hosts and gems and is no credential. Under the name of a host itself it finds who signs in there.
const BUNDLER_SETTINGS: [&str; 3] = ["BUILD__", "LOCAL__", "MIRROR__"];
const SECRET_NAMES: [&str; 6] = ["DATABASE_URL", "REDIS_URL", "MONGODB_URI", "MONGO_URL", "AMQP_URL", "PGPASSFILE"];

/// Handles to services of the desktop and the session; what they name is absent inside. In order.
const HOST_SERVICES: [&str; 30] = [
    "AT_SPI_BUS_ADDRESS",
    "CONTAINER_HOST",
    "CREDENTIALS_DIRECTORY",
    "DESKTOP_STARTUP_ID",
    "DISPLAY",
    "DOCKER_HOST",
    "GIT_ASKPASS",
    "GNUPGHOME",
    "GPG_AGENT_INFO",
    "ICEAUTHORITY",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "KRB5CCNAME",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "PIPEWIRE_REMOTE",
    "PULSE_SERVER",
    "SESSION_MANAGER",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_AUTH_SOCK",
    "STY",
    "SUDO_ASKPASS",
    "TMUX",
    "TMUX_PANE",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "XAUTHORITY",
];
static HOST_SERVICE_PREFIXES: Words = Words::of(&["DBUS_", "VSCODE_", "IBUS_", "XMODIFIERS", "BUILDKIT_"]);

/// Where programs look for a proxy; in a network with rules they find the sandbox's own there.
pub const PROXIES: [&str; 6] = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
const OTHER_PROXIES: [&str; 4] = ["all_proxy", "ALL_PROXY", "ftp_proxy", "FTP_PROXY"];

/// Whether this is the name of a variable that says which proxy to use.
#[must_use]
pub fn is_proxy(name: &str) -> bool {
    PROXIES.contains(&name) || OTHER_PROXIES.contains(&name)
}

/// Beginnings of well-known kinds of tokens.
static TOKEN_PREFIXES: Words = Words::of(&[
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_live_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "npm_",
    "pypi-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "-----BEGIN",
    "e2b_",
]);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    pub carried: Vec<(String, String)>,
    pub dropped: Vec<String>,
}

/// Splits the environment. `asked_for` are names given on the command line, which win over everything but the rules of a project.
#[must_use]
pub fn filter(variables: impl IntoIterator<Item = (String, String)>, rules: &EnvironmentRules, asked_for: &[String]) -> Filtered {
    let mut filtered = Filtered::default();
    for (name, value) in variables {
        let forbidden = rules.dropped_by_project.contains(&name);
        let wanted = asked_for.contains(&name) || (rules.keep.contains(&name) && !rules.drop.contains(&name));
        let suspicious = rules.drop.contains(&name)
            || is_ours(&name)
            || names_a_secret(&name)
            || names_a_host_service(&name)
            || looks_secret(&value)
            || values::is_proxy_with_user(&name, &value);
        if !forbidden && (wanted || !suspicious) {
            filtered.carried.push((name, value));
        } else {
            filtered.dropped.push(name);
        }
    }
    filtered.dropped.sort();
    filtered
}

fn is_ours(name: &str) -> bool {
    name.starts_with("WHATIF_")
}

fn names_a_secret(name: &str) -> bool {
    let is_upper = !name.bytes().any(|letter| letter.is_ascii_lowercase());
    let upper = if is_upper { Cow::Borrowed(name) } else { Cow::Owned(name.to_ascii_uppercase()) };
    let name: &str = &upper;
    if matches!(name, "PWD" | "OLDPWD")
        || name.starts_with("KEYBOARD")
        || name.starts_with("KEYMAP")
        || name.ends_with("BYPASS")
        || name.ends_with("COMPASS")
    {
        return false;
    }
    SECRET_WORDS.any_is_in(name.as_bytes())
        || is_of_gits_settings(name)
        || is_of_bundlers_hosts(name)
        || SECRET_PREFIXES.any_begins(name.as_bytes())
        || SECRET_SUFFIXES.iter().any(|s| name.ends_with(s))
        || SECRET_NAMES.contains(&name)
        || name.split('_').any(|part| SECRET_PARTS.contains(&part))
}

/// `BUNDLE_GEMS__EXAMPLE__ORG=user:password`: two underscores are a dot.
fn is_of_bundlers_hosts(name: &str) -> bool {
    let setting = name.strip_prefix("BUNDLE_").filter(|setting| setting.contains("__"));
    setting.is_some_and(|setting| !BUNDLER_SETTINGS.iter().any(|known| setting.starts_with(known)))
}

/// Settings that git takes from numbered variables: headers with tokens among them. Without one of them git refuses the others.
fn is_of_gits_settings(name: &str) -> bool {
    let setting = name.strip_prefix("GIT_CONFIG_").unwrap_or_default();
    matches!(setting, "COUNT" | "PARAMETERS") || setting.starts_with("KEY_") || setting.starts_with("VALUE_")
}

fn names_a_host_service(name: &str) -> bool {
    HOST_SERVICES.binary_search(&name).is_ok() || HOST_SERVICE_PREFIXES.any_begins(name.as_bytes())
}

fn looks_secret(value: &str) -> bool {
    TOKEN_PREFIXES.beginning(value.as_bytes()).any(|prefix| value.len() >= prefix.len() + 12)
        || values::has_credential_in_url(value)
        || values::has_user_before_host(value)
        || values::has_option_with_credential(value)
        || looks_random(value)
}

/// One long word of mixed letters and digits with the entropy of a key, and not a path or a list of words.
fn looks_random(value: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'_' | b'-');
    if value.len() < 32 || value.len() > 4096 || value.starts_with('/') || !value.bytes().all(word) {
        return false;
    }
    let (mut digits, mut letters) = (0, 0);
    let mut counts = [0_u32; 256];
    for byte in value.bytes() {
        counts[usize::from(byte)] += 1;
        digits += u32::from(byte.is_ascii_digit());
        letters += u32::from(byte.is_ascii_alphabetic());
    }
    let length = value.len() as f64;
    let entropy: f64 = counts.iter().filter(|c| **c > 0).map(|c| f64::from(*c) / length).map(|p| -p * p.log2()).sum();
    // Hexadecimal keys have at most 4 bits a character, base-64 ones well above 4.
    digits >= 4 && letters >= 4 && entropy > 3.3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(name: &str, value: &str) -> bool {
        !filter([(name.to_owned(), value.to_owned())], &EnvironmentRules::default(), &[]).dropped.is_empty()
    }

    #[test]
    fn ordinary_variables_are_carried() {
        for (name, value) in [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"),
            ("HOME", "/home/ann"),
            ("PWD", "/home/ann/src/a-very-long-project-name-1234567890abcdef"),
            ("LANG", "en_US.UTF-8"),
            ("EDITOR", "vim"),
            ("KEYBOARD_LAYOUT", "us"),
            ("RUSTFLAGS", "-C target-cpu=native"),
            ("http_proxy", "http://proxy.internal:3128"),
            ("NODE_ENV", "test"),
            ("MONKEYPATCH", "1"),
            ("LD_LIBRARY_PATH", "/opt/lib"),
            ("PKG_CONFIG_PATH", "/opt/lib/pkgconfig"),
            ("npm_config_email", "ann@example.org"),
            ("PATH", "/opt/python@3.11/bin:/opt/node@20/bin"),
            ("REMOTE", "ssh://git@git.example.org:22/x"),
            ("REMOTES", "git@git.example.org:x https://git.example.org:8443/y"),
            ("PAGE", "https://h.example/?page=2&sort=name"),
            ("PIP_EXTRA_INDEX_URL", "https://a.example/simple https://b.example/@scope/x"),
            ("IMAGE", "registry:5000/image@sha256:abc"),
            ("HTTP_PROXY", "http://[::1]:3128"),
            ("JAVA_OPTS", "-Xmx2g -Dfile.encoding=UTF-8"),
            ("CURL_OPTS", "-u me -s --retry 3"),
            ("LESS", "-R -u"),
            ("BUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/", "https://mirror.example"),
        ] {
            assert!(!dropped(name, value), "{name} was dropped");
        }
    }

    #[test]
    fn secrets_are_dropped_by_name() {
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "OPENAI_API_KEY",
            "DB_PASSWORD",
            "SSHPASS",
            "DATABASE_URL",
            "MY_KEY",
            "SENTRY_DSN",
            "AZURE_DEVOPS_EXT_PAT",
            "MY_PAT",
            "npm_config__authToken",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_VALUE_0",
            "GIT_CONFIG_PARAMETERS",
            "YARN_NPM_AUTH_IDENT",
            "CREDS",
            "MY_PW",
            "SMTP_LOGIN",
            "SLACK_WEBHOOK",
            "AZ_SAS",
            "WIFI_PSK",
            "SEED_PHRASE",
            "BUNDLE_GEMS__X",
            "BUNDLE_GITHUB__COM",
        ] {
            assert!(dropped(name, "x"), "{name} was carried");
        }
    }

    #[test]
    fn secrets_are_dropped_by_the_shape_of_their_value() {
        for value in [
            "ghp_0123456789abcdefghij",
            "postgres://app:hunter2@db/prod",
            "https://user:pw@example.com/x",
            "4f9c2b7e1d3a5f60897b6c5d4e3f2a1b0c9d8e7f",
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "https://a.example https://SECRET@h.example",
            "https://SECRET@h.example",
            "first=https://SECRET@h.example",
            "https://u:pa/ss@h.example",
            "https%3A%2F%2Fu:pw%40h.example",
            "https://u:pw%40h.example",
            "https://h.example/?SECRET",
            "https://h.example/?a=1&X-Amz-Signature=b",
            "https://h.example/x?sig=b",
            "u:pw@h.example",
            "-u u:pw",
            "-s -uu:pw",
            "--user=u:pw",
            "--proxy-user 'u:pw'",
            "--password x",
            "-x --pw=x",
            "-H \"Authorization: x\"",
        ] {
            assert!(dropped("HARMLESS", value), "{value} was carried");
        }
    }

    #[test]
    fn a_proxy_has_no_user() {
        for value in ["u:pw@h", "u:p/w@h", "http://u@h:3128"] {
            assert!(dropped("PIP_PROXY", value) && dropped("https_proxy", value), "{value} was carried");
        }
    }

    #[test]
    fn host_services_and_our_own_variables_stay_outside() {
        assert!(HOST_SERVICES.is_sorted());
        for name in ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WHATIF_HOME", "VSCODE_IPC_HOOK_CLI", "TMUX"] {
            assert!(dropped(name, "/x"), "{name} was carried");
        }
    }

    #[test]
    fn a_variable_asked_for_is_carried_and_the_rules_apply() {
        let rules =
            EnvironmentRules { keep: vec!["A_TOKEN".into()], drop: vec!["LANG".into()], dropped_by_project: vec!["D".into()] };
        let variables = [("A_TOKEN", "1"), ("B_TOKEN", "2"), ("C_TOKEN", "3"), ("LANG", "C"), ("D", "4")]
            .map(|(n, v)| (n.to_owned(), v.to_owned()));
        let filtered = filter(variables, &rules, &["B_TOKEN".to_owned(), "D".to_owned()]);
        assert_eq!(filtered.dropped, ["C_TOKEN", "D", "LANG"]);
    }
}
