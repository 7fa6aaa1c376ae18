//! Where packages come from, as the user's own settings of npm and pip say it, without the credentials that stand there too.

use std::path::Path;
use std::{fs, io};

/// Settings that name no program and no credential.
const NPM: [&str; 8] = ["registry", "strict-ssl", "cafile", "save-exact", "engine-strict", "legacy-peer-deps", "fund", "audit"];
const PIP: [&str; 10] = [
    "index-url",
    "extra-index-url",
    "find-links",
    "trusted-host",
    "no-index",
    "cert",
    "timeout",
    "retries",
    "break-system-packages",
    "disable-pip-version-check",
];
const MADE_BY: &str = "# Made by whatif: where packages come from, out of your own settings, without credentials.\n";

pub(crate) fn of_npm(path: &Path, _cache: &Path) -> io::Result<String> {
    let is_carried = |key: &str| NPM.contains(&key) || (key.starts_with('@') && key.ends_with(":registry"));
    Ok(only(&String::from_utf8_lossy(&fs::read(path)?), Lines::EachByItself, is_carried))
}

pub(crate) fn of_pip(path: &Path, _cache: &Path) -> io::Result<String> {
    let is_carried = |key: &str| PIP.contains(&key.replace('_', "-").as_str());
    Ok(only(&String::from_utf8_lossy(&fs::read(path)?), Lines::GoOnIndented, is_carried))
}

/// What an indented line is: npm trims it, pip takes it as more of the setting above.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    EachByItself,
    GoOnIndented,
}

/// Sections stay, and the settings that are carried.
fn only(text: &str, lines: Lines, is_carried: impl Fn(&str) -> bool) -> String {
    let mut carried = String::from(MADE_BY);
    let mut goes_on = false;
    for line in text.lines() {
        let is_more = lines == Lines::GoOnIndented && line.starts_with([' ', '\t']);
        goes_on = match line.trim() {
            "" => false,
            _ if is_more => goes_on,
            section if section.starts_with('[') => true,
            setting => setting.split_once(['=', ':']).is_some_and(|_| is_carried(key_of(setting))),
        };
        if goes_on {
            carried.push_str(&without_credentials(line));
            carried.push('\n');
        }
    }
    carried
}

/// Keys of npm may have a colon in them; a value begins behind the first `=`, or, as pip has it too, the first colon.
fn key_of(setting: &str) -> &str {
    let end = setting.find('=').or_else(|| setting.find(':')).unwrap_or(setting.len());
    setting[..end].trim()
}

/// No user and password before a host, and no question behind it.
fn without_credentials(line: &str) -> String {
    let mut clean = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = url.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(url.len());
        let (url, behind) = url.split_at(end);
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = url.find('/').map_or((url, ""), |slash| url.split_at(slash));
        // A password may have a slash in it, so whatever stands before the last sign of a user goes.
        let host = match path.rsplit_once('@') {
            Some((_, last)) if !authority.contains('.') || authority.contains(':') => last,
            _ => authority.rsplit('@').next().unwrap_or_default(),
        };
        clean.push_str(host);
        if !path.contains('@') {
            clean.push_str(path);
        }
        rest = behind;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_keeps_its_registries_and_loses_its_tokens() {
        let is_carried = |key: &str| NPM.contains(&key) || (key.starts_with('@') && key.ends_with(":registry"));
        let text = "registry=https://me:hunter2@npm.example.org/all/?token=x\n  //npm.example.org/:_authToken=SECRET\n@acme:registry = https://npm.acme.example\n\
                    //npm.example.org/:_authToken=npm_SECRET\n_auth=SECRET\nemail=me@example.org\nscript-shell=/bin/evil\n";
        let kept = only(text, Lines::EachByItself, is_carried);
        assert!(kept.contains("registry=https://npm.example.org/all/\n"), "{kept}");
        assert!(kept.contains("@acme:registry = https://npm.acme.example\n"), "{kept}");
        for secret in ["SECRET", "hunter2", "token", "email", "evil"] {
            assert!(!kept.contains(secret), "{kept}");
        }
    }

    #[test]
    fn pip_keeps_sections_and_lists() {
        let is_carried = |key: &str| PIP.contains(&key);
        let text = "[global]\nindex-url = https://u:p@pypi.example.org/simple\nextra-index-url =\n    https://a.example/simple\n    \
                    https://x:y@b.example/simple\nproxy = http://me:pw@proxy.example:3128\n[install]\nuser = yes\n";
        let kept = only(text, Lines::GoOnIndented, is_carried);
        let expected = "[global]\nindex-url = https://pypi.example.org/simple\nextra-index-url =\n    https://a.example/simple\n    \
                        https://b.example/simple\n[install]\n";
        assert_eq!(kept.strip_prefix(MADE_BY).unwrap(), expected);
    }

    #[test]
    fn whatever_could_be_a_password_goes() {
        for line in ["registry=https://u:p@h.example/x", "registry=https://tok@h.example/x"] {
            assert_eq!(without_credentials(line), "registry=https://h.example/x");
        }
        for line in ["registry=https://u:pa/ss@h.example/x", "registry=https://u:p@ss@h.example/x"] {
            assert!(!without_credentials(line).contains("ss@") && !without_credentials(line).contains("pa/"), "{line}");
        }
    }
}
