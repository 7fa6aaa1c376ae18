//! `whatif PROGRAM …`: a program in the place of a verb. A verb always wins.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::CommandFactory;

use super::{Cli, command_words};

/// The program that is named where a verb belongs.
pub(super) fn named(arguments: &[OsString]) -> Option<OsString> {
    let word = &arguments[command_words::verb(arguments)?];
    (!is_verb(word) && is_program(word)).then(|| word.clone())
}

/// The verb, if there is also a program of that name.
pub(super) fn named_like_a_command(arguments: &[OsString]) -> Option<&OsString> {
    let word = &arguments[command_words::verb(arguments)?];
    (is_verb(word) && is_program(word)).then_some(word)
}

fn is_verb(word: &OsStr) -> bool {
    // The others are too frequent to ask the parser, which would have to be built for it.
    word == "run" || word == "exec" || word == "help" || Cli::command().find_subcommand(word).is_some()
}

/// As a shell would look for it: in PATH, or where its path leads.
pub fn is_program(word: &OsStr) -> bool {
    if word.is_empty() {
        return false;
    }
    if word.as_bytes().contains(&b'/') {
        return is_executable(Path::new(word));
    }
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|directory| is_executable(&directory.join(word))))
}

fn is_executable(path: &Path) -> bool {
    // One that cannot be examined cannot be run either.
    std::fs::metadata(path).is_ok_and(|file| file.is_file()) && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
