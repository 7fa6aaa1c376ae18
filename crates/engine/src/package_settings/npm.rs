//! `.npmrc`: one setting a line, its value behind the first `=`. Names and values may be quoted like JSON, and what stands in `${}` is
//! taken from the environment.

use super::{Kept, credential, harmless, lines};

pub(super) fn without_credentials(text: &str) -> Kept {
    let mut kept = Kept::default();
    for line in lines(text).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with([';', '#'])) {
        // npm takes no setting from a section, and all that follows is in it.
        if line.starts_with('[') {
            kept.left_out += 1;
            break;
        }
        match setting(line) {
            Some(setting) => kept.keep(&setting),
            None => kept.left_out += 1,
        }
    }
    kept
}

fn setting(line: &str) -> Option<String> {
    let Some((name, value)) = line.split_once('=') else {
        // By itself a name means "true".
        return is_known(line).then(|| line.to_owned());
    };
    let (name, value) = (name.trim(), value_of(value)?);
    let plain = plain_name(name);
    let value = if matches!(plain.as_str(), "ca" | "cafile") && value.contains("-----BEGIN") {
        credential::of_certificates(value)?
    } else if harmless::PROGRAMS.contains(&plain.as_str()) {
        credential::of_program(value)?
    } else if harmless::OPTIONS.contains(&plain.as_str()) {
        credential::of_options(value)?
    } else if is_known(name) || is_registry_of_scope(name) {
        credential::cleaned_strictly(value)?
    } else if is_mirror(&plain) {
        credential::of_mirror(value)?
    } else {
        return None;
    };
    Some(format!("{name}={value}"))
}

/// A quoted value has no comment behind it, and no escape in it that would make something else of it.
fn value_of(text: &str) -> Option<&str> {
    let text = text.trim();
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        // A comment begins anywhere.
        let end = text.find([';', '#']).unwrap_or(text.len());
        return (!text.contains('\\')).then(|| text[..end].trim());
    };
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains([quote, '\\'])).then_some(text)
}

fn is_known(name: &str) -> bool {
    harmless::NPM.contains(&plain_name(name).as_str())
}

fn is_mirror(plain: &str) -> bool {
    harmless::MIRRORS.iter().any(|end| plain.ends_with(end)) && !credential::is_name_of_one(plain)
}

fn plain_name(name: &str) -> String {
    list_of(name).to_ascii_lowercase().replace('_', "-")
}

/// `name[]` adds to a list.
fn list_of(name: &str) -> &str {
    name.strip_suffix("[]").unwrap_or(name)
}

fn is_registry_of_scope(name: &str) -> bool {
    let scope = name.strip_prefix('@').and_then(|rest| rest.strip_suffix(":registry"));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    scope.is_some_and(|scope| !scope.is_empty() && scope.chars().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_settings_stay_and_credentials_go() {
        let kept = without_credentials(
            "registry=https://me:hunter2@npm.example.org/all/?token=x\n  //npm.example.org/:_authToken=SECRET\n\
             @acme:registry = https://npm.acme.example\nnodedir=/usr/include/nodejs\ncache = /data/npm-cache ; mine\n\
             strict-ssl\nscript-shell=/bin/bash\npublic-hoist-pattern[]=*types*\nsass_binary_site=https://mirror.example/sass\n\
             ca[]=\"-----BEGIN CERTIFICATE----- MIIabc\"\n_auth=SECRET\nemail=me@example.org\nproxy=http://u:SECRET@p.example:1\n\
             cert=SECRET\nkeyfile=/SECRET\nmy-setting=SECRET\nnode-options=--max-old-space-size=4096\n",
        );
        let expected = "registry=https://npm.example.org/all/\n@acme:registry=https://npm.acme.example\nnodedir=/usr/include/nodejs\n\
                        cache=/data/npm-cache\nstrict-ssl\nscript-shell=/bin/bash\npublic-hoist-pattern[]=*types*\n\
                        sass_binary_site=https://mirror.example/sass\nca[]=\"-----BEGIN CERTIFICATE----- MIIabc\"\nnode-options=--max-old-space-size=4096\n";
        assert_eq!(kept.lines, expected);
        assert_eq!(kept.left_out, 7);
    }

    #[test]
    fn nothing_hostile_gets_through() {
        for text in [
            "fund=false\r_auth=SECRET",
            "\"_auth\"=SECRET",
            "\"_\\u0061uth\"=SECRET",
            "'_authToken' = SECRET",
            "${X}_auth=SECRET",
            "_auth[]=SECRET",
            "_AUTH = SECRET",
            "[//h.example/]\n_authToken=SECRET\nfund=SECRET",
            "[x]\nfund=SECRET",
            "fund=\"a\" SECRET",
            "fund=\"a\\nSECRET\"",
            "//h.example/:username=SECRET",
            "@a b:registry=SECRET",
            "@x\"y:registry=SECRET",
            "# SECRET",
            ";_auth=SECRET",
            "fund=false # SECRET",
            "fund=false#SECRET",
            "SECRET",
            "registry=https://h.example/?SECRET",
            "registry=https://SECRET@h.example/",
            "registry=https://SECRET:x@h.example/",
            "registry=https://a:b/SECRET@h.example/",
            "registry=a:SECRET@h.example/",
            "registry = \"https://u:SECRET@h.example/\"",
            "https-proxy=http://u:SECRET@h.example",
            "mirror=u:SECRET@h.example",
            "npm_SECRET0123456789abc=1",
            "\u{feff}_auth=SECRET",
            "x\0_auth=SECRET",
            "fund=\u{0}SECRET",
            "name=user:SECRET",
            "fund=user:SECRET",
            "mirror=https%3A%2F%2Fu:SECRET%40h",
            "x_mirror=https%3A%2F%2Fu:SECRET%40h",
            "x_mirror=SECRET",
            "registry=https://u:SECRET%40h",
            "registry=https://u:SECRET",
            "node-options=--password SECRET",
            "node-options=SECRET",
            "node-options=--title=SECRET",
            "editor=vim SECRET",
            "editor=vim --pw SECRET",
            "script-shell=/bin/curl -u u:SECRET",
            "message=--password SECRET",
            "fund=password=SECRET",
            "sig=SECRET",
            "access-code=SECRET",
            "fund=\"-----BEGIN CERTIFICATE----- SECRET\"",
            "ca=\"-----BEGIN CERTIFICATE----- SECRET\"",
            "ca=\"-----BEGIN CERTIFICATE----- MII -----BEGIN PRIVATE KEY----- SECRET\"",
        ] {
            let shown = without_credentials(text).shown();
            assert!(!shown.contains("SECRET"), "{text:?}: {shown}");
        }
    }
}
