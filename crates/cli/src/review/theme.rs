//! Colours, or without them weights.

use ratatui::style::{Color, Modifier, Style};

/// What a piece of text is, for the eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Dim,
    Added,
    Removed,
    AddedWord,
    RemovedWord,
    /// An escape that stands for a character nobody would see.
    Hidden,
    /// Where a search found something.
    Match,
    /// The line above a hunk.
    Head,
    /// What is in focus: borders, the bar beside the current hunk.
    Focus,
    Good,
    Bad,
    Warning,
    /// A kind of change that is neither good nor bad.
    Other,
    /// The chosen line.
    Cursor,
    /// The chosen line of the pane that has no focus.
    FaintCursor,
}

#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub colour: bool,
}

impl Theme {
    #[must_use]
    pub fn style(self, tone: Tone) -> Style {
        let style = Style::new().add_modifier(weight(tone, self.colour));
        match colour(tone).filter(|_| self.colour) {
            Some(colour) if tone == Tone::FaintCursor => style.bg(colour),
            Some(colour) => style.fg(colour),
            None => style,
        }
    }
}

/// The terminal's own sixteen colours: they fit its background, whichever that is.
fn colour(tone: Tone) -> Option<Color> {
    match tone {
        Tone::Added | Tone::AddedWord | Tone::Good => Some(Color::Green),
        Tone::Removed | Tone::RemovedWord | Tone::Bad => Some(Color::Red),
        Tone::Hidden => Some(Color::Magenta),
        Tone::Match | Tone::Warning => Some(Color::Yellow),
        Tone::Head | Tone::Focus | Tone::Other => Some(Color::Cyan),
        Tone::FaintCursor => Some(Color::DarkGray),
        Tone::Plain | Tone::Strong | Tone::Dim | Tone::Cursor => None,
    }
}

fn weight(tone: Tone, colour: bool) -> Modifier {
    match tone {
        Tone::Strong | Tone::Focus => Modifier::BOLD,
        Tone::Dim => Modifier::DIM,
        Tone::AddedWord | Tone::RemovedWord | Tone::Hidden => Modifier::REVERSED | Modifier::BOLD,
        Tone::Match => Modifier::REVERSED | Modifier::UNDERLINED,
        Tone::Cursor => Modifier::REVERSED,
        Tone::FaintCursor if !colour => Modifier::UNDERLINED,
        Tone::Head | Tone::Added | Tone::Bad | Tone::Warning if !colour => Modifier::BOLD,
        _ => Modifier::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_there_are_none() {
        let theme = Theme { colour: false };
        for tone in [Tone::Added, Tone::RemovedWord, Tone::Hidden, Tone::FaintCursor, Tone::Warning, Tone::Head, Tone::Match] {
            let style = theme.style(tone);
            assert_eq!((style.fg, style.bg), (None, None), "{tone:?}");
        }
    }
}
