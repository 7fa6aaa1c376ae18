//! Debian's package manager says where its lists are; the lists are read here.

use std::path::{Path, PathBuf};

use crate::answers::Answers;
use crate::ask::{AskError, Question};
use crate::files;
use crate::place::Place;
use crate::surroundings::Surroundings;

const TOOL: &str = "apt";

pub(crate) fn ask(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    let Some(program) = surroundings.program("apt-config") else { return answers };
    match settings(&program, surroundings) {
        Ok(settings) => {
            for proxy in settings.proxies.iter().filter(|proxy| !proxy.eq_ignore_ascii_case("direct")) {
                answers.url(TOOL, proxy, "the proxy in apt.conf");
            }
            settings.lists().iter().for_each(|list| read_list(list, surroundings, &mut answers));
        }
        Err(error) => answers.unanswered(format!("apt-config {error}")),
    }
    answers
}

#[derive(Debug, Default)]
struct Settings {
    list: Option<PathBuf>,
    parts: Option<PathBuf>,
    proxies: Vec<String>,
}

fn settings(program: &Path, surroundings: &Surroundings<'_>) -> Result<Settings, AskError> {
    let paths = Question::new(program, surroundings);
    let paths = paths.args(["shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]).ask()?;
    let path = |name: &str| {
        let value = paths.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("='")?.strip_suffix('\''));
        value.filter(|value| !value.contains('\'')).map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let dump = Question::new(program, surroundings).args(["dump"]).ask()?;
    Ok(Settings { list: path("LIST"), parts: path("PARTS"), proxies: dump.lines().filter_map(proxy).collect() })
}

/// From `Acquire::http::Proxy "http://proxy.example:3142";`.
fn proxy(line: &str) -> Option<String> {
    let (key, value) = line.split_once(' ')?;
    let key = key.to_ascii_lowercase();
    let rest = key.strip_prefix("acquire::http::proxy").or_else(|| key.strip_prefix("acquire::https::proxy"))?;
    let value = value.strip_prefix('"')?.strip_suffix("\";")?;
    ((rest.is_empty() || rest.starts_with("::")) && !value.is_empty()).then(|| value.to_owned())
}

impl Settings {
    fn lists(&self) -> Vec<PathBuf> {
        let parts = self.parts.iter().flat_map(|directory| files::list(directory));
        let is_list = |path: &PathBuf| path.extension().is_some_and(|e| e == "list" || e == "sources");
        self.list.iter().cloned().chain(parts.filter(is_list)).collect()
    }
}

fn read_list(path: &Path, surroundings: &Surroundings<'_>, answers: &mut Answers) {
    let Some(text) = files::text(path, surroundings) else { return };
    let said = files::shown(path, surroundings.home);
    let is_deb822 = path.extension().is_some_and(|e| e == "sources");
    let uris = if is_deb822 { stanza_uris(&text) } else { text.lines().filter_map(line_uri).collect() };
    for uri in uris {
        match mirror_list(uri) {
            Some(file) => read_mirrors(Path::new(file), surroundings, answers),
            None => answers.place(TOOL, Place::of_url(uri), &said),
        }
    }
}

/// From `deb [options] uri suite component…`.
fn line_uri(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = line.strip_prefix("deb-src").or_else(|| line.strip_prefix("deb"))?;
    let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
    let rest = if rest.starts_with('[') { rest.split_once(']')?.1 } else { rest };
    rest.split_whitespace().next()
}

/// From `URIs:` of each paragraph that is not switched off.
fn stanza_uris(text: &str) -> Vec<&str> {
    let mut uris = Vec::new();
    let mut stanza = Vec::new();
    let mut is_on = true;
    let mut is_uris = false;
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            if is_on {
                uris.append(&mut stanza);
            }
            (is_on, is_uris) = (true, false);
            stanza.clear();
        } else if line.starts_with('#') {
        } else if line.starts_with([' ', '\t']) {
            if is_uris {
                stanza.extend(line.split_whitespace());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            is_uris = name.eq_ignore_ascii_case("URIs");
            if is_uris {
                stanza.extend(value.split_whitespace());
            }
            if name.eq_ignore_ascii_case("Enabled") {
                let value = value.trim().to_ascii_lowercase();
                is_on = !matches!(value.as_str(), "no" | "false" | "without" | "off" | "disable" | "0");
            }
        }
    }
    uris
}

/// A file on this machine that lists mirrors.
fn mirror_list(uri: &str) -> Option<&str> {
    let path = uri.strip_prefix("mirror+file:")?;
    Some(path.strip_prefix("//").unwrap_or(path)).filter(|path| path.starts_with('/'))
}

fn read_mirrors(path: &Path, surroundings: &Surroundings<'_>, answers: &mut Answers) {
    let Some(text) = files::text(path, surroundings) else { return };
    let said = files::shown(path, surroundings.home);
    for line in text.lines() {
        let uri = line.split_whitespace().next().filter(|uri| !uri.starts_with('#'));
        uri.into_iter().for_each(|uri| answers.place(TOOL, Place::of_url(uri), &said));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_sources() {
        for (line, uri) in [
            ("deb http://a.example/debian stable main", Some("http://a.example/debian")),
            ("deb-src\thttp://a.example/debian stable main", Some("http://a.example/debian")),
            ("  deb [arch=amd64 signed-by=/x] https://a.example/ ./", Some("https://a.example/")),
            ("# deb http://a.example/ x", None),
            ("debug http://a.example/ x", None),
            ("deb [arch=amd64 https://a.example/ x", None),
            ("deb", None),
            ("", None),
        ] {
            assert_eq!(line_uri(line), uri, "{line}");
        }
    }

    #[test]
    fn paragraphs_of_sources() {
        let text = "Types: deb\n# URIs: http://comment.example/\nURIs: http://a.example/x\n  https://b.example/\nSuites: x\n\n\
                    Types: deb\nEnabled: no\nURIs: http://off.example/\n\nuris: http://c.example/\nSuites: y\n http://not.example/\n";
        assert_eq!(stanza_uris(text), ["http://a.example/x", "https://b.example/", "http://c.example/"]);
    }

    #[test]
    fn proxies_of_one_host_count_too() {
        assert_eq!(proxy("Acquire::http::Proxy \"http://p.example:3142\";").as_deref(), Some("http://p.example:3142"));
        assert_eq!(proxy("Acquire::http::proxy::a.example \"DIRECT\";").as_deref(), Some("DIRECT"));
        assert_eq!(proxy("Acquire::http::Proxy-Auto-Detect \"/usr/bin/x\";"), None);
        assert_eq!(proxy("Acquire::http::Proxy \"\";"), None);
    }
}
