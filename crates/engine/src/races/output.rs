//! What a command of a race prints: its last lines are kept, numbers are read from all of it.

use whatif_race::counts::Counter;
use whatif_race::metric::Extractor;
use whatif_types::experiment::{MetricPlan, TestCounts};

/// So much is kept for whoever asks why it failed.
const LONGEST_TAIL: usize = 8 << 10;
const MOST_LINES: usize = 40;

/// The end of what was printed.
#[derive(Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    pub fn feed(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(&piece[piece.len().saturating_sub(LONGEST_TAIL)..]);
        if self.bytes.len() > 2 * LONGEST_TAIL {
            self.bytes.drain(..self.bytes.len() - LONGEST_TAIL);
        }
    }

    pub fn text(&self) -> String {
        let start = self.bytes.len().saturating_sub(LONGEST_TAIL);
        let text = String::from_utf8_lossy(&self.bytes[start..]);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        lines[lines.len().saturating_sub(MOST_LINES)..].join("\n")
    }
}

/// Everything that is read from the output of one check.
pub(super) struct Reader<'a> {
    pub tail: Tail,
    counter: Counter,
    metrics: Vec<(&'a MetricPlan, Extractor)>,
}

/// What there was to read.
pub(super) struct Read {
    pub tests: Option<TestCounts>,
    pub metrics: Vec<(String, f64)>,
}

impl<'a> Reader<'a> {
    /// `metrics` are those that this check may tell.
    pub fn new(metrics: impl Iterator<Item = &'a MetricPlan>) -> Self {
        // Those that cannot be read were refused when the race was recorded.
        let metrics = metrics.filter_map(|plan| Some((plan, Extractor::new(plan).ok()?))).collect();
        Self { tail: Tail::default(), counter: Counter::new(), metrics }
    }

    pub fn feed(&mut self, piece: &[u8]) {
        self.tail.feed(piece);
        self.counter.feed(piece);
        for (_, extractor) in &mut self.metrics {
            extractor.feed(piece);
        }
    }

    pub fn finish(self) -> (Tail, Read) {
        let metrics = self.metrics.into_iter().filter_map(|(plan, extractor)| Some((plan.name.clone(), extractor.finish()?)));
        (self.tail, Read { tests: self.counter.finish(), metrics: metrics.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_however_it_comes() {
        let mut tail = Tail::default();
        for number in 0..10_000 {
            tail.feed(format!("line {number}\n").as_bytes());
        }
        let text = tail.text();
        assert_eq!((text.lines().count(), text.lines().last()), (MOST_LINES, Some("line 9999")));
        let mut tail = Tail::default();
        tail.feed(&vec![b'x'; 1 << 20]);
        assert_eq!(tail.text().len(), LONGEST_TAIL);
        tail.feed(b"\xff\xfe end");
        assert!(tail.text().ends_with(" end"));
    }
}
