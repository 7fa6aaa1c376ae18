//! Attempts out of what was asked for on the command line.
//!
//! Whatever an attempt is, here it becomes a program with arguments: a script for the shell, a command with the values of a
//! matrix filled in, an agent with its prompt, a few lines of shell that apply a patch or take a commit back.

mod draft;
mod error;
mod matrix;
mod naming;
mod scripts;
mod template;

use std::path::Path;

use whatif_types::experiment::AttemptPlan;
use whatif_types::text::Text;

pub(crate) use self::draft::Draft;
pub use self::error::{AttemptsError, Way};
pub(crate) use self::matrix::{Matrix, Values};
pub use self::naming::RESERVED;
pub(crate) use self::naming::{Name, name_all};
pub(crate) use self::template::{Template, fill};

/// More than anybody looks at.
pub const MOST_ATTEMPTS: usize = 1000;

/// What was asked for, in the words of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Each for `sh -c`, numbered.
    pub scripts: Vec<String>,
    /// Name and script.
    pub named: Vec<(String, String)>,
    pub patches: Vec<Patch>,
    /// Name and commit.
    pub reverts: Vec<(Option<String>, String)>,
    /// Name and text; each is given to the command.
    pub prompts: Vec<(Option<String>, String)>,
    /// Variables and their values; the command is tried with each combination.
    pub matrix: Vec<(String, Vec<String>)>,
    /// How often the command is tried.
    pub count: Option<u32>,
    pub command: Vec<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    pub name: Option<String>,
    pub path: String,
    pub content: Text,
}

impl Wanted {
    /// All of it, in the order: scripts, named ones, patches, reverts, and what the command makes.
    pub fn into_attempts(self) -> Result<Vec<AttemptPlan>, AttemptsError> {
        let mut drafts = Vec::new();
        drafts.extend(self.scripts.iter().map(|script| Draft::script(Name::Numbered, script)));
        drafts.extend(self.named.iter().map(|(name, script)| Draft::script(Name::Given(name.clone()), script)));
        for patch in &self.patches {
            let file = Path::new(&patch.path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
            drafts.push(Draft::patch(Name::given_or(patch.name.clone(), [file]), &patch.path, patch.content.clone())?);
        }
        for (name, commit) in &self.reverts {
            drafts.push(Draft::revert(Name::given_or(name.clone(), ["revert".to_owned(), commit.clone()]), commit)?);
        }
        drafts.extend(self.of_the_command()?);
        if drafts.is_empty() {
            return Err(AttemptsError::Nothing);
        }
        name_all(drafts)
    }

    /// The command, for each prompt, with each combination of the matrix, as often as asked for.
    fn of_the_command(&self) -> Result<Vec<Draft>, AttemptsError> {
        if self.command.is_empty() {
            return self.needs_no_command().map(|()| Vec::new());
        }
        let template = Template::command(&self.command);
        let matrix = Matrix::new(self.matrix.iter().map(|(name, values)| (name.as_str(), values.as_slice())))?;
        template.check(matrix.variables(), !self.prompts.is_empty())?;
        if self.prompts.iter().any(|(_, text)| text.trim().is_empty()) {
            return Err(AttemptsError::EmptyPrompt);
        }
        let count = self.count.unwrap_or(1) as usize;
        if count == 0 {
            return Err(AttemptsError::CountOfNothing);
        }
        let all = matrix.len().saturating_mul(self.prompts.len().max(1)).saturating_mul(count);
        if all > MOST_ATTEMPTS {
            return Err(AttemptsError::TooMany { count: all });
        }
        let mut drafts = Vec::new();
        for (number, prompt) in self.each_prompt() {
            for values in matrix.combinations() {
                for repeat in 1..=count {
                    let name = self.name_of(number, prompt, &values, (count > 1).then_some(repeat));
                    drafts.push(match prompt {
                        Some((_, text)) => Draft::prompt(name, &template, text, &values),
                        None => Draft::command(name, &template, &values),
                    });
                }
            }
        }
        Ok(drafts)
    }

    fn needs_no_command(&self) -> Result<(), AttemptsError> {
        if !self.matrix.is_empty() {
            return Err(AttemptsError::NoCommand { way: Way::Matrix });
        }
        if !self.prompts.is_empty() {
            return Err(AttemptsError::NoCommand { way: Way::Prompt });
        }
        if self.count.is_some() {
            return Err(AttemptsError::NoCommand { way: Way::Count });
        }
        Ok(())
    }

    /// Numbered from 1; one that is none if there are no prompts.
    fn each_prompt(&self) -> impl Iterator<Item = (usize, Option<&(Option<String>, String)>)> {
        let none = self.prompts.is_empty().then_some(None);
        none.into_iter().chain(self.prompts.iter().map(Some)).enumerate().map(|(index, prompt)| (index + 1, prompt))
    }

    /// By what makes the difference: the prompt's name, the values, which one of several it is.
    fn name_of(&self, number: usize, prompt: Option<&(Option<String>, String)>, values: &Values, repeat: Option<usize>) -> Name {
        let given = prompt.and_then(|(name, _)| name.clone());
        let mut parts: Vec<String> = Vec::new();
        match &given {
            Some(name) => parts.push(name.clone()),
            None if self.prompts.len() > 1 && !values.is_empty() => parts.push(number.to_string()),
            None => {}
        }
        parts.extend(values.texts().map(str::to_owned));
        match (parts.is_empty(), repeat) {
            (true, _) => Name::Numbered,
            (false, None) if given.is_some() && values.is_empty() => Name::from(given),
            (false, None) => Name::Derived(parts),
            (false, Some(repeat)) => {
                parts.push(repeat.to_string());
                Name::Derived(parts)
            }
        }
    }
}

#[cfg(test)]
mod tests;
