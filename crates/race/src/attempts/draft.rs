//! An attempt before it has its name.

use std::collections::BTreeMap;

use whatif_types::experiment::{AttemptPlan, Kind};
use whatif_types::text::Text;

use super::scripts::{APPLY, TAKE_BACK};
use super::{AttemptsError, Name, Template, Values};

const SHELL: &str = "/bin/sh";
/// What a line for people is cut at, in characters.
const ABOUT: usize = 200;

#[derive(Debug)]
pub(crate) struct Draft {
    pub name: Name,
    kind: Kind,
    about: String,
    arguments: Vec<Text>,
    input: Option<Text>,
    parameters: BTreeMap<String, String>,
}

impl Draft {
    pub fn script(name: Name, script: &str) -> Self {
        let arguments = if script.trim().is_empty() { Vec::new() } else { shell(script) };
        Self::new(name, Kind::Command, script, arguments)
    }

    /// The script with the values filled in; they are variables for it too.
    pub fn script_with(name: Name, script: &str, values: &Values) -> Self {
        let filled = super::fill(&Text::from(script), &|place| values.get(place));
        let filled = String::from_utf8_lossy(filled.as_bytes());
        Self { parameters: values.to_parameters(), ..Self::script(name, &filled) }
    }

    pub fn command(name: Name, template: &Template, values: &Values) -> Self {
        let arguments = template.filled(values, None);
        Self { parameters: values.to_parameters(), ..Self::new(name, Kind::Command, &command_line(&arguments), arguments) }
    }

    pub fn prompt(name: Name, template: &Template, prompt: &str, values: &Values) -> Self {
        let arguments = template.filled(values, Some(prompt));
        Self { parameters: values.to_parameters(), ..Self::new(name, Kind::Prompt, prompt, arguments) }
    }

    /// The agent is a script, and the prompt a variable for it: put into the script it could be anything.
    pub fn prompt_for_script(name: Name, agent: &str, prompt: &str, values: &Values) -> Self {
        let script = Self::script_with(name, agent, values);
        let mut parameters = script.parameters;
        parameters.insert("PROMPT".to_owned(), prompt.to_owned());
        Self { kind: Kind::Prompt, about: one_line(prompt), parameters, ..script }
    }

    pub fn patch(name: Name, path: &str, content: Text) -> Result<Self, AttemptsError> {
        if content.as_bytes().trim_ascii().is_empty() {
            return Err(AttemptsError::EmptyPatch { path: path.escape_debug().to_string() });
        }
        Ok(Self { input: Some(content), ..Self::new(name, Kind::Patch, path, shell(APPLY)) })
    }

    pub fn revert(name: Name, commit: &str) -> Result<Self, AttemptsError> {
        // Git has no way to say in all its commands that what follows is no option.
        if commit.is_empty() || commit.starts_with('-') || commit.contains(char::is_control) {
            return Err(AttemptsError::Commit { commit: commit.escape_debug().to_string() });
        }
        let mut arguments = shell(TAKE_BACK);
        arguments.extend([Text::from("whatif-revert"), Text::from(commit)]);
        Ok(Self::new(name, Kind::Revert, &format!("revert {commit}"), arguments))
    }

    fn new(name: Name, kind: Kind, about: &str, arguments: Vec<Text>) -> Self {
        Self { name, kind, about: one_line(about), arguments, input: None, parameters: BTreeMap::new() }
    }

    pub fn called(self, name: String) -> Result<AttemptPlan, AttemptsError> {
        /// What the kernel gives a program as one argument or variable.
        const LONGEST: usize = 128 * 1024 - 1;
        if self.arguments.first().is_none_or(|program| program.as_bytes().is_empty()) {
            return Err(AttemptsError::Empty { attempt: name });
        }
        let variables = self.parameters.iter().map(|(variable, value)| (value.as_bytes(), variable.len() + 1));
        for (bytes, more) in self.arguments.iter().map(|argument| (argument.as_bytes(), 0)).chain(variables) {
            if bytes.contains(&0) {
                return Err(AttemptsError::ZeroByte { attempt: name });
            }
            if bytes.len() + more > LONGEST {
                return Err(AttemptsError::TooLong { attempt: name, bytes: bytes.len() });
            }
        }
        let Self { name: _, kind, about, arguments, input, parameters } = self;
        Ok(AttemptPlan { name, kind, about, arguments, input, parameters })
    }
}

fn shell(script: &str) -> Vec<Text> {
    [SHELL, "-c", script].map(Text::from).to_vec()
}

/// As it could be typed.
fn command_line(arguments: &[Text]) -> String {
    let quoted = |argument: &Text| {
        let text = String::from_utf8_lossy(argument.as_bytes()).into_owned();
        let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,^~".contains(c);
        if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
    };
    arguments.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn one_line(text: &str) -> String {
    let spaced: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(ABOUT + 1).collect();
    match spaced.char_indices().nth(ABOUT) {
        Some((end, _)) => format!("{}…", &spaced[..end]),
        None => spaced,
    }
}
