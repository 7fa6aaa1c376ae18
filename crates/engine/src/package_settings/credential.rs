//! What can be a credential, by the name of a setting or by its value.

/// Wherever one of these is part of a name, the setting is left out. `author` is not `auth`.
const IN_NAMES: [&str; 19] = [
    "auth",
    "token",
    "passw",
    "phrase",
    "pwd",
    "secret",
    "cred",
    "apikey",
    "private",
    "otp",
    "session",
    "cookie",
    "login",
    "username",
    "signature",
    "bearer",
    "webhook",
    "accesscode",
    "keystring",
];
/// Left out where one of these is a whole part of a name: client certificates and their keys, who somebody is, and what the sandbox
/// has of its own.
const PARTS_OF_NAMES: [&str; 21] = [
    "key", "keyfile", "keys", "cert", "certfile", "certs", "pass", "pat", "pin", "email", "user", "proxy", "noproxy", "jwt", "sig",
    "sas", "psk", "pfx", "p12", "dsn", "ident",
];
/// How well-known tokens and keys begin.
const BEGINNINGS: [&str; 19] = [
    "npm_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "pypi-",
    "eyJ",
    "AKIA",
    "ASIA",
    "AKCp",
    "sk-",
    "xoxb-",
    "xoxp-",
    "hf_",
    "dckr_pat_",
];
const LONGEST_NAME: usize = 64;

/// Whether a name that nobody knows can be that of a credential, or be one itself.
pub(super) fn is_name_of_one(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
        return true;
    }
    let lower = name.to_ascii_lowercase();
    let without_authors = lower.replace("author", "");
    let joined = lower.replace(['-', '_', '.', ':'], "");
    IN_NAMES.iter().any(|part| without_authors.contains(part) || joined.replace("author", "").contains(part))
        || lower.split(['-', '_', '.', ':']).any(is_part_of_one)
        || begins_like_one(name)
        || name.split(['-', '_', '.', ':']).any(is_random)
}

fn is_part_of_one(part: &str) -> bool {
    let begins = ["pass", "pin", "pw", "hmac"].iter().any(|beginning| part.starts_with(beginning));
    let is_key = part.ends_with("key") && !["monkey", "hotkey", "turkey", "donkey"].contains(&part);
    PARTS_OF_NAMES.contains(&part) || is_key || begins
}

/// The value of a setting that is known to be harmless, without what stands in its URLs to prove who somebody is. `None` if it can
/// hold a credential nevertheless.
pub(super) fn cleaned(value: &str) -> Option<String> {
    if value.contains(|c: char| c.is_control() && c != '\t') {
        return None;
    }
    if !tells_its_users(value) {
        return None;
    }
    let clean = without_users(value)?;
    if clean.contains("-----BEGIN") || has_encoded(&clean) || names_one(&clean) || !has_plain_options(&clean) {
        return None;
    }
    let words = || clean.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '=' | '[' | ']'));
    let shows_one =
        words().any(|word| begins_like_one(word) || has_user(word) || is_scheme_of_authorization(word) || is_pair(word));
    (!shows_one).then_some(clean)
}

/// Whether it is certain what in it is a user's, as every program reads it: no `@`, or one in one plain URL. Quotes, queries and
/// fragments are read in more than one way.
fn tells_its_users(value: &str) -> bool {
    let Some((before, _)) = value.rsplit_once('@') else {
        return value.contains("://") || !value.contains('?');
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._~:/%+-@".contains(c);
    before.matches("://").count() == 1 && before.chars().all(is_plain)
}

/// Certificates of an authority and nothing else, as far as can be told: one in base 64 begins with these two letters.
pub(super) fn of_certificates(value: &str) -> Option<String> {
    let is_base_64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | ' ');
    let bare = value.trim_matches(['"', '\'']);
    let (before, certificates) = bare.split_once("-----BEGIN CERTIFICATE-----")?;
    let is_one = |text: &str| {
        let text = text.trim().strip_suffix("-----END CERTIFICATE-----").unwrap_or(text).trim();
        text.starts_with("MI") && text.chars().all(is_base_64)
    };
    (before.is_empty() && certificates.split("-----BEGIN CERTIFICATE-----").all(is_one)).then(|| value.to_owned())
}

/// The name of a program or its path, and no arguments: they may be anything.
pub(super) fn of_program(value: &str) -> Option<String> {
    let bare = value.trim_matches(['"', '\'']);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/+-".contains(c);
    (!bare.starts_with('-') && bare.chars().all(is_plain)).then(|| cleaned(value)).flatten()
}

/// Options without values, or with numbers.
pub(super) fn of_options(value: &str) -> Option<String> {
    let bare = value.trim_matches(['"', '\'']);
    bare.split_whitespace().all(is_plain_option).then(|| cleaned(value)).flatten()
}

/// Of a mirror: a URL, or whether to use it.
pub(super) fn of_mirror(value: &str) -> Option<String> {
    let clean = cleaned_strictly(value)?;
    let bare = clean.trim_matches(['"', '\'']);
    (matches!(bare, "true" | "false" | "0" | "1") || bare.starts_with("https://") || bare.starts_with("http://")).then_some(clean)
}

/// Whether it names one, as in `--password=x`.
fn names_one(value: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    value.match_indices('=').any(|(at, _)| {
        let name = value[..at].rsplit(|c| !is_of_name(c)).next().unwrap_or_default();
        is_name_of_one(name.trim_start_matches('-'))
    })
}

/// What may be a credential to those that decode it.
fn has_encoded(value: &str) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    value.match_indices('%').any(|(at, _)| {
        let behind = &value.as_bytes()[at + 1..];
        is_digit(behind.first()) && is_digit(behind.get(1))
    })
}

/// Whether there are no options in it, or nothing but plain ones: what stands behind one is its value, and may be a password.
fn has_plain_options(value: &str) -> bool {
    let words = || value.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).filter(|word| !word.is_empty());
    let is_option = |word: &str| word.starts_with('-') && word.len() > 1;
    !words().any(is_option) || words().all(is_plain_option)
}

fn is_plain_option(word: &str) -> bool {
    let Some(option) = word.strip_prefix('-') else { return false };
    let option = option.strip_prefix('-').unwrap_or(option);
    let (name, number) = option.split_once('=').unwrap_or((option, "0"));
    !is_name_of_one(name) && number.len() <= 6 && number.bytes().all(|b| b.is_ascii_digit())
}

/// `name:something` outside a URL, unless that is a port, a time, an address or one of pip's words.
fn is_pair(word: &str) -> bool {
    let Some((name, rest)) = word.split_once(':').filter(|_| !word.contains("://")) else { return false };
    let is_time_or_address = |c: char| c.is_ascii_hexdigit() || matches!(c, '-' | ':' | '.' | 'T' | 'Z' | '+');
    let is_port = rest.len() <= 5 && rest.bytes().all(|b| b.is_ascii_digit()) && (name.contains('.') || name == "localhost");
    let is_plain = word.matches(':').count() > 1 && word.len() <= 39 && word.chars().all(is_time_or_address);
    !is_port && !is_plain && !matches!(word, ":all:" | ":none:")
}

/// The value of any other setting.
pub(super) fn cleaned_strictly(value: &str) -> Option<String> {
    let clean = cleaned(value)?;
    (!looks_random(&clean)).then_some(clean)
}

fn looks_random(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.split(|c: char| !is_part(c)).any(|word| {
        let joined = word.replace(['-', '_'], "");
        is_hexadecimal(&joined) || word.split(['-', '_']).any(is_random)
    })
}

/// Nothing that a person would have written as a word or a number.
fn is_random(part: &str) -> bool {
    let has = |is: fn(&char) -> bool| part.chars().any(|c| is(&c));
    let [upper, lower, digit] = [char::is_ascii_uppercase, char::is_ascii_lowercase, char::is_ascii_digit].map(has);
    match part.len() {
        0..16 => false,
        16..20 => digit,
        20..32 => digit || (upper && lower),
        _ => true,
    }
}

/// A number of many digits to the base of 16, such as a UUID.
fn is_hexadecimal(joined: &str) -> bool {
    joined.len() >= 16 && joined.chars().all(|c| c.is_ascii_hexdigit()) && joined.contains(|c: char| c.is_ascii_digit())
}

fn begins_like_one(word: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| word.len() > beginning.len() + 8 && word.starts_with(beginning))
}

/// `user:password@host`, without a scheme in front of it.
fn has_user(word: &str) -> bool {
    word.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

fn is_scheme_of_authorization(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

/// No user and password before a host, and no question behind it. `None` if a part of a path can be a token.
fn without_users(line: &str) -> Option<String> {
    let mut clean = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = url.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(url.len());
        let (url, behind) = url.split_at(end);
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = url.find(['/', '\\']).map_or((url, ""), |slash| url.split_at(slash));
        // A password may have a slash in it, so whatever stands before the last sign of a user goes.
        let host = match path.rsplit_once('@') {
            Some((_, last)) if !authority.contains('.') || authority.contains(':') => last,
            _ => authority.rsplit('@').next().unwrap_or_default(),
        };
        if !is_plain_host(host) || path.contains(':') {
            return None;
        }
        clean.push_str(host);
        if !path.contains('@') {
            if looks_random(path) {
                return None;
            }
            clean.push_str(path);
        }
        rest = behind;
    }
    clean.push_str(rest);
    Some(clean)
}

/// With a port or without, or none at all as in `file:///`. What else stands behind a colon is a password.
fn is_plain_host(host: &str) -> bool {
    let is_of_address = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.chars().all(is_of_address) => ("", port.strip_prefix(':').unwrap_or(port)),
        Some(_) => return false,
        None => host.split_once(':').unwrap_or((host, "")),
    };
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().all(is_of_name) && port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_their_parts() {
        for name in [
            "_auth",
            "_authToken",
            "auth",
            "AUTH_HEADER",
            "api-key",
            "apiKey",
            "my_password",
            "passwd",
            "cert",
            "certfile",
            "key",
            "client-cert",
            "https-proxy",
            "noproxy",
            "otp",
            "email",
            "github-token",
            "to-ken",
            "db.pass",
            "x y",
            "",
            "${X}",
            "\"key\"",
            "npm_AbCdEfGh12345678",
            "deadbeefdeadbeef1",
            "userName",
            "_pass-word",
            "sig",
            "sas",
            "psk",
            "client.pfx",
            "p12",
            "db-dsn",
            "slack-webhook",
            "access-code",
            "keystring",
            "seed-phrase",
        ] {
            assert!(is_name_of_one(name), "{name}");
        }
        for name in ["init-author-name", "sass-binary-site", "electron_mirror", "monkey", "keyboard", "certainly", "some.setting"] {
            assert!(!is_name_of_one(name), "{name}");
        }
    }

    #[test]
    fn values_of_unknown_settings_are_judged() {
        for value in [
            "npm_0123456789abcdefghij",
            "ghp_0123456789abcdef",
            "pypi-AgEIcHlwaS5vcmc",
            "eyJhbGciOiJIUzI1NiJ9",
            "AKIAIOSFODNN7EXAMPLE",
            "0123456789abcdef0123",
            "a1b2c3d4-e5f6-a7b8-c9d0-e1f2a3b4c5d6",
            "dXNlcjpwYXNzd29yZGFuZHNv",
            "user:pw@host/x",
            "Bearer x",
            "basic abc",
            "-----BEGIN RSA PRIVATE KEY-----",
            "a\u{1b}b",
            "https://h.example/0123456789abcdef0123/npm",
            "--password=x",
            "--password x",
            "--pw x",
            "curl -u u:x",
            "u:x",
            "https%3A%2F%2Fu:x%40h",
            "https://u:x%40h",
            "https://u:x/y",
            "https://h.example/u:x",
            "access-code=x",
        ] {
            assert_eq!(cleaned_strictly(value), None, "{value}");
        }
        for value in [
            "true",
            "/usr/include/node-v20.11.1",
            "https://mirror.example/electron/",
            "18.19.0",
            "a-long-name-of-many-words",
            "--max-old-space-size=4096 --no-warnings",
            "mirror.example:8080",
            "https://[::1]/x",
            "2026-01-01T00:00:00Z",
            ":all:",
            "%s",
            "file:///srv/wheels",
        ] {
            assert_eq!(cleaned_strictly(value).as_deref(), Some(value), "{value}");
        }
    }

    #[test]
    fn programs_have_no_arguments_and_options_no_words() {
        for program in ["/bin/bash", "vim", "\"/usr/bin/python3.11\""] {
            assert_eq!(of_program(program).as_deref(), Some(program));
        }
        for program in ["vim x", "/bin/sh -c x", "A=x sh", "npm_0123456789abcdefghij", "-x"] {
            assert_eq!(of_program(program), None, "{program}");
        }
        assert_eq!(of_options("--a-b -c --d=12").as_deref(), Some("--a-b -c --d=12"));
        for options in ["x", "-u x", "--title=x", "--pin=1234", "-px --secret"] {
            assert_eq!(of_options(options), None, "{options}");
        }
        for certificates in
            ["-----BEGIN CERTIFICATE----- x", "-----BEGIN PRIVATE KEY----- MII", "-----BEGIN CERTIFICATE----- MII a:b"]
        {
            assert_eq!(of_certificates(certificates), None, "{certificates}");
        }
        assert_eq!(of_mirror("x"), None);
    }

    #[test]
    fn whatever_could_be_a_password_goes() {
        for url in ["https://u:p@h.example/x", "https://tok@h.example/x", "https://h.example/x?token=1", "https://h.example/x#tok"]
        {
            assert_eq!(cleaned(url).as_deref(), Some("https://h.example/x"), "{url}");
        }
        for url in ["https://u:pa/ss@h.example/x", "https://u:p@ss@h.example/x", "https://u:pa\\ss@h.example/x"] {
            let clean = cleaned(url).unwrap_or_default();
            assert!(!clean.contains("ss@") && !clean.contains("pa"), "{url}: {clean}");
        }
    }
}
