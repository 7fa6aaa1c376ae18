//! How remedies are told to clients of the API: calls as routes, choices as fields of a request. What the API cannot do is named as the
//! command line has it.

use serde::Serialize;
use whatif_types::remedy::{Call, Part, Sentence, Value};

/// As `hints` has it.
#[must_use]
pub fn sentence(sentence: &Sentence) -> String {
    sentence.parts.iter().map(part).collect()
}

fn part(part: &Part) -> String {
    match part {
        Part::Words(words) => words.clone(),
        Part::Call(call) | Part::Mention { mention: call } => route(call),
        Part::Choice(choice) => format!("'{}'", tag(choice, "choice")),
        Part::Argument { argument: path } | Part::Path { path } => format!("'{}'", path.to_path().display()),
    }
}

/// Below `/api/v1`.
fn route(call: &Call) -> String {
    let (method, path) = match call {
        Call::List => ("GET", "sandboxes".to_owned()),
        Call::New { .. } => ("POST", "sandboxes".to_owned()),
        Call::Show { name } => ("GET", of(name, "")),
        Call::Remove { name } => ("DELETE", of(name, "")),
        Call::Start { name, .. } => ("POST", of(name, "/start")),
        Call::Stop { name } => ("POST", of(name, "/stop")),
        Call::Fork { from } => ("POST", of(from, "/fork")),
        Call::Exec { name } => ("POST", of(name, "/commands")),
        Call::Processes { name } => ("GET", of(name, "/commands")),
        Call::Logs { name, command } => ("GET", of(name, &format!("/commands/{command}/output"))),
        Call::Diff { name } | Call::ChangedPaths { name } | Call::HunksAsData { name, .. } | Call::Hunks { name, .. } => {
            ("GET", of(name, "/changes"))
        }
        Call::Patch { name } => ("GET", of(name, "/changes/patch")),
        Call::Apply { name, .. } => ("POST", of(name, "/apply")),
        Call::Undo { id, .. } | Call::UndoApproved { id } => ("POST", format!("applies/{}/undo", word(id, "{apply}"))),
        Call::History | Call::HistoryAsData => ("GET", "applies".to_owned()),
        Call::Snapshots { name } => ("GET", of(name, "/snapshots")),
        other => return format!("'{}' on the command line", tag(other, "call")),
    };
    format!("{method} /api/v1/{path}")
}

fn of(name: &Value, rest: &str) -> String {
    format!("sandboxes/{}{rest}", word(name, "{sandbox}"))
}

fn word(value: &Value, blank: &str) -> String {
    match value {
        Value::Given(text) => text.to_path().to_string_lossy().into_owned(),
        Value::Blank | Value::Unsaid => blank.to_owned(),
    }
}

fn tag(data: &impl Serialize, key: &str) -> String {
    let json = serde_json::to_value(data).unwrap_or_default();
    json.get(key).and_then(|name| name.as_str()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use whatif_types::remedy;
    use whatif_types::remedy::{Choice, Mention};

    use super::*;

    #[test]
    fn calls_are_routes_and_choices_are_fields() {
        let told = sentence(&remedy![Mention(Call::List), " lists them; stop it: ", Call::stop("fox")]);
        assert_eq!(told, "GET /api/v1/sandboxes lists them; stop it: POST /api/v1/sandboxes/fox/stop");
        assert_eq!(sentence(&remedy!["use ", Choice::Ours(Value::Blank)]), "use 'ours'");
        assert_eq!(sentence(&remedy!["see ", Call::Doctor]), "see 'doctor' on the command line");
    }
}
