//! A way into a JSON document: `$.a.b[0]['c d']`.

use std::str::FromStr;

use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Path {
    /// What is there, if it is a number.
    pub fn number(&self, document: &Value) -> Option<f64> {
        let mut value = document;
        for step in &self.0 {
            value = match step {
                Step::Key(key) => value.as_object()?.get(key)?,
                Step::Index(index) => value.as_array()?.get(*index)?,
            };
        }
        value.as_f64().filter(|number| number.is_finite())
    }
}

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = text.strip_prefix('$').ok_or("it begins with '$', as in $.a.b[0]")?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = step(rest)?;
            steps.push(step);
            rest = after;
        }
        Ok(Self(steps))
    }
}

fn step(rest: &str) -> Result<(Step, &str), String> {
    if let Some(key) = rest.strip_prefix('.') {
        let end = key.find(['.', '[']).unwrap_or(key.len());
        let (key, after) = key.split_at(end);
        return match key {
            "" => Err("a name is missing after '.'".to_owned()),
            "*" => Err("'*' is not supported; name one thing".to_owned()),
            _ => Ok((Step::Key(key.to_owned()), after)),
        };
    }
    let inner = rest.strip_prefix('[').ok_or_else(|| format!("'.' or '[' is missing before '{}'", rest.escape_debug()))?;
    if let Some(quote) = inner.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let (key, after) = quoted(&inner[1..], quote)?;
        let after = after.strip_prefix(']').ok_or("']' is missing after a name in quotes")?;
        return Ok((Step::Key(key), after));
    }
    let (index, after) = inner.split_once(']').ok_or("']' is missing")?;
    let index = index.parse().map_err(|_| format!("'{}' is not a number; names are in quotes", index.escape_debug()))?;
    Ok((Step::Index(index), after))
}

/// Up to the same quote; a backslash takes the next character as it is.
fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut key = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => key.extend(characters.next().map(|(_, c)| c)),
            _ if c == quote => return Ok((key, &text[at + 1..])),
            _ => key.push(c),
        }
    }
    Err(format!("{quote} is missing at the end of a name"))
}
