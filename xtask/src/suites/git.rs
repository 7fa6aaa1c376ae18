//! git's tests, of Debian's sources.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Network, Suite, debian, tap};
use crate::failure::{Failure, on};

pub(super) const SUITE: Suite = Suite {
    name: "git",
    prepare: build,
    usual,
    all: scripts,
    command,
    read: tap::read,
    network: Network::Loopback,
    programs: None,
    options: &[],
};

const BUILD: &str = r#"
[ ! -e built ] || exit 0
rm -rf git-*/
sources git ""
packages make gcc zlib1g-dev libcurl4-openssl-dev libexpat1-dev gettext perl
make -C "$(ls -d git-*/ | head -n 1)" -s -j"$(nproc)" NO_TCLTK=1 NO_GETTEXT=1 all
chmod -R a+rX .
touch built
"#;

fn build(directory: &Path) -> Result<(), Failure> {
    debian::prepare(directory, BUILD)
}

fn folder(directory: &Path) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(directory).map_err(on("read", directory))?.flatten();
    let found = entries.map(|entry| entry.path().join("t")).find(|path| path.join("test-lib.sh").is_file());
    found.ok_or_else(|| Failure::new(format!("there are no sources of git in {}", directory.display())))
}

fn scripts(directory: &Path) -> Result<Vec<String>, Failure> {
    let tests = folder(directory)?;
    let entries = fs::read_dir(&tests).map_err(on("read", &tests))?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| is_script(name)).collect();
    names.sort();
    Ok(names)
}

fn is_script(name: &str) -> bool {
    let digits = name.strip_prefix('t').and_then(|rest| rest.strip_suffix(".sh"));
    digits.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Every fifth, of all subjects. A pattern such as `t3*` names others.
fn usual(directory: &Path) -> Result<Vec<String>, Failure> {
    Ok(scripts(directory)?.into_iter().step_by(5).collect())
}

fn command(directory: &Path, part: &str) -> Result<String, Failure> {
    Ok(format!(
        "results=$PWD; mkdir trash; cd '{}' && for t in {part}; do echo \"script $t\"; \
         TEST_OUTPUT_DIRECTORY=$results sh $t --root=$results/trash; done",
        folder(directory)?.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_the_tests_is_no_test() {
        let names = ["t0000-basic.sh", "test-lib.sh", "t/", "t0000", "lib-log.sh"];
        assert_eq!(names.map(is_script), [true, false, false, false, false]);
    }
}
