//! Labels of sandboxes.

/// What we label sandboxes with ourselves.
const OWN: &str = "whatif.";

/// Whether a person may label a sandbox with this.
pub fn check_key(key: &str) -> Result<(), String> {
    match key {
        "" => Err("a label has a name".to_owned()),
        _ if key.starts_with(OWN) => Err(format!("labels that begin with '{OWN}' are whatif's own")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_labels_are_not_for_others() {
        assert!(check_key("team").is_ok() && check_key("whatif").is_ok());
        assert!(check_key("").is_err() && check_key("whatif.race").is_err());
    }
}
