//! What becomes of a line on its way out: colours, if they are wanted, and characters that the reader's terminal can show.

use super::line::width;
use crate::output::{Output, Style};

/// How a line gets its colours and its characters.
#[derive(Clone, Copy, Debug)]
pub struct Brush<'a> {
    pub charset: Charset,
    pub colours: Colours<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum Colours<'a> {
    #[cfg(test)]
    None,
    OfOutput(&'a Output),
    OfNotes(&'a Output),
}

impl Brush<'_> {
    pub(super) fn paint(self, style: Option<Style>, text: &str) -> String {
        let text = self.charset.spell(text);
        match (self.colours, style) {
            (Colours::OfOutput(output), Some(style)) => output.paint(style, text),
            (Colours::OfNotes(output), Some(style)) => output.paint_note(style, text),
            _ => text,
        }
    }
}

/// What the reader's terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    Unicode,
    Ascii,
}

impl Charset {
    /// As the locale says; where nothing is said, what nearly every terminal can.
    #[must_use]
    pub fn of_terminal() -> Self {
        let said = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
        Self::said_by(said.map(|v| v.to_string_lossy().into_owned()).as_deref(), std::env::var("TERM").ok().as_deref())
    }

    fn said_by(locale: Option<&str>, terminal: Option<&str>) -> Self {
        let is_utf8 = locale.is_none_or(|l| {
            let l = l.to_ascii_lowercase();
            l.contains("utf-8") || l.contains("utf8")
        });
        // The font of the kernel's own console has no such marks.
        if is_utf8 && terminal != Some("linux") { Self::Unicode } else { Self::Ascii }
    }

    /// Takes as many columns as before.
    fn spell(self, text: &str) -> String {
        match self {
            Self::Unicode => text.to_owned(),
            Self::Ascii => text.chars().map(plain).collect(),
        }
    }
}

fn plain(c: char) -> String {
    let same = match c {
        ' '..='~' => c,
        '✔' => '+',
        '✘' => 'x',
        '–' | '−' | '─' => '-',
        '·' => '.',
        '…' | '±' => '~',
        '│' => '|',
        '→' => '>',
        '⠋' | '⠸' | '⠦' | '⠏' => '|',
        '⠙' | '⠼' | '⠧' => '/',
        '⠹' | '⠇' => '-',
        '⠴' => '\\',
        _ => return "?".repeat(width(c.encode_utf8(&mut [0; 4]))),
    };
    same.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::line::Line;
    use super::*;

    #[test]
    fn a_terminal_without_unicode_gets_ascii() {
        let ascii = Brush { charset: Charset::Ascii, colours: Colours::None };
        assert_eq!(Line::plain("✔ ✘ – · … −1 ±2 │ → 日本 ⠋").render(ascii), "+ x - . ~ -1 ~2 | > ???? |");
        let cases =
            [(None, None), (Some("C"), None), (Some("POSIX"), None), (Some("de_DE.utf8"), None), (Some("C.UTF-8"), Some("linux"))];
        let of = |(locale, terminal)| Charset::said_by(locale, terminal) == Charset::Unicode;
        assert_eq!(cases.map(of), [true, false, false, true, false]);
    }
}
