//! One figure: what was measured, what it is compared with, and what was promised.

use serde_json::{Value, json};

#[derive(Debug)]
pub struct Figure {
    pub label: String,
    pub value: f64,
    pub unit: Unit,
    /// The value that nine in ten stay below.
    pub p90: Option<f64>,
    pub times_floor: Option<f64>,
    pub ratio: Option<Ratio>,
    pub bar: Option<Bar>,
}

#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Milliseconds,
    PerSecond,
    Kibibytes,
}

#[derive(Debug)]
pub struct Ratio {
    pub to: String,
    pub value: f64,
}

#[derive(Clone, Copy, Debug)]
pub enum Bar {
    RatioAtMost(f64),
    ValueAtMost(f64),
    ValueAtLeast(f64),
}

impl Figure {
    pub fn new(label: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self { label: label.into(), value, unit, p90: None, times_floor: None, ratio: None, bar: None }
    }

    /// How it stands to its bar; nothing where there is none, or where what it is compared with could not be measured.
    pub fn verdict(&self) -> Option<&'static str> {
        let verdict = |holds: bool, otherwise| if holds { "ok" } else { otherwise };
        match self.bar? {
            Bar::RatioAtMost(limit) => Some(verdict(self.ratio.as_ref()?.value <= limit, "over")),
            Bar::ValueAtMost(limit) => Some(verdict(self.value <= limit, "over")),
            Bar::ValueAtLeast(limit) => Some(verdict(self.value >= limit, "under")),
        }
    }

    pub fn bar_text(&self) -> String {
        match self.bar {
            None => String::new(),
            Some(Bar::RatioAtMost(limit)) => format!("bar {limit:?}x"),
            Some(Bar::ValueAtMost(limit)) => format!("bar {limit} {}", self.unit.name()),
            Some(Bar::ValueAtLeast(limit)) => format!("bar {limit:.0}{}", self.unit.name()),
        }
    }

    pub fn value_text(&self) -> String {
        self.unit.show(self.value)
    }

    pub fn document(&self) -> Value {
        let bar = self.bar.map(|bar| match bar {
            Bar::RatioAtMost(limit) => json!({ "ratio_at_most": limit }),
            Bar::ValueAtMost(limit) => json!({ "value_at_most": limit }),
            Bar::ValueAtLeast(limit) => json!({ "value_at_least": limit }),
        });
        json!({
            "label": self.label,
            "value": self.value,
            "unit": self.unit.name(),
            "p90": self.p90,
            "times_floor": self.times_floor,
            "ratio": self.ratio.as_ref().map(|ratio| json!({ "to": ratio.to, "value": ratio.value })),
            "bar": bar,
            "verdict": self.verdict(),
        })
    }
}

impl Unit {
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Milliseconds => format!("{value:.2} ms"),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Kibibytes => format!("{value:.0} KiB"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::PerSecond => "/s",
            Self::Kibibytes => "KiB",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64) -> Figure {
        let ratio = Some(Ratio { to: "bwrap".to_owned(), value });
        Figure { ratio, bar: Some(Bar::RatioAtMost(2.0)), ..Figure::new("run", 4.0, Unit::Milliseconds) }
    }

    #[test]
    fn a_bar_is_judged_by_what_it_limits() {
        assert_eq!(ratio(2.0).verdict(), Some("ok"));
        assert_eq!(ratio(2.01).verdict(), Some("over"));
        let rate = Figure { bar: Some(Bar::ValueAtLeast(100.0)), ..Figure::new("rate", 99.0, Unit::PerSecond) };
        assert_eq!(rate.verdict(), Some("under"));
        assert_eq!(rate.bar_text(), "bar 100/s");
    }

    #[test]
    fn no_verdict_without_the_peer() {
        assert_eq!(Figure { ratio: None, ..ratio(1.0) }.verdict(), None);
    }
}
