//! Where the command begins that is to be run inside: `run [OPTION…] COMMAND…`, `exec [OPTION…] NAME [OPTION…] COMMAND…`.
//!
//! Everything from its first word on belongs to it, options too. `--` is put before it, so that the parser need not know.

use std::ffi::OsString;

use clap::{Args, Command};
use whatif_types::grants::Gpu;

use crate::commands::{exec, run};

/// The arguments with `--` before the command, or before the program that stands in the place of a verb.
pub(super) fn marked(mut arguments: Vec<OsString>, program: Option<&OsString>) -> Vec<OsString> {
    let Some(verb) = verb(&arguments) else { return arguments };
    if program.is_some() {
        arguments.splice(verb..verb, ["run".into(), "--".into()]);
    } else if let Some(place) = place(&arguments, verb) {
        arguments.insert(place, "--".into());
    }
    arguments
}

/// Where the verb stands.
pub(super) fn verb(arguments: &[OsString]) -> Option<usize> {
    (1..arguments.len()).find(|at| arguments[*at] != "--json").filter(|at| !arguments[*at].as_encoded_bytes().starts_with(b"-"))
}

/// What follows `exec` if that is one word, which names a sandbox, and perhaps options: the word and everything after it.
pub(super) fn only_a_name(arguments: &[OsString]) -> Option<&[OsString]> {
    let verb = verb(arguments).filter(|verb| arguments[*verb] == "exec")?;
    match words_after(arguments, verb, 2).as_slice() {
        [name] if !arguments.iter().any(|word| word == "--") => arguments.get(*name..),
        _ => None,
    }
}

/// Where the command begins, unless `--` says it.
fn place(arguments: &[OsString], verb: usize) -> Option<usize> {
    let before = match arguments[verb].to_str()? {
        "run" => 0,
        "exec" => 1,
        _ => return None,
    };
    words_after(arguments, verb, before + 1).get(before).copied()
}

/// Where the first words are that are no options and no values of options. What follows `--` does not count.
fn words_after(arguments: &[OsString], verb: usize, most: usize) -> Vec<usize> {
    let options = if arguments[verb] == "run" {
        run::Args::augment_args(Command::new("run"))
    } else {
        exec::Args::augment_args(Command::new("exec"))
    };
    let mut words = Vec::new();
    let mut at = verb + 1;
    while words.len() < most && at < arguments.len() && arguments[at] != "--" {
        if arguments[at].as_encoded_bytes().starts_with(b"-") && arguments[at] != "-" {
            at += usize::from(is_followed_by_its_value(&arguments[at..], &options));
        } else {
            words.push(at);
        }
        at += 1;
    }
    words
}

fn is_followed_by_its_value(words: &[OsString], options: &Command) -> bool {
    let Some(option) = words[0].to_str() else { return false };
    // `--gpu` can have a value, and a command is none.
    if option == "--gpu" {
        return words.get(1).and_then(|word| word.to_str()).is_some_and(|word| word.parse::<Gpu>().is_ok());
    }
    let takes_a_value = |long: &str| options.get_arguments().any(|a| a.get_long() == Some(long) && a.get_action().takes_values());
    let takes_one = |short: char| options.get_arguments().any(|a| a.get_short() == Some(short) && a.get_action().takes_values());
    match option.strip_prefix("--") {
        Some(long) => takes_a_value(long),
        // Of `-it`, the last may take one; whatever follows an earlier one that does is its value.
        None => option.chars().skip(1).find(|short| takes_one(*short)).is_some_and(|short| option.ends_with(short)),
    }
}

#[cfg(test)]
mod tests {
    use std::iter::once;

    use super::*;

    fn mark(line: &str) -> String {
        let words = once("whatif").chain(line.split(' ')).map(OsString::from).collect();
        let marked = marked(words, None);
        marked.iter().skip(1).map(|word| word.to_str().expect("it was text")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_command_begins_with_the_first_word_that_is_no_option() {
        for (line, marked) in [
            ("run ls -l", "run -- ls -l"),
            ("run --rm ls --rm", "run --rm -- ls --rm"),
            ("run --name x --env A=1 -q make -- y", "run --name x --env A=1 -q -- make -- y"),
            ("run --name=x make", "run --name=x -- make"),
            ("--json run make --json", "--json run -- make --json"),
            ("run --publish 80 serve", "run --publish 80 -- serve"),
            ("run --cpus 1 --memory 1G --net none x", "run --cpus 1 --memory 1G --net none -- x"),
            ("run --gpu nvidia-smi -q", "run --gpu -- nvidia-smi -q"),
            ("run --gpu 0,1 --device /dev/kvm x all", "run --gpu 0,1 --device /dev/kvm -- x all"),
            ("exec s ls -l", "exec s -- ls -l"),
            ("exec s -d --cwd /x ls -l", "exec s -d --cwd /x -- ls -l"),
            ("exec -it s git log -- x", "exec -it s -- git log -- x"),
        ] {
            assert_eq!(mark(line), marked);
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for line in [
            "run -- ls",
            "run --rm -- ls -- x",
            "exec -- ls -l",
            "exec s -- ls",
            "exec s",
            "exec ls -l",
            "run",
            "run --rm",
            "rm run x",
            "apply s",
            "--json",
        ] {
            assert_eq!(mark(line), line);
        }
    }
}
