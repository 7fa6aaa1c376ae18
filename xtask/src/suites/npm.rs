//! A package of npm, installed with everything that its tests need, and tested.

use std::path::Path;

use super::{Network, Suite, debian, tap};
use crate::failure::Failure;

pub(super) const SUITE: Suite = Suite {
    name: "npm",
    prepare: fetch,
    usual,
    all: usual,
    command,
    read: tap::read,
    network: Network::Registries,
    programs: None,
    options: &[],
};

const FETCH: &str = r"
[ ! -e package/package.json ] || exit 0
npm pack --silent minimist@1.2.8
tar -xzf minimist-1.2.8.tgz
chmod -R a+rX .
";

fn fetch(directory: &Path) -> Result<(), Failure> {
    debian::prepare(directory, FETCH)
}

fn usual(_: &Path) -> Result<Vec<String>, Failure> {
    Ok(vec!["minimist".to_owned()])
}

/// Scripts of the packages run as they are installed, as people run them.
fn command(directory: &Path, part: &str) -> Result<String, Failure> {
    Ok(format!(
        "cp -r '{}/package' . && cd package && echo 'script {part}'
         if npm install --no-audit --no-fund >install.log 2>&1; then echo 'ok install'; else echo 'not ok install'; tail install.log; fi
         for p in tape eslint nyc; do if [ -x node_modules/.bin/$p ]; then echo \"ok has $p\"; else echo \"not ok has $p\"; fi; done
         node_modules/.bin/tape 'test/**/*.js'",
        directory.display()
    ))
}
