//! Credentials within a value: in URLs, before a host, and behind options.

use super::names_a_secret;

/// Options by which programs are told who signs in, as `user:password`.
const OPTIONS_WITH_USERS: [&str; 5] = ["--user", "--proxy-user", "--basic-auth", "-u", "-U"];

/// `scheme://user:password@host`; for the web also a user alone, which may be a token, and a question that may hold one. Every URL
/// in a value counts.
pub(super) fn has_credential_in_url(value: &str) -> bool {
    // Most values have none, and a search for one letter is quicker than one for three.
    if value.contains('%') && has_encoded_user(value) {
        return true;
    }
    if !value.contains(':') {
        return false;
    }
    let mut before = "";
    value.split("://").enumerate().any(|(at, rest)| {
        let is_of_web = at > 0 && is_scheme_of_web(before);
        before = rest;
        at > 0 && is_with_credential(rest, is_of_web)
    })
}

fn is_scheme_of_web(before: &str) -> bool {
    let scheme = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

fn is_with_credential(rest: &str, is_of_web: bool) -> bool {
    let url = words(rest).next().unwrap_or_default();
    let authority = url.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    if let Some((user, _)) = authority.rsplit_once('@') {
        return is_of_web || user.split_once(':').is_some_and(|(_, password)| !password.is_empty());
    }
    // A password may have a slash in it.
    let has_slash_in_password = url.contains('@') && authority.split_once(':').is_some_and(|(_, port)| !is_port(port));
    has_slash_in_password && !authority.starts_with('[') || (is_of_web && asks_with_credential(url))
}

fn is_port(text: &str) -> bool {
    text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit())
}

/// `?TOKEN` or `?sig=…`.
fn asks_with_credential(url: &str) -> bool {
    let Some((_, query)) = url.split_once('?') else { return false };
    let query = query.split('#').next().unwrap_or_default();
    query.split('&').filter(|one| !one.is_empty()).any(|one| match one.split_once('=') {
        Some((name, value)) => names_a_secret(&plain(name)) || super::looks_random(value),
        None => true,
    })
}

/// `https%3A%2F%2Fuser:password%40host`, or a part of it encoded.
fn has_encoded_user(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    lower.split_once("%40").is_some_and(|(before, _)| before.contains("://") || before.contains("%2f%2f"))
        || (lower.contains("%3a%2f%2f") && lower.contains('@'))
}

/// `user:password@host`, without a scheme in front of it. A list of paths is none.
pub(super) fn has_user_before_host(value: &str) -> bool {
    value.contains('@')
        && words(value).any(|word| {
            let user = word.rsplit_once('@').and_then(|(before, _)| before.split_once(':'));
            user.is_some_and(|(name, password)| {
                !name.is_empty() && !password.is_empty() && !name.contains('/') && !password.contains('/')
            })
        })
}

/// A proxy needs no `@` but for who uses it.
pub(super) fn is_proxy_with_user(name: &str, value: &str) -> bool {
    value.contains('@') && name.to_ascii_uppercase().ends_with("PROXY")
}

/// `-u user:password`, `--password x`, `-H "Authorization: …"`.
pub(super) fn has_option_with_credential(value: &str) -> bool {
    if !value.contains('-') {
        return false;
    }
    if value.to_ascii_lowercase().contains("authorization:") {
        return true;
    }
    let mut before = "";
    words(value).any(|word| {
        let behind_user = OPTIONS_WITH_USERS.contains(&before) && word.contains(':');
        before = word;
        behind_user || is_option_with_user(word) || is_option_of_credential(word)
    })
}

fn is_option_with_user(word: &str) -> bool {
    OPTIONS_WITH_USERS.iter().filter_map(|option| word.strip_prefix(option)).any(|user| {
        let user = user.trim_start_matches('=');
        user.split_once(':').is_some_and(|(_, password)| !password.is_empty())
    })
}

fn is_option_of_credential(word: &str) -> bool {
    word.strip_prefix("--").is_some_and(|option| names_a_secret(&plain(option.split('=').next().unwrap_or_default())))
}

/// As the name of a variable would be written.
fn plain(name: &str) -> String {
    name.replace(['-', '.'], "_")
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '|')).filter(|word| !word.is_empty())
}
