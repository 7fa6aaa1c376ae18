//! The page about every command and option, which is made from what `--help` says. `WHATIF_REFERENCE=write` brings it up to date.

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use crate::args::Cli;

#[test]
fn the_reference_says_what_help_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let page = page();
    if std::env::var("WHATIF_REFERENCE").is_ok_and(|what| what == "write") {
        std::fs::write(&path, &page).expect("the documentation can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = page.lines().zip(written.lines()).find(|(expected, written)| expected != written);
    assert!(page == written, "docs/reference.md is not up to date: WHATIF_REFERENCE=write\n{differing:#?}");
}

fn page() -> String {
    let mut command = Cli::command();
    command.build();
    let mut page =
        "# Reference\n\nEvery command and every option, as `whatif COMMAND --help` says it. This page is generated.\n".to_owned();
    page.push_str("[Commands](commands.md) is shorter, and says which command is for what.\n");
    for subcommand in command.get_subcommands() {
        describe(subcommand, "whatif", 2, &mut page);
    }
    page
}

fn describe(command: &Command, within: &str, level: usize, page: &mut String) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{within} {}", command.get_name());
    let _ = write!(page, "\n{} {name}\n\n", "#".repeat(level));
    page.push_str(&paragraphs(command.get_long_about().or(command.get_about())));
    let usage = command.clone().render_usage().to_string();
    let _ = write!(page, "\n```text\n{}\n```\n", usage.trim_start_matches("Usage:").trim().replace("\n       ", "\n"));
    let shown: Vec<&Arg> = command.get_arguments().filter(|argument| !argument.is_hide_set() && !is_everywhere(argument)).collect();
    if !shown.is_empty() {
        page.push('\n');
    }
    for argument in shown {
        let help = paragraphs(argument.get_long_help().or(argument.get_help()));
        let mut said = help.trim_end().replace("\n\n", "\n\n  ");
        let values: Vec<String> =
            argument.get_possible_values().iter().filter(|v| !v.is_hide_set()).map(|v| format!("`{}`", v.get_name())).collect();
        if argument.get_action().takes_values() && !values.is_empty() {
            let _ = write!(said, " One of: {}.", values.join(", "));
        }
        let _ = writeln!(page, "- `{}`: {said}", spelled(argument));
    }
    for subcommand in command.get_subcommands() {
        describe(subcommand, &name, level + 1, page);
    }
}

/// Every command has these.
fn is_everywhere(argument: &Arg) -> bool {
    matches!(argument.get_id().as_str(), "json" | "help" | "version")
}

/// As one types it: `-n, --tail <LINES>`, `[NAME]`.
fn spelled(argument: &Arg) -> String {
    if argument.is_positional() {
        return argument.to_string();
    }
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {argument}"),
        _ => argument.to_string(),
    }
}

fn paragraphs(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(|text| format!("{text}\n")).unwrap_or_default()
}
