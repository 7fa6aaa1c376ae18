//! Changes for the tests, told in few words.

use std::path::{Path, PathBuf};

use whatif_engine::changes::review::Review;
use whatif_engine::{Change, ChangeKind, Content};

use super::facts::Facts;

pub const PROJECT: &str = "/p";

/// `"M src/main.rs"`: a letter and a path in the project (or an absolute one), in the order of the paths.
pub fn changes(words: &[&str]) -> Vec<Change> {
    words.iter().map(|word| change(word)).collect()
}

fn change(word: &str) -> Change {
    let (letter, path) = word.split_once(' ').expect("a letter and a path");
    let kind = match letter {
        "A" => ChangeKind::Add,
        "M" => ChangeKind::Modify,
        "D" => ChangeKind::Delete,
        "m" => ChangeKind::Mode,
        "S" => ChangeKind::Special,
        other => panic!("no such kind: {other}"),
    };
    let path = Path::new(PROJECT).join(path);
    Change { outside: !path.starts_with(PROJECT), ..Change::new(path, kind, None, None) }
}

pub fn facts(changes: &[Change], directories: &[&str]) -> Vec<Facts> {
    let directories: Vec<PathBuf> = directories.iter().map(|d| Path::new(PROJECT).join(d)).collect();
    let of = |change: &Change| Facts { is_directory: directories.contains(&change.path), ..Facts::of(change) };
    changes.iter().map(of).collect()
}

/// No decisions, but one about this path that lapsed.
pub fn lapsed(path: &str) -> Review {
    let mut review = Review::default();
    review.lapsed.insert(Path::new(PROJECT).join(path));
    review
}

/// Thirty lines with two of them changed, far from each other.
pub fn content(_: &Change) -> Content {
    let line = |n: usize| format!("line {n} of the file\n");
    let before: String = (1..=30).map(line).collect();
    let after: String = (1..=30)
        .map(|n| match n {
            3 => "line three of the file\n".to_owned(),
            25 => "line 25 of\u{202e} the file\n\tand one more\n".to_owned(),
            _ => line(n),
        })
        .collect();
    Content::Text { before: before.into_bytes(), after: after.into_bytes() }
}
