//! Which events get a line of their own. The first about a host and port does, as long as there are not very many of them, and so
//! do some repetitions; further ones are counted, and a later line stands for all of them.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use whatif_types::network::{Event, EventKind};

/// More hosts and ports than any program connects to in earnest.
const NEW_AT_ONCE: u32 = 1000;
const REPEATS_AT_ONCE: u32 = 256;
const ONE_MORE_EVERY: Duration = Duration::from_secs(4);
const MOST_KEYS: usize = 4096;

#[derive(Debug)]
pub(super) enum Fate {
    Write(Event),
    /// Counted, and written later with others like it.
    Collapsed,
    /// There is no room to count it.
    Omit,
}

#[derive(Debug)]
pub(super) struct Repeats {
    seen: HashMap<Key, Tally>,
    /// Connections whose beginning was written, so that their end is.
    open: HashSet<u64>,
    denied: Share,
    allowed: Share,
}

/// Lines about what is denied do not use up those about what is allowed.
#[derive(Debug)]
struct Share {
    new: Bucket,
    repeats: Bucket,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: EventKind,
    allowed: bool,
    host: String,
    port: Option<u16>,
}

/// What was collapsed since the last line.
#[derive(Debug)]
struct Tally {
    last: Event,
    times: u64,
    sent: u64,
    received: u64,
}

impl Default for Repeats {
    fn default() -> Self {
        let share = || Share { new: Bucket::of(NEW_AT_ONCE), repeats: Bucket::of(REPEATS_AT_ONCE) };
        Self { seen: HashMap::new(), open: HashSet::new(), denied: share(), allowed: share() }
    }
}

impl Repeats {
    pub(super) fn decide(&mut self, event: Event, now: Instant) -> Fate {
        match event.kind {
            // These have limits of their own.
            EventKind::Resolve | EventKind::Omitted => Fate::Write(event),
            EventKind::Closed => self.closed(event, now),
            EventKind::Connect | EventKind::Request | EventKind::Failed => self.happened(event, now),
        }
    }

    /// Everything that was collapsed.
    pub(super) fn take(&mut self) -> Vec<Event> {
        self.seen.values_mut().filter(|tally| tally.times > 0).map(Tally::take).collect()
    }

    fn happened(&mut self, event: Event, now: Instant) -> Fate {
        let key = Key::of(&event);
        let is_connection = event.kind == EventKind::Connect && event.allowed;
        let share = if is_connection { &mut self.allowed } else { &mut self.denied };
        let Some(tally) = self.seen.get_mut(&key) else {
            if !share.new.take(now) || !self.has_room() {
                return Fate::Omit;
            }
            self.seen.insert(key, Tally::of(event.clone()));
            self.open.extend(is_connection.then_some(event.id));
            return Fate::Write(event);
        };
        tally.last = event.clone();
        if is_connection {
            // One that is collapsed is counted at its end, with its bytes; those that wait for a line go first.
            if tally.times == 0 && share.repeats.take(now) {
                self.open.insert(event.id);
                return Fate::Write(event);
            }
            return Fate::Collapsed;
        }
        tally.times += 1;
        if share.repeats.take(now) { Fate::Write(tally.take()) } else { Fate::Collapsed }
    }

    fn closed(&mut self, event: Event, now: Instant) -> Fate {
        if self.open.remove(&event.id) {
            return Fate::Write(event);
        }
        let Some(tally) = self.seen.get_mut(&Key::of(&event)) else { return Fate::Omit };
        tally.times += 1;
        tally.sent += event.sent;
        tally.received += event.received;
        tally.last.at_ms = event.at_ms;
        if self.allowed.repeats.take(now) { Fate::Write(tally.take()) } else { Fate::Collapsed }
    }

    /// Forgets those that nothing is counted of. They are new when they come again.
    fn has_room(&mut self) -> bool {
        if self.seen.len() >= MOST_KEYS {
            self.seen.retain(|_, tally| tally.times > 0);
        }
        self.seen.len() < MOST_KEYS
    }
}

impl Key {
    /// The end of a connection belongs to its beginning.
    fn of(event: &Event) -> Self {
        let kind = if event.kind == EventKind::Closed { EventKind::Connect } else { event.kind };
        Self { kind, allowed: event.allowed, host: event.host.clone(), port: event.port }
    }
}

impl Tally {
    fn of(last: Event) -> Self {
        Self { last, times: 0, sent: 0, received: 0 }
    }

    /// The line for all of it. A single denial is a line like any other; a connection that has ended is never one that is open.
    fn take(&mut self) -> Event {
        let (times, sent, received) =
            (std::mem::take(&mut self.times), std::mem::take(&mut self.sent), std::mem::take(&mut self.received));
        let is_plain = times == 1 && !(self.last.allowed && self.last.kind == EventKind::Connect);
        Event { sent, received, repeats: if is_plain { 0 } else { times }, ..self.last.clone() }
    }
}

/// So many at once, and then one every few seconds.
#[derive(Debug)]
struct Bucket {
    left: u32,
    most: u32,
    refilled: Option<Instant>,
}

impl Bucket {
    fn of(most: u32) -> Self {
        Self { left: most, most, refilled: None }
    }

    fn take(&mut self, now: Instant) -> bool {
        let last = *self.refilled.get_or_insert(now);
        let passed = now.saturating_duration_since(last).as_secs() / ONE_MORE_EVERY.as_secs();
        if passed > 0 {
            self.left = u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(self.left).min(self.most);
            self.refilled = Some(now);
        }
        let has_some = self.left > 0;
        self.left -= u32::from(has_some);
        has_some
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whatif_types::network::Protocol;

    fn event(kind: EventKind, id: u64, host: &str, allowed: bool) -> Event {
        Event {
            at_ms: 1,
            id,
            kind,
            protocol: Protocol::Tcp,
            host: host.to_owned(),
            port: Some(80),
            address: None,
            allowed,
            because: String::new(),
            hint: None,
            who: None,
            sent: if kind == EventKind::Closed { 2 } else { 0 },
            received: 0,
            repeats: 0,
        }
    }

    fn written(fate: Fate) -> Option<Event> {
        match fate {
            Fate::Write(event) => Some(event),
            Fate::Collapsed | Fate::Omit => None,
        }
    }

    #[test]
    fn connections_are_collapsed_with_their_bytes() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let mut lines = Vec::new();
        for id in 0..1000 {
            for kind in [EventKind::Connect, EventKind::Closed] {
                lines.extend(written(repeats.decide(event(kind, id, "a.test", true), now)));
            }
        }
        lines.extend(repeats.take());
        assert!(lines.len() < 3 * REPEATS_AT_ONCE as usize, "{} lines", lines.len());
        assert_eq!(lines.iter().map(|line| line.sent).sum::<u64>(), 2000);
        let begun = lines.iter().filter(|line| line.kind == EventKind::Connect);
        assert_eq!(begun.map(Event::times).sum::<u64>(), 1000);
        assert!(repeats.open.is_empty() && repeats.take().is_empty());
    }

    #[test]
    fn there_is_a_line_now_and_then_whatever_comes() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        for id in 0..10_000 {
            repeats.decide(event(EventKind::Connect, id, "a.test", false), now);
        }
        let later = now + ONE_MORE_EVERY;
        let line = written(repeats.decide(event(EventKind::Connect, 10_000, "a.test", false), later)).unwrap();
        assert!(line.repeats > 9000, "{}", line.repeats);
        assert!(written(repeats.decide(event(EventKind::Connect, 10_001, "new.test", false), now)).is_some());
    }

    #[test]
    fn very_many_hosts_take_bounded_room() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let fates = (0..50_000).map(|id| repeats.decide(event(EventKind::Connect, id, &format!("{id}.test"), false), now));
        assert_eq!(fates.filter_map(written).count(), NEW_AT_ONCE as usize);
        assert!(repeats.seen.len() <= MOST_KEYS);
        assert!(
            written(repeats.decide(event(EventKind::Connect, 1, "fine.test", true), now)).is_some(),
            "the allowed have their own"
        );
    }
}
