//! Names of sandboxes: generated ones are memorable, given ones are checked.

const ADJECTIVES: [&str; 48] = [
    "amber", "bold", "brave", "bright", "brisk", "calm", "clear", "clever", "cosmic", "crisp", "daring", "deep", "early", "fair",
    "fleet", "fresh", "gentle", "glad", "golden", "grand", "happy", "hidden", "humble", "jolly", "keen", "kind", "lively", "lucky",
    "lunar", "mellow", "merry", "mild", "misty", "noble", "polar", "proud", "quick", "quiet", "rapid", "rosy", "sharp", "silver",
    "smooth", "solar", "steady", "sunny", "swift", "warm",
];
const NOUNS: [&str; 48] = [
    "acorn", "badger", "beacon", "birch", "bridge", "brook", "canyon", "cedar", "comet", "coral", "crane", "delta", "dune",
    "ember", "falcon", "fern", "fjord", "forest", "garden", "geyser", "harbor", "hazel", "heron", "island", "juniper", "lagoon",
    "lantern", "lark", "maple", "meadow", "moss", "otter", "owl", "pebble", "pine", "prairie", "quartz", "raven", "reef", "river",
    "robin", "sparrow", "spruce", "summit", "thicket", "tundra", "valley", "willow",
];
const LONGEST: usize = 63;

/// A generated name such as `swift-otter`; with 2,304 pairs a clash is likely enough that callers retry with a suffix.
#[must_use]
pub fn generate(random: [u8; 4], with_suffix: bool) -> String {
    let pick = |list: &[&'static str; 48], byte: u8| list[usize::from(byte) % list.len()];
    let (adjective, noun) = (pick(&ADJECTIVES, random[0]), pick(&NOUNS, random[1]));
    if with_suffix {
        format!("{adjective}-{noun}-{}", u16::from_le_bytes([random[2], random[3]]) % 10_000)
    } else {
        format!("{adjective}-{noun}")
    }
}

/// Whether it could come from [`generate`].
#[must_use]
pub fn is_generated(name: &str) -> bool {
    let mut parts = name.split('-');
    let known =
        parts.next().is_some_and(|part| ADJECTIVES.contains(&part)) && parts.next().is_some_and(|part| NOUNS.contains(&part));
    known && parts.all(|suffix| suffix.parse::<u16>().is_ok())
}

/// A name may be typed, printed and used as a DNS label: letters, digits, `-`, `_` and `.`, starting with a letter or digit.
pub fn validate(name: &str) -> Result<(), InvalidName> {
    // Two dots stand between two names.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty()
        || name.len() > LONGEST
        || name.contains("..")
        || !name.chars().all(plain)
        || !name.starts_with(|c: char| c.is_ascii_alphanumeric())
    {
        return Err(InvalidName { name: name.escape_debug().to_string() });
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("'{name}' is not a usable name: 1 to {LONGEST} letters, digits, '-', '_' or '.', beginning with a letter or digit")]
pub struct InvalidName {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn generated_names_are_valid(random: [u8; 4], with_suffix: bool) {
            let name = generate(random, with_suffix);
            prop_assert!(validate(&name).is_ok() && is_generated(&name));
        }
    }

    #[test]
    fn hostile_names_are_refused() {
        for name in ["", ".", "..", "a..b", "a..", "-rf", "a/b", "a b", "x\n", "é", "\u{202e}abc", &"a".repeat(64)] {
            assert!(validate(name).is_err(), "{name:?} was accepted");
        }
    }
}
