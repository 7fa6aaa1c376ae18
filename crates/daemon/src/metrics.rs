//! What the daemon counts, in the form that Prometheus reads.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;

/// Upper bounds in milliseconds.
const BOUNDS: [u64; 9] = [1, 5, 10, 50, 100, 500, 1000, 5000, 30_000];

#[derive(Debug, Default)]
pub struct Metrics {
    /// By the first digit of the status.
    classes: [AtomicU64; 6],
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    microseconds: AtomicU64,
    pub replays: AtomicU64,
}

impl Metrics {
    pub fn answered(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).min(self.classes.len() - 1);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS) {
            if took <= Duration::from_millis(bound) {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    /// With the numbers of sandboxes in each state.
    #[must_use]
    pub fn text(&self, sandboxes: &[(&'static str, u64)]) -> String {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = String::new();
        text.push_str("# TYPE whatif_sandboxes gauge\n");
        for (status, count) in sandboxes {
            let _ = writeln!(text, "whatif_sandboxes{{status=\"{status}\"}} {count}");
        }
        text.push_str("# TYPE whatif_http_requests_total counter\n");
        for (class, counter) in self.classes.iter().enumerate().skip(2) {
            let _ = writeln!(text, "whatif_http_requests_total{{status=\"{class}xx\"}} {}", read(counter));
        }
        text.push_str("# TYPE whatif_http_request_seconds histogram\n");
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS) {
            let _ = writeln!(text, "whatif_http_request_seconds_bucket{{le=\"{}\"}} {}", bound as f64 / 1000.0, read(bucket));
        }
        let count = read(&self.count);
        let _ = writeln!(text, "whatif_http_request_seconds_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "whatif_http_request_seconds_sum {}", read(&self.microseconds) as f64 / 1e6);
        let _ = writeln!(text, "whatif_http_request_seconds_count {count}");
        text.push_str("# TYPE whatif_idempotency_replays_total counter\n");
        let _ = writeln!(text, "whatif_idempotency_replays_total {}", read(&self.replays));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_is_counted_once_in_every_bucket_that_holds_it() {
        let metrics = Metrics::default();
        metrics.answered(StatusCode::OK, Duration::from_millis(7));
        metrics.answered(StatusCode::NOT_FOUND, Duration::from_secs(60));
        let text = metrics.text(&[("active", 3)]);
        for line in [
            "whatif_sandboxes{status=\"active\"} 3",
            "whatif_http_requests_total{status=\"2xx\"} 1",
            "whatif_http_requests_total{status=\"4xx\"} 1",
            "whatif_http_request_seconds_bucket{le=\"0.005\"} 0",
            "whatif_http_request_seconds_bucket{le=\"0.01\"} 1",
            "whatif_http_request_seconds_bucket{le=\"30\"} 1",
            "whatif_http_request_seconds_bucket{le=\"+Inf\"} 2",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
        }
    }
}
