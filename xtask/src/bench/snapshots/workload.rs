//! What is done inside: everyday work on files.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::measure::demand;
use super::super::repository::Git;
use super::super::scratch::Scratch;
use crate::failure::{Failure, on};

pub struct Workload {
    pub label: &'static str,
    /// Run in the tree; `$1` is the number of the round.
    script: &'static str,
}

/// Everything that makes files comes before anything that deletes them, in all rounds: where many were deleted a moment
/// ago, ext4 takes a hundred times as long to make new ones, and each place would have another share of that.
pub const PHASES: [&[Workload]; 2] = [
    &[
        Workload { label: "git status (5 times)", script: "for time in 1 2 3 4 5; do git status --short || exit; done" },
        // Through a pipe: tar does not read files for /dev/null.
        Workload { label: "tar (3 times)", script: "for time in 1 2 3; do tar cf - directory-* | cat || exit; done" },
        // As anybody would: root inside a user's namespace could not give files away.
        Workload { label: "untar", script: r#"mkdir "out-$1" && tar xf archive.tar --no-same-owner -C "out-$1""# },
        Workload {
            label: "cargo build",
            script: r#"cd package && RUSTC="$TOOLS/rustc" "$TOOLS/cargo" build --offline --quiet --target-dir "target-$1""#,
        },
        // Not one of 2000 inserts may be missing.
        Workload { label: "sqlite (2000 inserts)", script: r#"[ "$(sqlite3 "round-$1.db" < inserts.sql | tail -n 1)" = 2000 ]"# },
    ],
    // What untar made, and some that lies below.
    &[Workload { label: "rm -rf", script: r#"[ -d "out-$1" ] && rm -rf "out-$1" "doomed-$1""# }],
];

impl Workload {
    /// The words of a command that does it in `tree` and prints how many nanoseconds it took.
    pub fn timed(&self, tree: &Path, round: usize) -> Vec<String> {
        let work = self.script;
        let script = format!(
            "cd \"$2\" || exit; TOOLS=$3; started=$(date +%s%N)\n( {work} ) > /dev/null || exit\nended=$(date +%s%N); \
             echo $((ended - started))"
        );
        let tree = tree.display().to_string();
        ["sh", "-c", &script, "sh", &round.to_string(), &tree, &tools()].map(str::to_owned).to_vec()
    }
}

/// What the workloads need, for so many rounds.
const PREPARE: &str = r#"
    tar cf archive.tar directory-* || exit
    for round in $(seq 0 "$1"); do mkdir "doomed-$round" && cp -r directory-[0-4] "doomed-$round" || exit; done
    {
        # A journal that is deleted after each insert would be a measurement of making and deleting files.
        echo 'pragma journal_mode = wal; create table t (id integer primary key, text);'
        for row in $(seq 2000); do echo "insert into t (text) values ('row $row');"; done
        echo 'select count(*) from t;'
    } > inserts.sql
    mkdir -p package/src && cd package || exit
    printf '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' > Cargo.toml
    for module in $(seq 20); do
        printf 'pub fn number(n: u64) -> u64 { (0..n).map(|i| i ^ %s).sum() }\n' "$module" > "src/part_$module.rs"
        printf 'mod part_%s;\n' "$module"
    done > src/main.rs
    echo 'fn main() { println!("{}", part_1::number(3) + part_20::number(4)); }' >> src/main.rs
"#;
pub const DIRECTORIES: usize = 50;
const FILES: usize = 100 * DIRECTORIES;

pub fn make_tree(scratch: &Scratch, git: &Git, rounds: usize) -> Result<PathBuf, Failure> {
    let tree = git.make("inside", FILES)?;
    let mut shell = scratch.command(Path::new("/bin/sh"));
    shell.args(["-c", PREPARE, "sh", &rounds.to_string()]).current_dir(&tree);
    demand("preparing a tree", shell)?;
    scratch.flush()?;
    Ok(tree)
}

/// The directory of cargo and rustc themselves: the commands by these names may only choose among toolchains, and need a
/// home of their own for that.
fn tools() -> String {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().map_err(on("run", Path::new("rustc")));
    sysroot.map_or_else(|_| String::new(), |output| format!("{}/bin", String::from_utf8_lossy(&output.stdout).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_tells_its_own_time_and_nothing_when_it_fails() {
        let workload = Workload { label: "a test", script: r#"echo noise; [ "$1" = 7 ]"# };
        let run = |round| {
            let words = workload.timed(Path::new("/"), round);
            Command::new(&words[0]).args(&words[1..]).output().unwrap()
        };
        let done = run(7);
        assert!(done.status.success() && String::from_utf8(done.stdout).unwrap().trim().parse::<u64>().is_ok());
        let failed = run(8);
        assert!(!failed.status.success() && failed.stdout.is_empty());
    }
}
