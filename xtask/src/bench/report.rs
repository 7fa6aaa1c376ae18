//! The table that is printed and the document that is written.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::figure::Figure;
use crate::failure::{Failure, on};

#[derive(Debug)]
pub struct Report {
    uid: u32,
    rounds: usize,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    title: String,
    figures: Vec<Figure>,
    /// What could not be measured here, and why.
    skipped: Vec<(String, String)>,
}

impl Report {
    pub fn new(uid: u32, rounds: usize) -> Self {
        Self { uid, rounds, groups: Vec::new() }
    }

    pub fn group(&mut self, title: impl Into<String>, figures: Vec<Figure>, skipped: Vec<(String, String)>) {
        self.groups.push(Group { title: title.into(), figures, skipped });
    }

    pub fn print(&self) {
        println!("\nas uid {}, kernel {}, {} CPUs, {} rounds", self.uid, kernel(), cpus(), self.rounds);
        let rows = |group: &Group| group.figures.iter().map(row).collect::<Vec<_>>();
        let widths = widths(self.groups.iter().flat_map(rows).chain(self.groups.iter().map(headings)));
        for group in &self.groups {
            println!("\n{}", aligned(&headings(group), &widths));
            for row in rows(group) {
                println!("{}", aligned(&row, &widths));
            }
            for (label, reason) in &group.skipped {
                println!("  {label}: skipped, because: {}", reason.lines().next().unwrap_or_default());
            }
        }
    }

    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(on("create", parent))?;
        }
        fs::write(file, format!("{:#}\n", self.document())).map_err(on("write", file))
    }

    fn document(&self) -> Value {
        let group = |group: &Group| {
            json!({
                "title": group.title,
                "figures": group.figures.iter().map(Figure::document).collect::<Vec<_>>(),
                "skipped": group.skipped.iter().map(|(label, reason)| json!({ "label": label, "reason": reason })).collect::<Vec<_>>(),
            })
        };
        json!({
            "measured_at_unix": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            "kernel": kernel(),
            "cpus": cpus(),
            "uid": self.uid,
            "rounds": self.rounds,
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
        })
    }
}

fn headings(group: &Group) -> [String; 7] {
    let has_medians = group.figures.iter().any(|figure| figure.p90.is_some());
    let columns = if has_medians { ["median", "p90", "x floor", "compared", "", ""] } else { [""; 6] };
    std::array::from_fn(|i| if i == 0 { group.title.clone() } else { columns[i - 1].to_owned() })
}

fn row(figure: &Figure) -> [String; 7] {
    [
        format!("  {}", figure.label),
        figure.value_text(),
        figure.p90.map_or_else(String::new, |p90| figure.unit.show(p90)),
        figure.times_floor.map_or_else(String::new, |times| format!("{times:.1}x")),
        figure.ratio.as_ref().map_or_else(String::new, |ratio| format!("{:.2}x {}", ratio.value, ratio.to)),
        figure.bar_text(),
        figure.verdict().unwrap_or_default().to_owned(),
    ]
}

fn widths(rows: impl Iterator<Item = [String; 7]>) -> [usize; 7] {
    rows.fold([0; 7], |widths, row| std::array::from_fn(|i| widths[i].max(row[i].chars().count())))
}

/// Words to the left, numbers to the right.
fn aligned(row: &[String; 7], widths: &[usize; 7]) -> String {
    let cell = |i: usize| match i {
        1..=3 => format!("{:>width$}", row[i], width = widths[i]),
        _ => format!("{:<width$}", row[i], width = widths[i]),
    };
    let line = (0..row.len()).map(cell).collect::<Vec<_>>().join("   ");
    line.trim_end().to_owned()
}

fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::super::figure::{Bar, Ratio, Unit};
    use super::*;

    #[test]
    fn a_row_has_the_bar_beside_its_figure() {
        let ratio = Some(Ratio { to: "bwrap".to_owned(), value: 0.84 });
        let figure = Figure { ratio, bar: Some(Bar::RatioAtMost(2.0)), ..Figure::new("run", 3.2, Unit::Milliseconds) };
        let row = row(&figure);
        let line = aligned(&row, &widths([row.clone()].into_iter()));
        assert_eq!(line, "  run   3.20 ms         0.84x bwrap   bar 2.0x   ok");
    }
}
