//! The left pane: the tree of changes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use whatif_engine::ChangeKind;

use super::{Bordered, is_focused, mark, select, span, spread};
use crate::output::{bytes, counted};
use crate::review::app::{App, Pane};
use crate::review::counts::Count;
use crate::review::decisions::Mark;
use crate::review::facts::Group;
use crate::review::layout::inner;
use crate::review::theme::{Theme, Tone};
use crate::review::tree::{Item, Node};
use crate::review::wrap::{end_of, start_of, width};

/// Deeper levels are not moved further to the right.
const DEEPEST: usize = 8;
/// Names are not made shorter than this for the sake of numbers.
const LEAST_OF_NAME: usize = 10;

pub fn draw(buffer: &mut Buffer, app: &App, area: Rect, theme: Theme) {
    let list = &app.list;
    let name = format!(" {} ", end_of(&app.subject.name, 24));
    let has_room = area.width as usize > width(&name) + " ● running ".len();
    let alive = if has_room { "● running " } else { "● " };
    let alive = if app.subject.is_alive { span(theme, Tone::Good, alive) } else { Span::default() };
    Bordered {
        area,
        is_focused: is_focused(app, Pane::Files),
        left: Line::from(span(theme, Tone::Strong, name)),
        right: Line::from(alive),
        scroll: (list.top, list.height, list.rows.len()),
    }
    .draw(buffer, theme);
    let area = inner(area);
    for (row, node) in list.rows.iter().enumerate().skip(list.top).take(area.height as usize) {
        let place = Rect { y: area.y + (row - list.top) as u16, height: 1, ..area };
        draw_row(buffer, app, *node, place, theme);
        if row == list.cursor {
            select(buffer, place, is_focused(app, Pane::Files), theme);
        }
    }
}

fn draw_row(buffer: &mut Buffer, app: &App, index: usize, area: Rect, theme: Theme) {
    let node = &app.tree.nodes[index];
    let is_folded = app.list.is_folded(index);
    let (mut left, right) = match node.change() {
        Some(change) => (start_of_file(app, change, theme), end_of_file(app, change, theme)),
        None => (start_of_directory(node, theme), vec![span(theme, Tone::Dim, end_of_directory(node, is_folded))]),
    };
    if node.depth > 1 {
        left.push(Span::raw("  ".repeat((node.depth - 1).min(DEEPEST))));
    }
    if node.change().is_none() {
        left.push(span(theme, Tone::Dim, if is_folded { "▸ " } else { "▾ " }));
    }
    let (right, all) = (Line::from(right), (area.width as usize).saturating_sub(Line::from(left.clone()).width()));
    let beside = all.saturating_sub(right.width() + 1);
    // The name tells more than what is said about it.
    let has_room = right.width() > 0 && (beside >= LEAST_OF_NAME || beside >= width(&node.label));
    let (right, room) = if has_room { (right, beside) } else { (Line::default(), all) };
    let label = if is_title(node) { start_of(&node.label, room) } else { end_of(&node.label, room) };
    left.push(span(theme, label_tone(app, node), label));
    spread(buffer, area, Line::from(left), right);
}

/// Of a group or a package, whose beginning says most. Of a path it is the end.
fn is_title(node: &Node) -> bool {
    node.item == Item::Group || matches!(node.item, Item::Directory(_)) && !node.label.ends_with('/')
}

fn label_tone(app: &App, node: &Node) -> Tone {
    match (&node.item, node.group) {
        (Item::Group, Group::Risky) => Tone::Bad,
        (Item::Group, Group::Ignored) => Tone::Dim,
        (Item::Group, _) => Tone::Strong,
        (Item::Change(change), _) if app.decisions.mark(*change) == Mark::Rejected => Tone::Dim,
        (_, Group::Ignored) => Tone::Dim,
        _ => Tone::Plain,
    }
}

fn start_of_file(app: &App, change: usize, theme: Theme) -> Vec<Span<'static>> {
    let (symbol, tone) = mark(app.decisions.mark(change));
    let (letter, kind) = sign(app.subject.changes[change].kind);
    vec![span(theme, tone, symbol), Span::raw(" "), span(theme, kind, letter), Span::raw(" ")]
}

fn sign(kind: ChangeKind) -> (&'static str, Tone) {
    match kind {
        ChangeKind::Add => ("A", Tone::Good),
        ChangeKind::Modify => ("M", Tone::Warning),
        ChangeKind::Delete => ("D", Tone::Bad),
        ChangeKind::Rename => ("R", Tone::Other),
        ChangeKind::Mode | ChangeKind::Owner | ChangeKind::Xattr => ("m", Tone::Warning),
        ChangeKind::Symlink => ("L", Tone::Warning),
        ChangeKind::Type => ("T", Tone::Warning),
        ChangeKind::Special => ("S", Tone::Bad),
    }
}

fn end_of_file(app: &App, change: usize, theme: Theme) -> Vec<Span<'static>> {
    if app.subject.conflicts.contains_key(&app.subject.changes[change].path) {
        return vec![span(theme, Tone::Bad, "conflict")];
    }
    match app.counts.get(change) {
        Some(Count::Lines(added, deleted)) => {
            let part = |tone, sign, count: usize| (count > 0).then(|| span(theme, tone, format!("{sign}{count}")));
            let (added, deleted) = (part(Tone::Added, '+', *added), part(Tone::Removed, '-', *deleted));
            let gap = (added.is_some() && deleted.is_some()).then(|| Span::raw(" "));
            [added, gap, deleted].into_iter().flatten().collect()
        }
        Some(Count::Words(words)) => vec![span(theme, Tone::Dim, words.clone())],
        None => Vec::new(),
    }
}

fn start_of_directory(node: &Node, theme: Theme) -> Vec<Span<'static>> {
    if node.item == Item::Group {
        return Vec::new();
    }
    let (symbol, tone) = mark(node.tally.mark());
    vec![span(theme, tone, symbol), Span::raw("   ")]
}

fn end_of_directory(node: &Node, is_folded: bool) -> String {
    match (is_folded, node.group) {
        (true, Group::Ignored) => format!("{}, {}", counted(node.files as u64, "file"), bytes(node.bytes)),
        (true, _) if node.tally.decided() == 0 => counted(node.files as u64, "file"),
        // A title says how many are left.
        _ if node.item == Item::Group && node.tally.undecided > 0 => node.tally.undecided.to_string(),
        _ if node.item == Item::Group => mark(node.tally.mark()).0.to_owned(),
        _ => format!("{}/{}", node.tally.decided(), node.tally.all()),
    }
}
