//! Whether the patterns of a configuration are patterns. They are read once more, with their places in the text.

use serde::Deserialize;
use toml::Spanned;
use whatif_diff::pattern::{self, Use};

use super::{line_of, parse};

/// The keys that hold patterns; everything else has been read before.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    policy: Policy,
    diff: Diff,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Policy {
    deny: Vec<Spanned<String>>,
    ask: Vec<Spanned<String>>,
    auto_approve: AutoApprove,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AutoApprove {
    paths: Vec<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Diff {
    ignore: Vec<Spanned<String>>,
}

pub(super) fn check(text: &str) -> Result<(), String> {
    let Written { policy, diff } = parse(text)?;
    let lists = [
        ("policy.deny", policy.deny, Use::Protect),
        ("policy.ask", policy.ask, Use::Protect),
        ("policy.auto_approve.paths", policy.auto_approve.paths, Use::Choose),
        ("diff.ignore", diff.ignore, Use::Ignore),
    ];
    for (key, patterns, used_to) in lists {
        for pattern in patterns {
            let told = |bad| format!("line {}: {key}: {bad}", line_of(text, pattern.span().start));
            pattern::check(pattern.get_ref(), used_to).map_err(told)?;
        }
    }
    Ok(())
}
