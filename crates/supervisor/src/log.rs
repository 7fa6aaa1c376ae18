//! The record of decisions: one line of JSON each, on disk before whoever is inside can notice the decision. What repeats too
//! often is collapsed, so that a flood of one thing does not hide another.

mod repeats;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use whatif_types::network::{Event, EventKind, Protocol};

use self::repeats::{Fate, Repeats};

/// What is recorded altogether.
const LARGEST_LOG: u64 = 8 << 20;
/// Of this many parts of it, one is kept for connections that are allowed: those are what a reader needs to know most.
const PARTS: u64 = 4;
/// What was collapsed is written down for those who ask, but not more often than this.
const SETTLE_INTERVAL: Duration = Duration::from_secs(5);
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
    repeats: Repeats,
    settled_at: Option<Instant>,
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
            writer: Mutex::new(Writer {
                file,
                length,
                largest,
                repeats: Repeats::default(),
                settled_at: None,
                omitted: 0,
                omitted_ever: 0,
                next_notice: 1,
                is_torn: false,
            }),
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
        self.writer().record(event);
    }

    /// Writes down what was collapsed so far, for a reader.
    pub(crate) fn settle(&self) {
        let mut writer = self.writer();
        let now = Instant::now();
        if writer.settled_at.is_none_or(|at| now.saturating_duration_since(at) >= SETTLE_INTERVAL) {
            writer.settled_at = Some(now);
            writer.settle();
        }
    }

    /// The same at the end, and how much was left out.
    pub(crate) fn finish(&self) {
        let mut writer = self.writer();
        writer.settle();
        writer.notice();
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    fn record(&mut self, event: Event) {
        match self.repeats.decide(event, Instant::now()) {
            Fate::Write(event) => self.write(&event),
            Fate::Collapsed => {}
            Fate::Omit => self.omit(1),
        }
    }

    fn settle(&mut self) {
        for event in self.repeats.take() {
            self.write(&event);
        }
    }

    fn write(&mut self, event: &Event) {
        let is_connection = event.allowed && matches!(event.kind, EventKind::Connect | EventKind::Closed);
        let room = if is_connection { self.largest } else { self.largest - self.largest / PARTS };
        if self.length >= room || self.append(event).is_err() {
            self.omit(event.times());
        }
    }

    fn omit(&mut self, lines: u64) {
        self.omitted += lines;
        self.omitted_ever += lines;
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
        repeats: 0,
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

    #[test]
    fn a_flood_is_collapsed_and_hides_nothing_else() {
        let (log, path) = log_of(1 << 21);
        for _ in 0..100_000 {
            log.record(event("no rule"));
        }
        log.record(Event { host: "late.test".to_owned(), ..event("no rule") });
        log.record(Event { host: "fine.test".to_owned(), allowed: true, id: 7, ..event("fine.test") });
        log.finish();
        assert_eq!(log.counts(), (1, 100_001, 0), "nothing is left out");
        let lines = lines(&path);
        assert!(lines.len() < 1000, "{} lines", lines.len());
        assert_eq!(lines.iter().filter(|line| line.host.is_empty()).map(Event::times).sum::<u64>(), 100_000);
        assert!(["late.test", "fine.test"].iter().all(|host| lines.iter().any(|line| line.host == *host)));
    }

    #[test]
    fn room_is_kept_for_connections_that_are_allowed() {
        let (log, path) = log_of(40_000);
        for number in 0..100_000 {
            log.record(Event { host: format!("{number}.test"), ..event("no rule") });
        }
        log.record(Event { host: "fine.test".to_owned(), allowed: true, id: 7, ..event("fine.test") });
        assert!(lines(&path).iter().any(|line| line.host == "fine.test"));
    }
}
