//! What is known to come out differently inside, and why.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, on};

/// Lines of `SUITE TEST: REASON`. A test may end in `*`.
#[derive(Debug)]
pub(super) struct Differences {
    names: Vec<String>,
}

impl Differences {
    pub fn read(file: &Path) -> Result<Self, Failure> {
        Self::parse(&fs::read_to_string(file).map_err(on("read", file))?)
    }

    pub fn parse(text: &str) -> Result<Self, Failure> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let name = |line: &str| match line.split_once(": ") {
            Some((name, reason)) if !reason.trim().is_empty() => Ok(name.to_owned()),
            _ => Err(Failure::new(format!("a difference is listed without a reason: {line}"))),
        };
        Ok(Self { names: lines.map(name).collect::<Result<_, _>>()? })
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.strip_suffix('*').map_or(known == name, |start| name.starts_with(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_test_or_the_start_of_several() {
        let known = Differences::parse("# text\n\npython test_a b: why\ngit t1*: why\n").unwrap();
        assert_eq!(
            ["python test_a b", "python test_a bc", "git t1234", "git t2"].map(|name| known.has(name)),
            [true, false, true, false]
        );
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert!(Differences::parse("python test_a\n").is_err() && Differences::parse("python test_a: \n").is_err());
    }

    #[test]
    fn the_list_is_well_formed() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/suites/differences");
        assert!(!Differences::read(&file).unwrap().names.is_empty());
    }
}
