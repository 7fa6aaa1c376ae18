//! What can be done about an error, as data: a sentence of words, calls and choices.
//!
//! A library says *what* to call; how that is spelled is known to each client alone: a command line, a request, a button.

mod call;
mod choice;
mod value;

use std::fmt;

use serde::Serialize;

use crate::text::Text;

pub use self::call::Call;
pub use self::choice::Choice;
pub use self::value::Value;

/// A sentence that says what to do next.
pub type Remedy = Sentence;

/// Words with calls and choices among them. Made with `remedy!`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Sentence {
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Part {
    /// With the spaces and signs between the other parts.
    Words(String),
    /// To be called, as proposed.
    Call(Call),
    /// Spoken about, as in "… lists the sandboxes".
    Mention { mention: Call },
    /// To be chosen in the call that failed, or in another one that the words tell of.
    Choice(Choice),
    /// One word in the command line of another program.
    Argument { argument: Text },
    /// A path that is set apart from the words around it, whatever it is called.
    Path { path: Text },
}

/// A call that the sentence speaks about.
#[derive(Clone, Debug)]
pub struct Mention(pub Call);

/// One word in the command line of another program.
#[derive(Clone, Debug)]
pub struct Argument<'a>(pub &'a std::path::Path);

/// A path that is set apart from the words around it.
#[derive(Clone, Debug)]
pub struct Apart<'a>(pub &'a std::path::Path);

impl Sentence {
    /// Whether it is words alone, so that it says the same to every client.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Words(_)))
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Words(words) if words.is_empty()))
    }

    /// One sentence out of two.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        self.parts.extend(more.parts);
        self
    }
}

/// For logs, where no client says how a call is spelled: calls and choices are told by their names.
impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Words(words) => f.write_str(words),
            Part::Call(call) | Part::Mention { mention: call } => write!(f, "'{}'", tag(call, "call")),
            Part::Choice(choice) => write!(f, "'{}'", tag(choice, "choice")),
            Part::Argument { argument: path } | Part::Path { path } => write!(f, "'{}'", path.to_path().display()),
        })
    }
}

/// What a call or a choice is named in JSON.
fn tag(data: &impl Serialize, key: &str) -> String {
    let json = serde_json::to_value(data).unwrap_or_default();
    json.get(key).and_then(|name| name.as_str()).unwrap_or_default().to_owned()
}

impl<P: Into<Part>> From<P> for Sentence {
    fn from(part: P) -> Self {
        Self { parts: vec![part.into()] }
    }
}

impl From<&str> for Part {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

impl From<String> for Part {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<Call> for Part {
    fn from(call: Call) -> Self {
        Self::Call(call)
    }
}

impl From<Mention> for Part {
    fn from(Mention(mention): Mention) -> Self {
        Self::Mention { mention }
    }
}

impl From<Choice> for Part {
    fn from(choice: Choice) -> Self {
        Self::Choice(choice)
    }
}

impl From<Argument<'_>> for Part {
    fn from(Argument(path): Argument<'_>) -> Self {
        Self::Argument { argument: Text::from(path) }
    }
}

impl From<Apart<'_>> for Part {
    fn from(Apart(path): Apart<'_>) -> Self {
        Self::Path { path: Text::from(path) }
    }
}

/// A sentence out of its parts: `remedy!["start it again: ", Call::start(name)]`.
#[macro_export]
macro_rules! remedy {
    ($($part:expr),+ $(,)?) => {
        $crate::remedy::Sentence { parts: vec![$($crate::remedy::Part::from($part)),+] }
    };
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_remedy_is_words_and_data() {
        let remedy = remedy!["stop it: ", Call::stop("fox"), "; ", Mention(Call::List), " lists them"];
        let expected = json!([
            "stop it: ", { "call": "stop", "name": { "given": "fox" } }, "; ", { "mention": { "call": "list" } }, " lists them",
        ]);
        assert_eq!(serde_json::to_value(&remedy).unwrap(), expected);
        assert_eq!(remedy.to_string(), "stop it: 'stop'; 'list' lists them");
        assert!(!remedy.is_plain() && Remedy::from("wait").is_plain());
    }

    #[test]
    fn choices_and_arguments_are_data_too() {
        let remedy = remedy![Choice::Ours(Value::Blank), " or rm ", Argument(Path::new("/a b"))];
        let expected = json!([{ "choice": "ours", "value": "blank" }, " or rm ", { "argument": "/a b" }]);
        assert_eq!(serde_json::to_value(&remedy).unwrap(), expected);
        assert_eq!(serde_json::to_value(Choice::Force).unwrap(), json!({ "choice": "force" }));
    }
}
