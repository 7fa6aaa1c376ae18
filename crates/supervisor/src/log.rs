//! The record of decisions: one line of JSON each, on disk before whoever is inside can notice the decision.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use whatif_types::network::{Event, EventKind, Protocol};

/// What is recorded altogether. A sandbox that makes more of it only hides its own repetitions.
const LARGEST_LOG: u64 = 8 << 20;
/// Reasons repeat what a client sent, for example a path.
const LONGEST_TEXT: usize = 512;

#[derive(Debug)]
pub(crate) struct Log {
    writer: Mutex<Writer>,
    next_id: AtomicU64,
    allowed: AtomicU64,
    denied: AtomicU64,
}

#[derive(Debug)]
struct Writer {
    file: File,
    length: u64,
    largest: u64,
    /// Lines left out since the last line that says so, and altogether.
    omitted: u64,
    omitted_ever: u64,
    /// Doubles with each line about what was left out, so that these stay few.
    next_notice: u64,
    /// A line may have gone to a full disk in part.
    is_torn: bool,
}

impl Log {
    /// Over a file opened for appending.
    pub(crate) fn new(file: OwnedFd) -> io::Result<Self> {
        Self::with_room(file, LARGEST_LOG)
    }

    fn with_room(file: OwnedFd, largest: u64) -> io::Result<Self> {
        let file = File::from(file);
        let length = file.metadata()?.len();
        // An earlier supervisor of this sandbox has used smaller numbers.
        let first_id = (now_ms() / 1000) << 20;
        Ok(Self {
            writer: Mutex::new(Writer { file, length, largest, omitted: 0, omitted_ever: 0, next_notice: 1, is_torn: false }),
            next_id: AtomicU64::new(first_id),
            allowed: AtomicU64::new(0),
            denied: AtomicU64::new(0),
        })
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// How many connections and requests were allowed and denied, and how many lines were left out.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.allowed.load(Ordering::Relaxed), self.denied.load(Ordering::Relaxed), self.writer().omitted_ever)
    }

    pub(crate) fn record(&self, mut event: Event) {
        match (event.kind, event.allowed) {
            (EventKind::Connect, true) => _ = self.allowed.fetch_add(1, Ordering::Relaxed),
            (EventKind::Connect | EventKind::Request, false) => _ = self.denied.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
        shorten(&mut event.because);
        event.hint.iter_mut().for_each(shorten);
        self.writer().record(&event);
    }

    /// Says how much was left out at the end.
    pub(crate) fn finish(&self) {
        self.writer().notice();
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    fn record(&mut self, event: &Event) {
        if self.length < self.largest && self.append(event).is_ok() {
            return;
        }
        self.omitted += 1;
        self.omitted_ever += 1;
        if self.omitted >= self.next_notice {
            self.notice();
        }
    }

    fn notice(&mut self) {
        if self.omitted > 0 && self.append(&omission(self.omitted)).is_ok() {
            self.omitted = 0;
            self.next_notice = self.next_notice.saturating_mul(2);
        }
    }

    /// In one piece, since readers may look at any time.
    fn append(&mut self, event: &Event) -> io::Result<()> {
        let mut line = if self.is_torn { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut line, event)?;
        line.push(b'\n');
        self.is_torn = true;
        self.file.write_all(&line)?;
        self.is_torn = false;
        self.length += line.len() as u64;
        Ok(())
    }
}

fn omission(lines: u64) -> Event {
    Event {
        at_ms: now_ms(),
        id: 0,
        kind: EventKind::Omitted,
        protocol: Protocol::Tcp,
        host: String::new(),
        port: None,
        address: None,
        allowed: false,
        because: "there was too much to record".to_owned(),
        hint: None,
        who: None,
        sent: lines,
        received: 0,
    }
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn shorten(text: &mut String) {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(largest: u64) -> (Log, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("whatif-supervisor-log-{}-{largest}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let file = File::options().append(true).create(true).open(&path).unwrap();
        (Log::with_room(file.into(), largest).unwrap(), path)
    }

    fn event(because: &str) -> Event {
        Event { kind: EventKind::Connect, because: because.to_owned(), ..omission(0) }
    }

    fn lines(path: &std::path::Path) -> Vec<Event> {
        let text = std::fs::read_to_string(path).unwrap();
        let _ = std::fs::remove_file(path);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn what_does_not_fit_is_counted_and_the_counts_add_up() {
        let (log, path) = log_of(2000);
        for _ in 0..10_000 {
            log.record(event("no rule"));
        }
        log.finish();
        let lines = lines(&path);
        let omitted: u64 = lines.iter().filter(|line| line.kind == EventKind::Omitted).map(|line| line.sent).sum();
        let kept = lines.iter().filter(|line| line.kind == EventKind::Connect).count() as u64;
        assert!(kept > 5 && lines.len() < 60, "{} lines", lines.len());
        assert_eq!(kept + omitted, 10_000);
        assert_eq!(log.counts(), (0, 10_000, omitted));
    }

    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let (log, path) = log_of(1 << 20);
        log.record(event(&"ä".repeat(10_000)));
        assert!(lines(&path)[0].because.len() <= LONGEST_TEXT + "…".len());
    }
}
