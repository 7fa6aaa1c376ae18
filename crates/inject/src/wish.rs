//! What a person writes after `--secret` and `--for`, and the value behind it.
//!
//! Values never stand on a command line: there, every process on the machine can read them. So what looks like a value is
//! refused and not repeated in the error.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use whatif_types::network::SecretSource;
use zeroize::Zeroizing;

use crate::known::{self, LONGEST_VALUE, ValueError};

#[derive(Debug, thiserror::Error)]
pub enum WishError {
    #[error("'{text}' is not a secret; {FORMS}")]
    NoSource { text: String },
    #[error("'{text}' is not a name of a variable; one has letters, digits and '_', and does not begin with a digit")]
    Name { text: String },
    #[error("the secret {name} cannot be used: a value must not stand on a command line, where every process can read it; {FORMS}")]
    Value { name: String },
    #[error("the secret {name} cannot be used: there is no file name behind '@'")]
    NoFile { name: String },
    #[error("the secret {name} cannot be used: no shell replaces '~' behind '@'; write \"{name}=@$HOME/{rest}\"", rest = .text.escape_debug())]
    Tilde { name: String, text: String },
    #[error("the secret {name} cannot be used: cannot read {}: {source}", path.display())]
    Read { name: String, path: PathBuf, source: io::Error },
    #[error("the secret {name} cannot be used: what {} holds is not usable: {source}", path.display())]
    File { name: String, path: PathBuf, source: ValueError },
    #[error("the secret {name} cannot be used: the variable {variable} is not set")]
    Unset { name: String, variable: String },
    #[error("the secret {name} cannot be used: the variable {variable} is not usable: {source}")]
    Variable { name: String, variable: String, source: ValueError },
}

const FORMS: &str = "write NAME=@file, NAME=env:VARIABLE, or NAME=env for the variable of that name";

/// Reads `NAME=@file`, `NAME=env:VARIABLE` or `NAME=env`: the name inside, and where the value comes from.
///
/// # Errors
/// Says which form was meant.
pub fn parse(text: &str) -> Result<(String, SecretSource), WishError> {
    let Some((name, source)) = text.split_once('=') else {
        // Without a name this may be the value itself.
        return Err(if is_name(text) {
            WishError::NoSource { text: text.to_owned() }
        } else {
            WishError::NoSource { text: "…".to_owned() }
        });
    };
    if !is_name(name) {
        return Err(WishError::Name { text: name.escape_debug().to_string() });
    }
    let owned = name.to_owned();
    match (source.strip_prefix('@'), source.strip_prefix("env:")) {
        (Some(""), _) => Err(WishError::NoFile { name: owned }),
        (Some(path), _) if path.starts_with("~/") => Err(WishError::Tilde { name: owned, text: path[2..].to_owned() }),
        (Some(path), _) => Ok((owned, SecretSource::File(PathBuf::from(path)))),
        (None, Some(variable)) if is_name(variable) => Ok((owned, SecretSource::Environment(variable.to_owned()))),
        (None, Some(variable)) => Err(WishError::Name { text: variable.escape_debug().to_string() }),
        (None, None) if source == "env" => Ok((owned.clone(), SecretSource::Environment(owned))),
        (None, None) => Err(WishError::Value { name: owned }),
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !matches!(text.as_bytes(), [] | [b'0'..=b'9', ..])
}

/// Fetches a value from where it is. `variable` looks one up in the user's environment.
///
/// # Errors
/// If there is none, or none that can be sent. The error says nothing of the value.
pub fn read(name: &str, source: &SecretSource, variable: impl Fn(&str) -> Option<String>) -> Result<Zeroizing<String>, WishError> {
    let name = name.to_owned();
    match source {
        SecretSource::File(path) => match read_file(path).map(value) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(source)) => Err(WishError::File { name, path: path.clone(), source }),
            Err(source) => Err(WishError::Read { name, path: path.clone(), source }),
        },
        SecretSource::Environment(from) => match variable(from).map(|text| value(Zeroizing::new(text.into_bytes()))) {
            Some(Ok(value)) => Ok(value),
            Some(Err(source)) => Err(WishError::Variable { name, variable: from.clone(), source }),
            None => Err(WishError::Unset { name, variable: from.clone() }),
        },
    }
}

/// Pipes are fine, as in `NAME=@<(command)`. One byte more than fits is read, to see that it does not fit.
fn read_file(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let most = LONGEST_VALUE + "\r\n".len() + 1;
    // Never grown, or the allocator would leave copies behind.
    let mut bytes = Zeroizing::new(vec![0; most]);
    let mut file = File::open(path)?;
    let mut length = 0;
    while length < most {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// One line break at the end is the editor's, not the secret's.
fn value(bytes: Zeroizing<Vec<u8>>) -> Result<Zeroizing<String>, ValueError> {
    let text = std::str::from_utf8(&bytes).map_err(|_| ValueError::NotText)?;
    let text = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
    known::check(text)?;
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests;
