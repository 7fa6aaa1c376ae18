//! Which paths the value of a setting names.

use std::path::{Path, PathBuf};

use super::settings::Setting;

/// How a path is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A directory whose files are run, such as that of the hooks.
    Directory,
    /// A file, or everything in a directory.
    Path,
    /// One word of a command, which is one path at most.
    Word,
}

/// Text for people, and lists of repositories.
const HARMLESS: [&str; 9] = ["user", "author", "committer", "color", "branch", "advice", "safe", "maintenance", "gui"];
/// Files that git shows or compares with, and does not obey.
const SHOWN: [&str; 3] = ["commit.template", "core.excludesfile", "blame.ignorerevsfile"];
const DIRECTORIES: [&str; 2] = ["core.hookspath", "init.templatedir"];
const FILES: [&str; 2] = ["core.attributesfile", "gpg.allowedsignersfile"];
/// What follows these is run, or is where something is run.
const INTERPRETERS: [&str; 19] = [
    "sh", "bash", "dash", "zsh", "ksh", "fish", "python", "pypy", "node", "deno", "bun", "perl", "ruby", "php", "lua", "rscript",
    "make", "cd", "source",
];

/// What a setting names. Which settings are commands is not listed, since git keeps inventing some: a word with a `/` counts in any.
pub(super) fn of(setting: &Setting) -> Vec<(Named, String)> {
    let value = setting.value.trim_start_matches(":(optional)");
    let key = setting.key.as_str();
    let section = key.split_once('.').map_or(key, |(section, _)| section);
    if HARMLESS.contains(&section) || SHOWN.contains(&key) || value.is_empty() {
        return Vec::new();
    }
    if DIRECTORIES.contains(&key) {
        return vec![(Named::Directory, value.to_owned())];
    }
    if FILES.contains(&key) {
        return vec![(Named::Path, value.to_owned())];
    }
    // An alias without the mark is one of git's own commands.
    let is_plain_alias = section == "alias" && !value.starts_with('!');
    in_command(value.trim_start_matches('!'), is_plain_alias)
}

fn in_command(command: &str, is_plain_alias: bool) -> Vec<(Named, String)> {
    let is_separator = |c: char| c.is_whitespace() || "'\"`;&|()<>{}=,:".contains(c);
    let words: Vec<&str> = command.split(is_separator).filter(|word| !word.is_empty()).collect();
    let interprets = words.iter().any(|word| is_interpreter(word));
    let mut named = Vec::new();
    for (number, word) in words.iter().enumerate().filter(|(_, word)| !word.starts_with('-')) {
        // A program without a directory is looked for elsewhere.
        if word.contains('/') || interprets && number > 0 && !is_plain_alias {
            named.push((Named::Path, (*word).to_owned()));
        } else if words.first() != Some(word) && !is_plain_alias {
            named.push((Named::Word, (*word).to_owned()));
        }
    }
    // A path may have spaces in it.
    let quoted = command.split(['\'', '"']).skip(1).step_by(2).chain([command]);
    named
        .extend(quoted.filter(|text| text.contains('/') && text.contains(is_separator)).map(|text| (Named::Path, text.to_owned())));
    named
}

fn is_interpreter(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word).to_ascii_lowercase();
    INTERPRETERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

/// Where a word leads, from the top of a work tree and from the homes. What a shell would put in its place is not known, and is
/// mostly one of the two.
pub(super) fn paths(word: &str, root: &Path, homes: &[PathBuf], is_in_shell: bool) -> Vec<PathBuf> {
    let anywhere = |rest: &str| homes.iter().map(PathBuf::as_path).chain([root]).map(|from| from.join(rest)).collect();
    let path = Path::new(word);
    match word.split_once('/') {
        Some((variable, rest)) if variable.starts_with('$') => anywhere(rest.trim_start_matches('/')),
        Some((home, rest)) if home.starts_with('~') => homes.iter().map(|from| from.join(rest.trim_start_matches('/'))).collect(),
        Some(("", rest)) if is_in_shell => [vec![path.to_owned()], anywhere(rest.trim_start_matches('/'))].concat(),
        _ => vec![root.join(path)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(key: &str, value: &str) -> Vec<(Named, String)> {
        of(&Setting { key: key.to_owned(), value: value.to_owned() })
    }

    #[test]
    fn programs_of_the_search_path_are_no_files_of_the_project() {
        for (key, value) in [("core.editor", "code --wait"), ("core.pager", "less"), ("credential.helper", "store")] {
            assert!(named(key, value).is_empty(), "{value}");
        }
        for (key, value) in
            [("init.defaultbranch", "main"), ("user.name", "a/b c"), ("alias.lg", "log docs"), ("commit.template", "a/b")]
        {
            assert!(named(key, value).is_empty(), "{value}");
        }
        assert_eq!(named("filter.clean", "git-lfs clean -- %f")[0], (Named::Word, "clean".to_owned()));
    }

    #[test]
    fn every_word_with_a_directory_counts_and_every_one_an_interpreter_gets() {
        let path = |word: &str| (Named::Path, word.to_owned());
        assert_eq!(named("hook.command", "./a/b -x"), [path("./a/b"), path("./a/b -x")]);
        assert!(named("filter.clean", "/usr/bin/python3.11 clean.py").contains(&path("clean.py")));
        assert!(named("diff.textconv", "x --rules=a/b").contains(&path("a/b")));
        assert!(named("diff.command", "\"a dir/b\" x").contains(&path("a dir/b")));
        assert_eq!(named("core.hookspath", "hooks"), [(Named::Directory, "hooks".to_owned())]);
    }

    #[test]
    fn words_lead_from_the_work_tree_and_the_home() {
        let paths = |word: &str, is_in_shell| paths(word, Path::new("/r"), &[PathBuf::from("/h")], is_in_shell);
        let expect = |of: &[&str]| of.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(paths("a/b", false), expect(&["/r/a/b"]));
        assert_eq!(paths("~/b", false), expect(&["/h/b"]));
        assert_eq!(paths("$X/b", true), expect(&["/h/b", "/r/b"]));
        assert_eq!(paths("/a/b", true), expect(&["/a/b", "/h/a/b", "/r/a/b"]));
        assert_eq!(paths("/a/b", false), expect(&["/a/b"]));
    }
}
