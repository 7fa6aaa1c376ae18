//! Hunks for a terminal: colours, the words that differ, and nothing that is not what it seems.

use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use whatif_engine::changes::diff::CONTEXT_LINES;
use whatif_engine::{Change, Content, shown_path};
use whatif_patch::{HunkLine, LineKind};

use crate::output::{Output, Style, counted};

/// All hunks of one change, numbered as `apply --hunks` counts them.
pub fn hunks(out: &mut dyn Write, change: &Change, project: &Path, output: &Output) -> io::Result<()> {
    let name = whatif_patch::escape(shown_path(&change.path, project).as_os_str().as_bytes());
    let Content::Text { before, after } = change.content() else { return Ok(()) };
    let hunks = whatif_patch::hunks(&before, &after, CONTEXT_LINES);
    if hunks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", output.paint(Style::Bold, name))?;
    let hidden = whatif_patch::hidden_characters(&after);
    if hidden > whatif_patch::hidden_characters(&before) {
        writeln!(
            out,
            "{}",
            output.paint(Style::Red, format!("{}, shown as \\u{{…}} or \\x…", counted(hidden as u64, "hidden character")))
        )?;
    }
    let count = hunks.len();
    for (index, hunk) in hunks.iter().enumerate() {
        let place = format!(
            "@@ -{},{} +{},{} @@ hunk {} of {count}",
            hunk.before_start,
            hunk.before_lines,
            hunk.after_start,
            hunk.after_lines,
            index + 1
        );
        writeln!(out, "{}", output.paint(Style::Cyan, place))?;
        lines(out, &hunk.lines, output)?;
    }
    Ok(())
}

/// Places in a line.
type Words = Vec<Range<usize>>;

/// Runs of removed and added lines of equal length are shown with the words that differ.
fn lines(out: &mut dyn Write, lines: &[HunkLine], output: &Output) -> io::Result<()> {
    let mut at = 0;
    while at < lines.len() {
        let run = |from: usize, kind: LineKind| lines[from..].iter().take_while(|l| l.kind == kind).count();
        let removed = run(at, LineKind::Removed);
        let added = run(at + removed, LineKind::Added);
        if removed == 0 && added == 0 {
            line(out, &lines[at], &[], output)?;
            at += 1;
            continue;
        }
        let pairs: Vec<(Words, Words)> = if removed == added {
            (0..removed).map(|i| whatif_patch::words(&lines[at + i].text, &lines[at + removed + i].text)).collect()
        } else {
            vec![(Vec::new(), Vec::new()); removed.max(added)]
        };
        for (i, (old, _)) in pairs.iter().enumerate().take(removed) {
            line(out, &lines[at + i], old, output)?;
        }
        for (i, (_, new)) in pairs.iter().enumerate().take(added) {
            line(out, &lines[at + removed + i], new, output)?;
        }
        at += removed + added;
    }
    Ok(())
}

fn line(out: &mut dyn Write, line: &HunkLine, words: &[Range<usize>], output: &Output) -> io::Result<()> {
    let (sign, style) = match line.kind {
        LineKind::Context => (' ', None),
        LineKind::Added => ('+', Some(Style::Green)),
        LineKind::Removed => ('-', Some(Style::Red)),
    };
    let (text, ended) = match line.text.strip_suffix(b"\n") {
        Some(text) => (text, true),
        None => (&line.text[..], false),
    };
    let Some(style) = style else {
        write!(out, "{sign}{}", whatif_patch::escape(text))?;
        return finish(out, ended);
    };
    write!(out, "{}", output.paint(style, sign))?;
    let mut at = 0;
    for word in words.iter().filter(|w| w.end <= text.len()) {
        write!(out, "{}", output.paint(style, whatif_patch::escape(&text[at..word.start])))?;
        write!(out, "{}", output.paint_word(style, whatif_patch::escape(&text[word.start..word.end])))?;
        at = word.end;
    }
    write!(out, "{}", output.paint(style, whatif_patch::escape(&text[at..])))?;
    finish(out, ended)
}

fn finish(out: &mut dyn Write, ended: bool) -> io::Result<()> {
    writeln!(out, "{}", if ended { "" } else { "\n\\ No newline at end of file" })
}
