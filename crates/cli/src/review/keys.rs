//! Which key means what.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Left,
    Right,
    SwitchPane,
    /// Folds a directory, goes to the hunks of a file and back.
    Open,
    Accept,
    Reject,
    Undecide,
    AcceptSafe,
    NextHunk,
    PreviousHunk,
    /// The next match, hunk or undecided file, whatever is at hand.
    Next,
    Previous,
    /// The previous match or undecided file.
    Before,
    Search,
    Reload,
    Help,
    Cancel,
    Suspend,
    /// Makes real what is accepted, once the screen is given back.
    Apply,
    Quit,
}

#[must_use]
pub fn action(key: KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Quit),
            KeyCode::Char('z') => Some(Action::Suspend),
            KeyCode::Char('d' | 'f') => Some(Action::PageDown),
            KeyCode::Char('u' | 'b') => Some(Action::PageUp),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char('j') | KeyCode::Down => Action::Down,
        KeyCode::Char('k') | KeyCode::Up => Action::Up,
        KeyCode::Char('h') | KeyCode::Left => Action::Left,
        KeyCode::Char('l') | KeyCode::Right => Action::Right,
        KeyCode::PageDown => Action::PageDown,
        KeyCode::PageUp => Action::PageUp,
        KeyCode::Char('g') | KeyCode::Home => Action::Top,
        KeyCode::Char('G') | KeyCode::End => Action::Bottom,
        KeyCode::Tab | KeyCode::BackTab => Action::SwitchPane,
        KeyCode::Enter | KeyCode::Char(' ') => Action::Open,
        KeyCode::Char('a') => Action::Accept,
        KeyCode::Char('x') => Action::Reject,
        KeyCode::Char('u') => Action::Undecide,
        KeyCode::Char('A') => Action::AcceptSafe,
        KeyCode::Char('n') => Action::Next,
        KeyCode::Char('p') => Action::Previous,
        KeyCode::Char('N') => Action::Before,
        KeyCode::Char(']') => Action::NextHunk,
        KeyCode::Char('[') => Action::PreviousHunk,
        KeyCode::Char('/') => Action::Search,
        KeyCode::Char('r') => Action::Reload,
        KeyCode::Char('?') | KeyCode::F(1) => Action::Help,
        KeyCode::Esc => Action::Cancel,
        KeyCode::Char('w') => Action::Apply,
        KeyCode::Char('q') => Action::Quit,
        _ => return None,
    })
}

/// What the help says: keys and what they do.
pub const HELP: [(&str, &str); 20] = [
    ("j k ↓ ↑", "down, up"),
    ("PgDn PgUp g G", "by pages; to the start, to the end"),
    ("h l ← →", "fold, unfold; to the files, to the hunks"),
    ("Tab", "the other pane"),
    ("Enter Space", "fold a directory; to the hunks and back"),
    ("", ""),
    ("a", "accept: the file, all in the directory, or this hunk"),
    ("x", "reject it"),
    ("u", "take the decision back"),
    ("A", "accept all that is safe: not flagged, ignored or outside"),
    ("", ""),
    ("n p", "next, previous hunk; in the list: undecided file"),
    ("[ ]", "the same, also while there is a search"),
    ("/", "search names and hunks; n N go on, Esc ends it"),
    ("r", "look at the sandbox again"),
    ("w", "apply what is accepted: shows the plan and asks"),
    ("q", "quit; every decision is stored already"),
    ("", ""),
    ("✓ ✗ ◐ ·", "accepted, rejected, some of it, undecided"),
    ("↺ ⊘", "decided before it changed; can never be applied"),
];
