//! A command with places for values: `{V}` and `{prompt}`.

use whatif_types::text::Text;

use super::{AttemptsError, Values};

/// How the prompt's place is written.
const PROMPT: &str = "prompt";

/// The arguments of a command before anything is filled in.
#[derive(Debug)]
pub(crate) struct Template<'a> {
    arguments: &'a [Text],
}

impl<'a> Template<'a> {
    pub fn command(arguments: &'a [Text]) -> Self {
        Self { arguments }
    }

    /// Braces are common in commands, so only what is likely a slip is refused: another spelling of a variable, or a place
    /// without a variable while there is a variable without a place.
    pub fn check<'v>(&self, variables: impl Iterator<Item = &'v str> + Clone, has_prompt: bool) -> Result<(), AttemptsError> {
        if has_prompt && variables.clone().any(|variable| variable == PROMPT) {
            return Err(AttemptsError::DuplicateVariable { name: PROMPT.to_owned() });
        }
        let places: Vec<String> = self.arguments.iter().flat_map(places).collect();
        let is_known = |place: &str| variables.clone().any(|variable| variable == place);
        let unknown = |place: &&String| !(is_known(place) || has_prompt && *place == PROMPT);
        let is_slip = |place: &&String| variables.clone().any(|variable| variable.eq_ignore_ascii_case(place));
        let is_unused = |variable: &str| !self.arguments.iter().any(|argument| mentions(argument, variable));
        let slip = places.iter().filter(unknown).find(is_slip);
        let nowhere = || variables.clone().any(is_unused).then(|| places.iter().find(unknown)).flatten();
        if let Some(place) = slip.or_else(nowhere) {
            let known = variables.collect::<Vec<_>>().join(", ");
            return Err(AttemptsError::UnknownPlaceholder { placeholder: place.clone(), known });
        }
        if !has_prompt && !is_known(PROMPT) && places.iter().any(|place| place == PROMPT) {
            return Err(AttemptsError::NoPrompt);
        }
        Ok(())
    }

    pub fn has_prompt(&self) -> bool {
        self.arguments.iter().any(|argument| places(argument).iter().any(|place| place == PROMPT))
    }

    /// A prompt without a place is the last argument.
    pub fn filled(&self, values: &Values, prompt: Option<&str>) -> Vec<Text> {
        let value = |place: &str| values.get(place).or(if place == PROMPT { prompt } else { None });
        let mut arguments: Vec<Text> = self.arguments.iter().map(|argument| fill(argument, &value)).collect();
        if let Some(prompt) = prompt.filter(|_| !self.has_prompt()) {
            arguments.push(Text::from(prompt));
        }
        arguments
    }
}

/// What is filled in is not looked at again.
pub(crate) fn fill<'v>(argument: &Text, value: &impl Fn(&str) -> Option<&'v str>) -> Text {
    let bytes = argument.as_bytes();
    let mut filled = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match place_at(bytes, at).and_then(|(place, end)| Some((value(place)?, end))) {
            Some((value, end)) => {
                filled.extend_from_slice(value.as_bytes());
                at = end;
            }
            None => {
                filled.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(filled).map_or_else(|not_text| Text::Bytes(not_text.into_bytes()), Text::Plain)
}

fn places(argument: &Text) -> Vec<String> {
    let bytes = argument.as_bytes();
    (0..bytes.len()).filter_map(|at| place_at(bytes, at)).map(|(place, _)| place.to_owned()).collect()
}

/// `{name}` here, and where it ends. `${name}` is the shell's.
fn place_at(bytes: &[u8], at: usize) -> Option<(&str, usize)> {
    let is_shell = at > 0 && bytes[at - 1] == b'$';
    if bytes[at] != b'{' || is_shell {
        return None;
    }
    let name = &bytes[at + 1..];
    let length = name.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')?;
    let place = std::str::from_utf8(&name[..length]).ok()?;
    (name[length] == b'}' && !place.is_empty() && !place.starts_with(|c: char| c.is_ascii_digit()))
        .then_some((place, at + length + 2))
}

/// Whether an argument has a place for it, or the shell's way to use it.
fn mentions(argument: &Text, variable: &str) -> bool {
    let text = String::from_utf8_lossy(argument.as_bytes());
    [format!("{{{variable}}}"), format!("${variable}"), format!("${{{variable}")].iter().any(|form| text.contains(form))
}
