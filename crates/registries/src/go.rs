//! Go's module proxy and its database of checksums.

use serde_json::{Map, Value};

use crate::answers::Answers;
use crate::ask::Question;
use crate::place::Place;
use crate::surroundings::Surroundings;

const TOOL: &str = "go";

pub(crate) fn ask(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    let Some(program) = surroundings.program("go") else { return answers };
    // Another version of itself would have to be downloaded.
    let question = Question::new(&program, surroundings).args(["env", "-json", "GOPROXY", "GOSUMDB"]).env("GOTOOLCHAIN", "local");
    match question.ask().map(|text| serde_json::from_str::<Map<String, Value>>(&text)) {
        Ok(Ok(values)) => {
            let value = |name: &str| values.get(name).and_then(Value::as_str).unwrap_or_default();
            proxies(value("GOPROXY"), "GOPROXY", &mut answers);
            checksums(value("GOSUMDB"), &mut answers);
        }
        Ok(Err(_)) => answers.unanswered("go does not say how it is set up".to_owned()),
        Err(error) => answers.unanswered(format!("go {error}")),
    }
    answers
}

/// From `https://proxy.example,direct`: tried in order, with commas or bars between them.
pub(crate) fn proxies(value: &str, said: &str, answers: &mut Answers) {
    let parts = value.split([',', '|']).map(str::trim).filter(|part| !matches!(*part, "" | "off" | "direct" | "none"));
    parts.for_each(|url| answers.url(TOOL, url, said));
}

/// From `name`, `name+key` or `name+key url`.
fn checksums(value: &str, answers: &mut Answers) {
    let mut words = value.split_whitespace();
    match (words.next(), words.next()) {
        (None | Some("off"), _) => {}
        (Some(_), Some(url)) => answers.url(TOOL, url, "GOSUMDB"),
        (Some(name), None) => {
            let host = name.split(['+', '/']).next().unwrap_or_default();
            answers.place(TOOL, Place::of_host(host).map(Some), "GOSUMDB");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_says() {
        let mut answers = Answers::default();
        proxies("https://a.example/x|http://b.example:8081,direct,off,file:///srv", "GOPROXY", &mut answers);
        checksums("sum.example+1234+key", &mut answers);
        checksums("sum.example+1234 https://c.example/sum", &mut answers);
        checksums("off", &mut answers);
        checksums("", &mut answers);
        let places: Vec<_> = answers.sources.iter().map(|source| source.place.as_str()).collect();
        assert_eq!(places, ["a.example:443", "b.example:8081", "sum.example:443", "c.example:443"]);
        assert!(answers.troubles.is_empty(), "{:?}", answers.troubles);
    }
}
