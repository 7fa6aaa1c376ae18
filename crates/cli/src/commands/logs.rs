//! `whatif logs`.

use crate::exit::ExitCode;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use serde_json::json;
use whatif_engine::lifecycle::logs::{Log, Part};
use whatif_engine::{Engine, EngineError};
use whatif_types::Chosen;

use super::{Outcome, meant_and_told};
use crate::chosen;
use crate::output::{Output, Style, lost_output, printable};

/// How often a followed log is looked at: while there is output, and after a long silence.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// The command, by its id (c1) or process number; by default the latest
    #[arg(value_name = "ID|PID", value_parser = chosen::parse)]
    command: Option<Chosen>,
    /// Follow the output until the command ends
    #[arg(long, short)]
    follow: bool,
    /// Print only the last N lines
    #[arg(long, short = 'n', value_name = "N")]
    tail: Option<usize>,
    /// Print escape sequences as they are, even to a terminal
    #[arg(long)]
    raw: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let mut log = engine.lifecycle.log(&meant_and_told(engine, args.name.as_deref(), output)?, args.command)?;
    // A command that never pauses would never let us end.
    log.bound(false)?;
    if output.json {
        let held = Held::read(&mut log)?;
        let text = String::from_utf8_lossy(&held.bytes[held.tail(args.tail)..]);
        let (name, dropped) = (&log.sandbox.name, held.dropped());
        output.document(&json!({ "sandbox": name, "pid": log.pid, "id": log.id, "output": text, "dropped_bytes": dropped }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut printer = Printer::new(!args.raw && io::stdout().is_terminal(), output);
    match print(engine, args, &mut log, &mut printer)? {
        Ok(()) => {}
        // Whoever read it has had enough, or the disk it went to has.
        Err(_) => lost_output(),
    }
    Ok(ExitCode::SUCCESS)
}

/// The inner failure is that of standard output.
fn print(engine: &Engine, args: &Args, log: &mut Log, printer: &mut Printer<'_>) -> Result<io::Result<()>, EngineError> {
    if args.tail.is_some() {
        let held = Held::read(log)?;
        if let Err(error) = held.print_from(held.tail(args.tail), printer) {
            return Ok(Err(error));
        }
    }
    if args.follow {
        log.bound(true)?;
    }
    let mut buffer = vec![0; 256 << 10];
    let mut pause = SHORTEST_PAUSE;
    loop {
        // Asked before reading, so that nothing written before the end is missed; but not while there is more to read.
        let running = args.follow && engine.lifecycle.is_running(log);
        let mut is_silent = true;
        while let Some(part) = log.next(&mut buffer)? {
            is_silent = false;
            match part {
                Part::Output(length) => {
                    if let Err(error) = printer.output(&buffer[..length]) {
                        return Ok(Err(error));
                    }
                }
                Part::Dropped(length) => printer.dropped(length),
            }
        }
        if !running {
            return Ok(printer.finish());
        }
        pause = if is_silent { (pause * 2).min(LONGEST_PAUSE) } else { SHORTEST_PAUSE };
        std::thread::sleep(pause);
    }
}

/// All there is, which is little enough to be held.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// After how many bytes, and how many.
    gaps: Vec<(usize, u64)>,
}

impl Held {
    fn read(log: &mut Log) -> Result<Self, EngineError> {
        let mut held = Self::default();
        let mut buffer = vec![0; 256 << 10];
        while let Some(part) = log.next(&mut buffer)? {
            match part {
                Part::Output(length) => held.bytes.extend_from_slice(&buffer[..length]),
                Part::Dropped(length) => held.gaps.push((held.bytes.len(), length)),
            }
        }
        Ok(held)
    }

    fn dropped(&self) -> u64 {
        self.gaps.iter().map(|(_, length)| length).sum()
    }

    /// Where the last so many lines begin.
    fn tail(&self, lines: Option<usize>) -> usize {
        let Some(lines) = lines else { return 0 };
        let body = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        match lines {
            0 => self.bytes.len(),
            _ => body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n').nth(lines - 1).map_or(0, |(at, _)| at + 1),
        }
    }

    /// What is missing before the lines that were asked for is no news.
    fn print_from(&self, begin: usize, printer: &mut Printer<'_>) -> io::Result<()> {
        let mut at = begin;
        for (gap, length) in self.gaps.iter().filter(|(gap, _)| begin == 0 || *gap > begin) {
            printer.output(&self.bytes[at..*gap])?;
            printer.dropped(*length);
            at = *gap;
        }
        printer.output(&self.bytes[at..])
    }
}

struct Printer<'a> {
    escape: bool,
    notes: &'a Output,
    /// Missing, and not yet said: what is missing in one place is one note.
    dropped: u64,
    /// The beginning of a character whose end has not come yet.
    unfinished: Vec<u8>,
}

impl<'a> Printer<'a> {
    fn new(escape: bool, notes: &'a Output) -> Self {
        Self { escape, notes, dropped: 0, unfinished: Vec::new() }
    }

    fn dropped(&mut self, length: u64) {
        self.dropped += length;
    }

    fn output(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.say_dropped()?;
        if !self.escape {
            return io::stdout().write_all(bytes).and_then(|()| io::stdout().flush());
        }
        let mut all = std::mem::take(&mut self.unfinished);
        all.extend_from_slice(bytes);
        self.unfinished = all.split_off(whole(&all));
        print_escaped(&all)
    }

    fn say_dropped(&mut self) -> io::Result<()> {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            self.flush_unfinished()?;
            let note = format!("[whatif: {dropped} bytes of earlier output were dropped]");
            self.notes.note(self.notes.paint_note(Style::Yellow, note));
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.say_dropped()?;
        self.flush_unfinished()
    }

    fn flush_unfinished(&mut self) -> io::Result<()> {
        print_escaped(&std::mem::take(&mut self.unfinished))
    }
}

/// Up to where no character and no line end is cut in two.
fn whole(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    let cut = (last..bytes.len())
        .find(|at| std::str::from_utf8(&bytes[*at..]).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none()));
    cut.unwrap_or(bytes.len() - usize::from(bytes.ends_with(b"\r")))
}

fn print_escaped(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    for part in text.split_inclusive(['\t', '\n']) {
        let plain = part.trim_end_matches(['\t', '\n']);
        out.write_all(printable(plain).as_bytes())?;
        out.write_all(&part.as_bytes()[plain.len()..])?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(text: &str) -> Held {
        Held { bytes: text.as_bytes().to_vec(), gaps: Vec::new() }
    }

    #[test]
    fn the_tail_is_counted_in_lines_whole_or_not() {
        for (text, lines, tail) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\n", 2, "a\nb\n"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\nb\n", 0, ""),
            ("\n\n\n", 2, "\n\n"),
            ("", 3, ""),
        ] {
            assert_eq!(&text[held(text).tail(Some(lines))..], tail, "the last {lines} of {text:?}");
        }
        assert_eq!(held("a\nb\n").tail(None), 0);
    }

    #[test]
    fn characters_and_line_ends_are_not_cut() {
        for (bytes, expected) in [
            (&b"plain"[..], 5),
            (b"", 0),
            (b"line\r", 4),
            ("aé".as_bytes(), 3),
            (&"aé".as_bytes()[..2], 1),
            (&"a€".as_bytes()[..3], 1),
            (&"a😀".as_bytes()[..4], 1),
            (b"a\xff", 2),
            (b"\x80\x80\x80\x80", 4),
        ] {
            assert_eq!(whole(bytes), expected, "{bytes:?}");
        }
    }
}
