//! The variables that `--env` names or sets.

/// Takes NAME or NAME=VALUE. The kernel takes anything, but no program reads a variable without a name, and a name with a blank is two
/// words that somebody forgot to quote.
pub fn parse(text: &str) -> Result<String, String> {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    if name.is_empty() {
        return Err("the name of the variable is missing; write NAME or NAME=VALUE".to_owned());
    }
    if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!(
            "the name of a variable has no blanks, as '{}' has; write one --env for each variable",
            name.escape_debug()
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_variable_has_a_name_in_one_word() {
        for good in ["A", "A=", "A=1", "A=b c", "npm_config_//host/:_x=1", "A=b=c"] {
            assert_eq!(parse(good).as_deref(), Ok(good));
        }
        for bad in ["", "=x", "=", "A B=1", " A=1", "A\n=1"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
