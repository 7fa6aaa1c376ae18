//! The user's own settings of npm and pip, without the credentials that stand there too.
//!
//! A setting stays if a table lists it as harmless ([`harmless`]) and its value cannot be a credential ([`credential`]). The two
//! formats are read as the tools read them ([`npm`], [`pip`]): a line that this reader takes for something else than the tool does
//! could carry a credential along.

mod credential;
mod harmless;
mod npm;
mod pip;

use std::path::Path;
use std::{fs, io};

const MADE_BY: &str = "# Made by whatif: your own settings, without credentials.\n";

pub(crate) fn of_npm(path: &Path, _cache: &Path) -> io::Result<String> {
    Ok(npm::without_credentials(&String::from_utf8_lossy(&fs::read(path)?)).shown())
}

pub(crate) fn of_pip(path: &Path, _cache: &Path) -> io::Result<String> {
    Ok(pip::without_credentials(&String::from_utf8_lossy(&fs::read(path)?)).shown())
}

/// What of a file goes inside.
#[derive(Debug, Default)]
struct Kept {
    lines: String,
    /// So many settings do not.
    left_out: usize,
}

impl Kept {
    fn keep(&mut self, line: &str) {
        self.lines.push_str(line);
        self.lines.push('\n');
    }

    /// What is left out is counted, not named: a hostile name can be a credential.
    fn shown(&self) -> String {
        let left_out = match self.left_out {
            0 => String::new(),
            1 => "# 1 setting was left out: it may hold a credential, or is about a proxy of the host.\n".to_owned(),
            n => format!("# {n} settings were left out: they may hold credentials, or are about a proxy of the host.\n"),
        };
        format!("{MADE_BY}{left_out}{}", self.lines)
    }
}

/// Both tools end a line at either character, alone or together.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '\r'])
}
