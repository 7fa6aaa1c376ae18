//! Manifests: some of their parts name what a tool runs, the rest is data that changes with every release.

use serde_json::Value;

use super::folded::is_short_for;
use crate::change::{Change, State};
use crate::node::Kind;
use crate::unreadable::Unreadable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manifest {
    Npm,
    Composer,
    Python,
    Cargo,
}

/// Where the parts that name something to run are: keys from the top, `*` for any.
const NPM: &[&[&str]] = &[
    &["scripts"],
    &["gypfile"],
    &["packageManager"],
    &["husky"],
    &["lint-staged"],
    &["simple-git-hooks"],
    &["pre-commit"],
    &["pnpm"],
    &["trustedDependencies"],
];
const COMPOSER: &[&[&str]] = &[&["scripts"], &["config"]];
const PYTHON: &[&[&str]] = &[
    &["build-system"],
    &["tool", "*", "build"],
    &["tool", "*", "hooks"],
    &["tool", "*", "scripts"],
    &["tool", "*", "cmdclass"],
    &["tool", "*", "tasks"],
    &["tool", "hatch", "envs"],
    &["tool", "pytest"],
];
const CARGO: &[&[&str]] = &[&["package", "build"], &["package", "links"], &["lib", "proc-macro"], &["lib", "proc_macro"]];

impl Manifest {
    /// By its folded name.
    pub(super) fn called(name: &str) -> Option<Self> {
        let known = [
            ("package.json", Self::Npm),
            ("composer.json", Self::Composer),
            ("pyproject.toml", Self::Python),
            ("cargo.toml", Self::Cargo),
        ];
        known.into_iter().find(|(meant, _)| name == *meant || is_short_for(name, meant)).map(|(_, manifest)| manifest)
    }

    /// Whether it names other things to run than before. One that is not understood may name anything: tools are more lenient than
    /// we are.
    pub(super) fn has_other_commands(self, change: &Change) -> Result<bool, Unreadable> {
        let Some(after) = change.after.as_ref() else { return Ok(false) };
        let before = change.before.as_ref().filter(|before| before.node.kind == Kind::File);
        let before = before.map_or(Ok(None), |before| self.commands(before))?;
        Ok(match self.commands(after)? {
            Some(after) => after != before.unwrap_or_else(|| vec![Value::Null; after.len()]),
            None => true,
        })
    }

    fn commands(self, state: &State) -> Result<Option<Vec<Value>>, Unreadable> {
        match state.bytes() {
            Ok(bytes) => Ok(self.commands_in(&bytes)),
            // Without a number it is ours: too long, or no file any more.
            Err(error) if error.raw_os_error().is_none() => Ok(None),
            Err(error) => Err(Unreadable::of(&state.at, &error)),
        }
    }

    fn commands_in(self, bytes: &[u8]) -> Option<Vec<Value>> {
        let (document, keys): (Value, _) = match self {
            Self::Npm => (serde_json::from_slice(bytes).ok()?, NPM),
            Self::Composer => (serde_json::from_slice(bytes).ok()?, COMPOSER),
            Self::Python => (toml::from_str(std::str::from_utf8(bytes).ok()?).ok()?, PYTHON),
            Self::Cargo => (toml::from_str(std::str::from_utf8(bytes).ok()?).ok()?, CARGO),
        };
        Some(keys.iter().map(|keys| part(&document, keys)).collect())
    }
}

/// Null if there is nothing.
fn part(document: &Value, keys: &[&str]) -> Value {
    match keys.split_first() {
        None => document.clone(),
        Some((&"*", rest)) => {
            let each = document.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), part(value, rest)));
            let found: serde_json::Map<String, Value> = each.filter(|(_, value)| !value.is_null()).collect();
            if found.is_empty() { Value::Null } else { Value::Object(found) }
        }
        Some((key, rest)) => document.get(key).map_or(Value::Null, |value| part(value, rest)),
    }
}
