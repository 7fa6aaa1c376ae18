//! The documentation as a play: its sessions are typed into a shell, and what comes out is compared with what the page says.
//!
//! In a page,
//! - a block ```` ```console ```` is a session. Lines after the prompt (`$ ` of an ordinary user, `# ` of root) are commands, the others are
//!   what they print. All sessions of a page share one shell;
//! - a block ```` ```sh run ````, and a comment `<!-- run`, are commands that must succeed and whose output nobody sees;
//! - after `console`, `numbers-vary` says that no number of the session can be promised, `any-order` that its lines come in any order,
//!   and `not-run: WHY` that it cannot be played.
//!
//! `WHATIF_TRANSCRIPTS=write` puts what came out into the pages, where it differs by more than times, ids and sizes.

mod alike;
mod page;
mod shell;
mod stage;

use std::fs;
use std::path::Path;

use crate::World;
pub use page::Page;
use page::{Part, Session};
pub use stage::{Stage, trust};

/// Plays a page, named relative to the root of the repository.
#[track_caller]
pub fn play(w: &World, name: &str) {
    let path = repository().join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
    let page = Page::read(name, &text);
    let mut stage = Stage::set(w);
    let mut differences = Vec::new();
    let mut replacements = Vec::new();
    for part in &page.parts {
        match part {
            Part::Direction { line, is_root, script } => {
                let (said, code) = stage.shell(*is_root).run(script);
                assert_eq!(code, 0, "{name}:{line}: a hidden command failed:\n{said}");
            }
            Part::Session(session) => perform(&mut stage, name, session, &mut differences, &mut replacements),
        }
    }
    drop(stage);
    if std::env::var("WHATIF_TRANSCRIPTS").is_ok_and(|what| what == "write") {
        fs::write(&path, page::rewritten(&text, &replacements)).unwrap_or_else(|e| panic!("{name}: {e}"));
    } else {
        assert!(differences.is_empty(), "{}\n\nto bring the pages up to date: WHATIF_TRANSCRIPTS=write", differences.join("\n"));
    }
}

fn perform(
    stage: &mut Stage,
    name: &str,
    session: &Session,
    differences: &mut Vec<String>,
    replacements: &mut Vec<page::Replacement>,
) {
    for exchange in &session.exchanges {
        let (said, _) = stage.shell(session.is_root).run(&exchange.command);
        let came: Vec<&str> = said.lines().map(str::trim_end).collect();
        let expected: Vec<&str> = exchange.output.iter().map(|line| line.trim_end()).collect();
        if alike::alike(&expected, &came, session.leave) {
            continue;
        }
        differences.push(format!(
            "{name}:{}: $ {}\n--- the page\n{}\n--- came\n{}",
            exchange.line,
            exchange.command,
            expected.join("\n"),
            came.join("\n")
        ));
        let output = came.iter().map(|line| (*line).to_owned()).collect();
        replacements.push(page::Replacement { first: exchange.line + 1, old: exchange.output.len(), output });
    }
}

/// All pages that have something to play, sorted.
#[must_use]
pub fn pages() -> Vec<String> {
    let documents = fs::read_dir(repository().join("docs")).expect("there is documentation").flatten();
    let books = documents.map(|entry| format!("docs/{}", entry.file_name().to_string_lossy())).filter(|name| name.ends_with(".md"));
    let mut found: Vec<_> = books.chain(["README.md".to_owned()]).filter(|name| has_sessions(name)).collect();
    found.sort();
    found
}

fn has_sessions(name: &str) -> bool {
    let text = fs::read_to_string(repository().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    Page::read(name, &text).parts.iter().any(|part| matches!(part, Part::Session(_)))
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in a directory of the repository")
}
