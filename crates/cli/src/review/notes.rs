//! What is to be said about a change above its hunks.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use whatif_engine::{Base, Blocked, Change, ChangeKind, Content, Flag, Kind, Moved, State, shown_path};

use super::theme::Tone;
use super::tree::visible;
use crate::changes::looks;
use crate::output::{bytes, counted};

pub type Note = (Tone, String);

/// Kind, attributes, flags, drift. `conflict` says why both sides cannot have it, if they cannot.
#[must_use]
pub fn of(change: &Change, conflict: Option<&str>, project: &Path) -> Vec<Note> {
    let mut notes = vec![(Tone::Dim, summary(change))];
    if let Some(old) = change.old_path() {
        let alike = change.similarity.map(|s| format!(" ({s} % the same)")).unwrap_or_default();
        notes.push((Tone::Other, format!("was {}{alike}", visible(shown_path(old, project).as_os_str().as_bytes()))));
    }
    if let Some(linked) = &change.linked {
        let first = visible(shown_path(linked.path(), project).as_os_str().as_bytes());
        notes.push((Tone::Other, format!("hard link to {first}")));
    }
    if let Some(to) = change.moved_to.first() {
        let to = visible(shown_path(to, project).as_os_str().as_bytes());
        notes.push((Tone::Warning, format!("moved to {to}: it goes from here only if it is taken there, too")));
    }
    match change.blocked {
        Some(Blocked::Special) => {
            notes.push((Tone::Bad, "never applied: pipes, sockets and devices stay in the sandbox".to_owned()))
        }
        Some(Blocked::Masked) => {
            notes.push((Tone::Bad, "never applied: the sandbox was not shown what is here in reality".to_owned()))
        }
        None => {}
    }
    // Deletions are told by the kind, hidden characters with their number.
    for flag in change.flags.iter().filter(|f| !matches!(f, Flag::Deletion | Flag::HiddenCharacters)) {
        let tone = if flag.needs_approval() { Tone::Bad } else { Tone::Warning };
        notes.push((tone, format!("! {}", change.in_words(*flag))));
    }
    notes.extend(looks::attributes(change).into_iter().map(|words| (Tone::Warning, words)));
    if change.ignored {
        notes.push((Tone::Warning, "ignored by the project's own rules".to_owned()));
    }
    if let Some(why) = conflict {
        notes.push((Tone::Bad, format!("conflict: {why}")));
        notes.push((
            Tone::Dim,
            "an apply needs to be told: --theirs PATH (the sandbox's), --ours PATH (reality's) or --skip PATH".to_owned(),
        ));
    }
    for part in change.drifted_parts().filter(|_| conflict.is_none()) {
        let which = match change.deletion {
            Some(_) => format!("{}: ", visible(shown_path(&part.path, project).as_os_str().as_bytes())),
            None => String::new(),
        };
        notes.extend(drift(part, change.drift_at(part)).map(|text| (Tone::Warning, format!("~ {which}{text}"))));
    }
    notes
}

/// What the content says about itself.
#[must_use]
pub fn of_content(content: &Content) -> Option<Note> {
    match content {
        Content::Text { before, after } => {
            let (old, new) = (whatif_patch::hidden_characters(before), whatif_patch::hidden_characters(after));
            let words = counted(new as u64, "hidden character");
            (new > old).then(|| (Tone::Bad, format!("! {words}, shown as \\u{{…}} or \\x…")))
        }
        Content::Binary => Some((Tone::Plain, "binary: there are no lines to show".to_owned())),
        Content::Large => Some((Tone::Plain, "too large to be shown".to_owned())),
        Content::Unreadable => Some((Tone::Bad, "it cannot be read".to_owned())),
        Content::Nothing => None,
    }
}

/// `modified file · 0644 → 0755 · 1.2 KiB → 1.4 KiB`.
fn summary(change: &Change) -> String {
    let thing = match change.shown_kind() {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
        Kind::Fifo => "pipe",
        Kind::Socket => "socket",
        Kind::Device => "device",
    };
    let kind = match change.kind {
        ChangeKind::Add | ChangeKind::Special => format!("new {thing}"),
        ChangeKind::Modify => format!("modified {thing}"),
        ChangeKind::Delete => format!("deleted {thing}"),
        ChangeKind::Rename => format!("renamed {thing}"),
        ChangeKind::Mode => format!("{thing}, permissions changed"),
        ChangeKind::Owner => format!("{thing}, owner changed"),
        ChangeKind::Xattr => format!("{thing}, attributes changed"),
        ChangeKind::Symlink => "link, points elsewhere".to_owned(),
        ChangeKind::Type => format!("became a {thing}"),
    };
    let mut parts = vec![kind];
    parts.extend(both(change, |s| (s.node.kind != Kind::Link).then(|| format!("{:04o}", s.node.mode))));
    let owner = both(change, |s| Some(format!("{}:{}", s.node.uid, s.node.gid))).filter(|o| o.contains('→'));
    parts.extend(owner.map(|o| format!("owner {o}")));
    parts.extend(both(change, |s| (s.node.kind == Kind::File).then(|| bytes(s.node.size))));
    parts.join(" · ")
}

/// Before and after, or once if they are the same.
fn both(change: &Change, of: impl Fn(&State) -> Option<String>) -> Option<String> {
    let side = |s: &Option<State>| s.as_ref().and_then(&of);
    match (side(&change.before), side(&change.after)) {
        (Some(before), Some(after)) if before != after => Some(format!("{before} → {after}")),
        (before, after) => after.or(before),
    }
}

fn drift(change: &Change, moved: Moved) -> Option<&'static str> {
    match (change.base, &change.reality) {
        (Base::Reality, _) => None,
        (_, None) => Some("gone in reality since the sandbox started from it"),
        (Base::Kept, Some(_)) if moved == Moved::Added => Some("reality added one here too"),
        (Base::Kept, Some(_)) => Some("reality changed here too; an apply merges both"),
        (Base::Lost, Some(_)) if moved == Moved::AddedOrChanged => Some("reality added or changed it since; apply asks"),
        (Base::Lost, Some(_)) => Some("reality changed here too, and what the sandbox started from was not kept"),
        (Base::Unknown, Some(_)) => Some("reality replaced it while the sandbox was running; which version it saw is not known"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn flags_and_drift_in_words() {
        let mut change = sample::changes(&["A build.rs"]).remove(0);
        change.flags = vec![Flag::HostExecuted, Flag::Executable];
        change.base = Base::Kept;
        let notes: Vec<String> = of(&change, None, Path::new(sample::PROJECT)).into_iter().map(|n| n.1).collect();
        let expected =
            ["new file", "! tools on the host execute it", "! executable", "~ gone in reality since the sandbox started from it"];
        assert_eq!(notes, expected);
    }

    #[test]
    fn hidden_characters_are_counted_if_they_are_new() {
        let text = |before: &str, after: &str| Content::Text { before: before.into(), after: after.into() };
        assert_eq!(of_content(&text("a", "a\u{202e}\u{200b}")).unwrap().1, "! 2 hidden characters, shown as \\u{…} or \\x…");
        assert_eq!(of_content(&text("\u{202e}", "\u{202e}x")), None);
    }
}
