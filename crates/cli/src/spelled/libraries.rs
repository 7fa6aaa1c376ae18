//! No library spells a command line: whoever adds one to an error learns of it here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

use crate::args::Cli;

/// What is left in libraries: a source, and what its strings have in them. None of them is a remedy of an error.
const EXCEPTIONS: [(&str, &str); 23] = [
    // Git's log has them, for whoever reads that.
    ("engine/src/changes/commit/reference.rs", "whatif apply"),
    // Notes about a path, and what helps against what the doctor finds.
    ("engine/src/changes/rebase.rs", "choose a side with apply --ours or --theirs"),
    ("provider/src/native/probe.rs", "even with --net host"),
    ("engine/src/doctor/sandboxes.rs", "whatif gc"),
    ("engine/src/doctor/sandboxes.rs", "whatif stop {0} && whatif start {0}"),
    ("engine/src/doctor/sandboxes.rs", "'whatif rm NAME' gives up what is left"),
    // The first line of a file that is for administrators; and what root does in a shell, which no client can do for them.
    ("engine/src/doctor/fix.rs", "# Written by 'whatif doctor --fix'"),
    ("engine/src/doctor/fix.rs", "'whatif doctor' says which options"),
    ("provider/src/native/obstacle.rs", "doctor --fix"),
    ("engine/src/doctor/storage.rs", "remove sandboxes (whatif ls, whatif rm NAME)"),
    ("engine/src/doctor/trial.rs", "at once with: --backend overlay"),
    ("engine/src/doctor/trial.rs", "until then: --net none or --net host"),
    // The log of a network is kept with them, and older ones are still read.
    ("engine/src/network/decisions.rs", "--net allow="),
    ("inject/src/rewrite.rs", "to send it there: --field"),
    ("netpolicy/src/policy/reason.rs", "--net allow={rule}"),
    ("supervisor/src/answers.rs", "--net allow="),
    ("supervisor/src/answers.rs", "whatif net allow {sandbox} {rule}"),
    ("supervisor/src/reach.rs", "--reach localhost:{port}"),
    ("supervisor/src/verdict.rs", "a service here is reached with --reach localhost:PORT"),
    // Why a rule or an address is not understood, wherever it was written.
    ("netpolicy/src/rule/text.rs", "use --net host for everything"),
    ("registries/src/place.rs", "use --reach localhost:{0} for it"),
    ("types/src/network/wish.rs", "for a service of this machine use --reach localhost:PORT"),
    ("types/src/network/wish.rs", "--reach is for services of this machine"),
];

#[test]
fn no_library_spells_commands_or_options() {
    let words = Words::of_the_command_line();
    let mut found = Vec::new();
    let mut looked_at = 0;
    for source in sources() {
        let name = source.strip_prefix(crates()).unwrap_or(&source).display().to_string();
        looked_at += 1;
        let text = fs::read_to_string(&source).unwrap();
        let is_known = |literal: &String| EXCEPTIONS.iter().any(|(file, part)| *file == name && literal.contains(part));
        let spelled = literals(without_tests(&text)).filter(|literal| words.are_in(literal) && !is_known(literal));
        found.extend(spelled.map(|literal| format!("{name}: {literal}")));
    }
    assert!(looked_at > 300, "{looked_at}");
    assert!(found.is_empty(), "name them as data (whatif_types::remedy):\n{}", found.join("\n"));
}

#[test]
fn exceptions_are_needed() {
    let words = Words::of_the_command_line();
    for (name, part) in EXCEPTIONS {
        let text = fs::read_to_string(crates().join(name)).unwrap();
        let is_there = literals(without_tests(&text)).any(|literal| words.are_in(&literal) && literal.contains(part));
        assert!(is_there, "{name} has no '{part}' any more");
    }
}

#[test]
fn command_lines_are_recognized() {
    let words = Words::of_the_command_line();
    for spelled in ["whatif rm {name}", "'whatif ls' lists them", "choose: --ours PATH", "leave it out (--exclude)", "--mask is no"]
    {
        assert!(words.are_in(spelled), "{spelled}");
    }
    for plain in ["whatif itself failed", "--exclude", "git rebase --abort", "a file of whatif", "run whatif as root"] {
        assert!(!words.are_in(plain), "{plain}");
    }
    let text = "let a = \"one \\\" --ours\"; // \"two\"\nlet b = 'x'; let c = '\"'; r#\"three \"4\"\"#;\n#[cfg(test)]\nmod tests {\"five\"}";
    assert_eq!(literals(without_tests(text)).collect::<Vec<_>>(), ["one \\\" --ours", "three \"4\""]);
}

/// The verbs and options that there are.
struct Words {
    verbs: BTreeSet<String>,
    options: BTreeSet<String>,
}

impl Words {
    fn of_the_command_line() -> Self {
        let mut words = Self { verbs: BTreeSet::new(), options: BTreeSet::new() };
        let mut cli = Cli::command();
        cli.build();
        words.verbs.extend(cli.get_subcommands().map(|verb| verb.get_name().to_owned()));
        words.add_options(&cli);
        words
    }

    fn add_options(&mut self, command: &clap::Command) {
        self.options.extend(command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)));
        command.get_subcommands().for_each(|verb| self.add_options(verb));
    }

    fn are_in(&self, literal: &str) -> bool {
        let word_at = |at: usize| {
            let rest = &literal[at..];
            &rest[..rest.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(rest.len())]
        };
        let verb = literal.match_indices("whatif ").any(|(at, before)| self.verbs.contains(word_at(at + before.len())));
        // One word alone is an argument for another program.
        let begins = |at: usize| at == 0 || literal[..at].ends_with([' ', '(', '\'', '"']);
        let mut options = literal.match_indices("--").filter(|(at, _)| begins(*at));
        verb || literal.contains(' ') && options.any(|(at, dashes)| self.options.contains(word_at(at + dashes.len())))
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Of all crates but those of clients and those that are tests themselves.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().path()).collect();
    left.retain(|path| !["cli", "daemon", "store-suite"].iter().any(|name| path.ends_with(name)));
    left.iter_mut().for_each(|path| path.push("src"));
    while let Some(path) = left.pop() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            found.push(path);
        }
    }
    found
}

fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(before, _)| before)
}

/// The strings in a source, as they are written there.
fn literals(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(['"', '/', '\''])?;
            let hashes = rest[..at].len() - rest[..at].trim_end_matches('#').len();
            let is_raw = rest[..at - hashes].ends_with('r');
            rest = &rest[at..];
            if rest.starts_with("//") {
                rest = rest.split_once('\n').map_or("", |(_, after)| after);
            } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
                rest = &rest[3..];
            } else if let Some(inner) = rest.strip_prefix('"') {
                let end = if is_raw { inner.find(&format!("\"{}", "#".repeat(hashes)))? } else { end_of(inner)? };
                let literal = inner[..end].to_owned();
                rest = &inner[end + 1..];
                return Some(literal);
            } else {
                rest = &rest[1..];
            }
        }
    })
}

/// Where the quote is that no backslash hides.
fn end_of(inner: &str) -> Option<usize> {
    let mut is_hidden = false;
    inner.bytes().position(|byte| {
        let ends = byte == b'"' && !is_hidden;
        is_hidden = byte == b'\\' && !is_hidden;
        ends
    })
}
