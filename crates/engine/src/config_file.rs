//! Reads a configuration file that somebody else may have put there.

mod error;
mod patterns;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::de::DeserializeOwned;
use whatif_types::config::{ProjectConfig, UserConfig};

pub use self::error::ConfigError;

/// No configuration is longer.
const LONGEST: u64 = 1 << 20;

/// The text of a regular file of sensible size; `None` if there is none. A pipe would wait for ever and a device never end.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let opened = File::options().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path);
    let file = match opened {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        other => other?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Err(io::Error::other("it is not a regular file of sensible size"));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// What the user's configuration says, or in one sentence what is wrong with it.
pub fn of_user(text: &str) -> Result<UserConfig, String> {
    let config: UserConfig = parse(text)?;
    config.check()?;
    let approved = config.policy.auto_approve.as_ref().map_or(&[][..], |rule| &rule.paths);
    if [approved, &config.policy.deny, &config.policy.ask, &config.diff.ignore].iter().any(|list| !list.is_empty()) {
        patterns::check(text)?;
    }
    Ok(config)
}

/// The same of a project's.
pub(crate) fn of_project(text: &str) -> Result<ProjectConfig, String> {
    let config: ProjectConfig = parse(text)?;
    config.check()?;
    patterns::check(text)?;
    Ok(config)
}

/// What a text in TOML says, or in one sentence in which line it goes wrong and why.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let message = in_plain_words(error.message());
        match error.span() {
            Some(span) => format!("line {}: {message}", line_of(text, span.start)),
            None => message,
        }
    })
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The reader names what it expected as Rust does, and may take several lines for it.
fn in_plain_words(message: &str) -> String {
    let parts: Vec<&str> = message.lines().map(str::trim).filter(|part| !part.is_empty()).collect();
    let message = parts.join(", ");
    match message.rsplit_once("expected ") {
        Some((problem, expected)) => format!("{problem}expected {}", plain_type(expected)),
        None => message,
    }
}

fn plain_type(expected: &str) -> &str {
    match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a number of 0 or more",
        "i64" | "i32" => "a whole number",
        "f64" | "f32" => "a number",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_one_sentence_that_begins_with_the_line() {
        for (text, sentence) in [
            ("[pool]\nsize = -1\n", "line 2: invalid value: integer `-1`, expected a number of 0 or more"),
            ("\n\n[pool]\nsize = \"x\"\n", "line 4: invalid type: string \"x\", expected a number of 0 or more"),
            ("[pool]\nsizes = 1\n", "line 2: unknown field `sizes`, expected `size`"),
            ("pool = 3\n", "line 1: invalid type: integer `3`, expected a table"),
            ("[diff]\nignore = 3\n", "line 2: invalid type: integer `3`, expected a list"),
            ("[disk]\nlimit = -1\n", "line 2: a size is written as 512M, 20G or a number of bytes"),
        ] {
            assert_eq!(parse::<UserConfig>(text), Err(sentence.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_told_with_its_line() {
        for (text, sentence) in [
            ("[policy]\ndeny = [\n  'ok',\n  '[a',\n]\n", "line 4: policy.deny: '[a' is not a pattern: "),
            ("[policy]\nask = ['**/../s']\n", "line 2: policy.ask: '**/../s' is not a pattern: "),
            ("[policy.auto_approve]\n\npaths = ['[z-a]']\n", "line 3: policy.auto_approve.paths: '[z-a]' is not a pattern: "),
            ("[diff]\nignore = ['!kept', 'x\\']\n", "line 2: diff.ignore: 'x\\' is not a pattern: "),
        ] {
            let told = of_user(text).expect_err(text);
            assert!(told.starts_with(sentence), "{text}: {told}");
        }
        let told = of_project("[policy]\ndeny = ['!s']\n").expect_err("an exception");
        assert!(told.starts_with("line 2: policy.deny: '!s' is not a pattern: "), "{told}");
        assert!(of_user("[policy]\ndeny = ['*.[ch]', '\\[a']\n[diff]\nignore = ['!kept']\n").is_ok());
    }

    #[test]
    fn what_is_not_toml_is_told_in_one_line() {
        for text in ["[pool", "size = ", "= 3", "[pool]\nsize = 1\nsize = 2\n", "a = 'x\n", "\u{0}"] {
            let told = parse::<UserConfig>(text).expect_err(text);
            assert!(told.starts_with("line ") && !told.contains(['\n', '|', '^']), "{text:?}: {told}");
        }
    }
}
