//! Figures on their way from the process that measured them to the one that reports them.

use std::path::Path;

use serde_json::{Value, json};

use super::super::figure::{Bar, Figure, Ratio, Unit};
use crate::failure::{Failure, on};

#[derive(Debug)]
pub struct Group {
    pub title: String,
    pub figures: Vec<Figure>,
    pub skipped: Vec<(String, String)>,
}

pub fn document(groups: &[Group]) -> Value {
    let group = |group: &Group| {
        let figures: Vec<Value> = group.figures.iter().map(Figure::document).collect();
        json!({ "title": group.title, "figures": figures, "skipped": group.skipped })
    };
    groups.iter().map(group).collect()
}

pub fn read(text: &[u8]) -> Result<Vec<Group>, Failure> {
    let document: Value = serde_json::from_slice(text).map_err(on("understand", Path::new("what was measured")))?;
    let groups = document.as_array().and_then(|groups| groups.iter().map(group).collect::<Option<Vec<_>>>());
    groups.ok_or_else(|| Failure::new("what was measured is not what figures are"))
}

fn group(document: &Value) -> Option<Group> {
    let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
    Some(Group {
        title: document["title"].as_str()?.to_owned(),
        figures: document["figures"].as_array()?.iter().map(figure).collect::<Option<_>>()?,
        skipped: document["skipped"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
    })
}

fn figure(document: &Value) -> Option<Figure> {
    let unit = match document["unit"].as_str()? {
        "ms" => Unit::Milliseconds,
        "/s" => Unit::PerSecond,
        "KiB" => Unit::Kibibytes,
        _ => return None,
    };
    let ratio = &document["ratio"];
    Some(Figure {
        p90: document["p90"].as_f64(),
        times_floor: document["times_floor"].as_f64(),
        ratio: ratio["value"].as_f64().and_then(|value| Some(Ratio { to: ratio["to"].as_str()?.to_owned(), value })),
        bar: bar(&document["bar"]),
        ..Figure::new(document["label"].as_str()?, document["value"].as_f64()?, unit)
    })
}

fn bar(document: &Value) -> Option<Bar> {
    let limit = |name: &str| document[name].as_f64();
    let at_most = limit("ratio_at_most").map(Bar::RatioAtMost).or_else(|| limit("value_at_most").map(Bar::ValueAtMost));
    at_most.or_else(|| limit("value_at_least").map(Bar::ValueAtLeast))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_arrive_as_they_were_sent() {
        let ratio = Some(Ratio { to: "direct".to_owned(), value: 1.5 });
        let figures = vec![
            Figure::new("plain", 1.0, Unit::Kibibytes),
            Figure { ratio, bar: Some(Bar::RatioAtMost(2.0)), p90: Some(3.0), ..Figure::new("ratio", 2.0, Unit::Milliseconds) },
            Figure { times_floor: Some(4.0), bar: Some(Bar::ValueAtLeast(5.0)), ..Figure::new("rate", 6.0, Unit::PerSecond) },
            Figure { bar: Some(Bar::ValueAtMost(7.0)), ..Figure::new("most", 8.0, Unit::Milliseconds) },
        ];
        let skipped = vec![("peer".to_owned(), "it is not installed".to_owned())];
        let sent = document(&[Group { title: "a group".to_owned(), figures, skipped }]);
        let arrived = read(sent.to_string().as_bytes()).unwrap();
        assert_eq!(document(&arrived), sent);
        assert!(read(b"[{}]").is_err() && read(b"").is_err());
    }
}
