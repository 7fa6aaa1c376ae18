//! Everything that is printed goes through here: pure standard output, colours that respect `NO_COLOR`, errors with a next step.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the one place that prints")]

use crate::exit::ExitCode;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use whatif_types::explain::whole_message;
use whatif_types::remedy::Call;
use whatif_types::{Explain, Explained, Kind};

use crate::{exit, spelled};

#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
    out_colour: bool,
    err_colour: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Cyan => "36",
        }
    }
}

/// What was printed, without colours.
#[derive(Debug, Default)]
pub struct Recorded {
    pub lines: Vec<String>,
    pub notes: Vec<String>,
    pub document: Option<serde_json::Value>,
}

static RECORDED: Mutex<Option<Recorded>> = Mutex::new(None);

/// From here on what is printed is kept.
pub fn begin_record() {
    *RECORDED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Recorded::default());
}

pub fn end_record() -> Recorded {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
}

fn record(note: impl FnOnce(&mut Recorded)) {
    if let Some(recorded) = RECORDED.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        note(recorded);
    }
}

impl Output {
    #[must_use]
    pub fn new(json: bool) -> Self {
        let wanted =
            std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        Self { json, out_colour: wanted && std::io::stdout().is_terminal(), err_colour: wanted && std::io::stderr().is_terminal() }
    }

    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// For people, on standard output; nothing in JSON mode.
    pub fn line(&self, text: impl Display) {
        if !self.json {
            let text = text.to_string();
            print(&text);
            record(|recorded| recorded.lines.push(uncoloured(&text)));
        }
    }

    /// For people, on standard error; nothing in JSON mode.
    pub fn note(&self, text: impl Display) {
        if !self.json {
            let text = text.to_string();
            complain(&text);
            record(|recorded| recorded.notes.push(uncoloured(&text)));
        }
    }

    /// Something that must not be overlooked, whoever reads the output.
    pub fn warn(&self, text: impl Display) {
        complain(text);
    }

    /// The one document of JSON mode.
    pub fn document(&self, value: &impl Serialize) {
        if self.json
            && let Ok(text) = serde_json::to_string(value)
        {
            print(&text);
            record(|recorded| recorded.document = serde_json::from_str(&text).ok());
        }
    }

    #[must_use]
    pub fn paint(&self, style: Style, text: impl Display) -> String {
        paint(self.out_colour, style, text)
    }

    /// A word that stands out in a painted line.
    #[must_use]
    pub fn paint_word(&self, style: Style, text: impl Display) -> String {
        if self.out_colour { format!("\x1b[1;7;{}m{text}\x1b[0m", style.code()) } else { text.to_string() }
    }

    /// Whether standard output is a terminal that shows colours.
    #[must_use]
    pub fn colours_output(&self) -> bool {
        self.out_colour
    }

    #[must_use]
    pub fn paint_note(&self, style: Style, text: impl Display) -> String {
        paint(self.err_colour, style, text)
    }

    /// Renders a failure and turns it into the exit code of its kind.
    pub fn error(&self, error: &dyn Explain) -> ExitCode {
        complain(self.rendered(error, done_before()));
        ExitCode::from(exit::code(error))
    }

    /// What is printed about a failure, without the last newline.
    pub fn rendered(&self, error: &dyn Explain, another_hint: Option<String>) -> String {
        let message = error.wording().map_or_else(|| whole_message(error), |wording| spelled::sentence(&wording));
        let remedies = error.remedies();
        let hints = remedies.iter().map(spelled::sentence).chain(another_hint);
        if self.json {
            return document(Explained { message, ..Explained::of(error) }, hints.collect());
        }
        let message = printable(&message.replace('\n', "; "));
        let mut text = format!("{} {message}", self.paint_note(Style::Red, "whatif:"));
        for hint in hints {
            text.push_str(&format!("\n  {} {}", self.paint_note(Style::Cyan, "hint:"), printable(&hint)));
        }
        text
    }
}

/// Set when something could not be printed; success is not claimed then.
static LOST_OUTPUT: AtomicBool = AtomicBool::new(false);
/// What the command has done that its output would have told.
static DONE: Mutex<Option<String>> = Mutex::new(None);

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        lost_output();
    }
}

/// Set when a command left its last line open, where what we have to say comes next.
static LINE_IS_OPEN: AtomicBool = AtomicBool::new(false);

/// What is said next on standard error begins on a line of its own.
pub fn begin_new_line() {
    LINE_IS_OPEN.store(true, Ordering::Relaxed);
}

/// One line on standard error. Where that cannot be written either, the exit code is all there is left to say.
fn complain(text: impl Display) {
    let before = if LINE_IS_OPEN.swap(false, Ordering::Relaxed) { "\n" } else { "" };
    let _ = writeln!(std::io::stderr(), "{before}{text}");
}

/// Notes that output did not reach its destination.
pub fn lost_output() {
    LOST_OUTPUT.store(true, Ordering::Relaxed);
}

/// Whether nobody reads what is printed.
pub fn has_lost_output() -> bool {
    LOST_OUTPUT.load(Ordering::Relaxed)
}

/// Of help and the like, which is all there was to do.
pub fn lost_help() {
    complain("whatif: not all output could be written");
}

/// Notes what must be known even if the report of it is lost, such as "applied as 1a2b3c".
pub fn done(what: String) {
    *DONE.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
}

/// For an error that came after something had been done.
fn done_before() -> Option<String> {
    let done = DONE.lock().unwrap_or_else(PoisonError::into_inner).take();
    done.map(|done| format!("before that, it was {done}"))
}

/// The code to exit with, given what the command made of it. A lost report is a failure of its own kind: the codes of the command
/// itself say that nothing was done.
#[must_use]
pub fn honest(code: ExitCode) -> ExitCode {
    if LOST_OUTPUT.load(Ordering::Relaxed) && code == ExitCode::SUCCESS {
        let done = DONE.lock().unwrap_or_else(PoisonError::into_inner).take();
        let done = done.unwrap_or_else(|| "the command was carried out".to_owned());
        complain(format!("whatif: {done}, but not all output could be written"));
        return ExitCode::from(exit::FAILED);
    }
    code
}

/// A command line that is not understood, in JSON mode.
pub fn usage_error(code: &'static str, message: &str, mut hints: Vec<String>) {
    let error =
        Explained { code, kind: Kind::Invalid, message: message.to_owned(), remedies: Vec::new(), retryable: false, details: None };
    hints.push("see: whatif --help".to_owned());
    complain(document(error, hints));
}

/// An error in JSON: as data, and with the remedies as command lines.
fn document(mut explained: Explained, hints: Vec<String>) -> String {
    #[derive(Serialize)]
    struct Document {
        #[serde(flatten)]
        explained: Explained,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        hints: Vec<String>,
    }
    // What was applied is said with the command that takes it back.
    if let Some(details) = explained.details.as_mut().and_then(serde_json::Value::as_object_mut)
        && details.contains_key("applied")
        && let Some(id) = details.get("id").and_then(|id| id.as_str())
    {
        let undo = spelled::call(&Call::undo(id));
        details.insert("undo".to_owned(), undo.into());
    }
    serde_json::json!({ "error": Document { explained, hints } }).to_string()
}

/// The same without what [`paint`] adds.
fn uncoloured(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default();
    // What comes from a sandbox was made visible before, so there are no others.
    parts.fold(first.to_owned(), |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

fn paint(colour: bool, style: Style, text: impl Display) -> String {
    if colour { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_string() }
}

/// Names and paths from inside a sandbox may hold escape sequences meant for the reader's terminal. Made visible in one way
/// everywhere, and on one line.
#[must_use]
pub fn printable(text: &str) -> String {
    visible_bytes(text.as_bytes())
}

/// The same of a path.
#[must_use]
pub fn visible_path(path: &Path) -> String {
    visible_bytes(path.as_os_str().as_bytes())
}

fn visible_bytes(text: &[u8]) -> String {
    whatif_patch::escape(text).replace('\t', "\\t")
}

/// `1.5 MiB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// `1 file`, `2 files`, `2 sandboxes`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let ending = match count {
        1 => "",
        _ if noun.ends_with('x') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_no_colours() {
        let painted = format!("{} {}", paint(true, Style::Bold, "one"), paint(true, Style::Dim, "two"));
        assert_eq!(uncoloured(&painted), "one two");
        assert_eq!(uncoloured("plain"), "plain");
    }

    #[test]
    fn a_name_is_made_visible_in_one_way() {
        let name = "new\nline\t\u{1b}[31m\u{202e}é";
        assert_eq!(printable(name), "new\\nline\\t\\x1b[31m\\u{202e}é");
        assert_eq!(printable(name), visible_path(Path::new(name)));
    }
}
