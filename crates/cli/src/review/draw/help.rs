//! What the keys do, over everything else.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::span;
use crate::review::keys::HELP;
use crate::review::layout::inner;
use crate::review::theme::{Theme, Tone};

const WIDTH: u16 = 76;
const KEYS: usize = 15;

pub fn draw(frame: &mut Frame, theme: Theme) {
    let whole = frame.area();
    let (width, height) = (WIDTH.min(whole.width), (HELP.len() as u16 + 2).min(whole.height));
    let area = Rect { x: (whole.width - width) / 2, y: (whole.height - height) / 2, width, height };
    let buffer = frame.buffer_mut();
    Clear.render(area, buffer);
    let title = Line::from(span(theme, Tone::Strong, " keys "));
    let close = Line::from(span(theme, Tone::Dim, " any key closes this ")).right_aligned();
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(theme.style(Tone::Focus));
    block.title_top(title).title_top(close).render(area, buffer);
    let area = inner(area);
    for (y, (keys, words)) in (area.top()..area.bottom()).zip(HELP) {
        let line = Line::from(vec![span(theme, Tone::Focus, format!(" {keys:<KEYS$}")), span(theme, Tone::Plain, words)]);
        buffer.set_line(area.x, y, &line, area.width);
    }
}
