//! `cargo xtask`: what the project does to itself. `test` proves it, `backend` proves it elsewhere, `fuzz` doubts it, `bench` measures it,
//! `order` makes it quicker, `dist` hands it out.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that talks to the person who started it")]

mod attacks;
mod backend;
mod bench;
mod dist;
mod failure;
mod fuzz;
mod machine;
mod order;
mod packages;
#[cfg(test)]
mod pages;
mod programs;
mod subjects;
mod suites;
mod test;
mod workspace;

use std::process::ExitCode;

use failure::Failure;

const USAGE: &str = "\
usage: cargo xtask <command>

  test                      install what the tests need (as root, through apt) and run all of them
  backend NAME [TEST…]      run these end-to-end tests, or all, with sandboxes on overlay, fuse or copy
    attacks                 as a TEST: all that SECURITY.md names for an attack
  machine [TEST…]           run these end-to-end tests, or a slice of them, on Debian's own kernel in a virtual machine
    TEST                    a subject, or 'SUBJECT NAME' for those whose names contain NAME
  fuzz [options] [FS…]      play random lives over several file systems until one loses something
    --minutes N             how long (default 10)
    --steps N               steps of a life (default 60)
    --seed N                the first seed (default: of this second)
    FS                      only these: here, ext4, xfs, btrfs, tmpfs
  suites [options] [SUITE [PART…]]   run other projects' own tests outside and in a sandbox, and compare (as root)
    --user                  as an ordinary user
    --all                   all parts of a suite, not only its usual ones
    --at-most N             leave out parts that take longer than N seconds outside
    --jobs N                how many parts run at once (default 1)
    SUITE                   python, git, postgres, redis, chromium, npm or cargo
    PART                    a module of python, a script of git, and so on
  dist [--binary PATH]      make what people install, in target/dist-files: a static archive, a Debian package, a list of all parts
                            with their licences, and checksums; with --binary of a program that is built already
  order                     write down which functions short commands reach (crates/cli/functions.order), for the linker
  bench [options] [PART…]           measure whatif against its peers, as ratios, in one run
    --quick                 fewer repetitions, trees of up to 100 k files
    PART                    only these: commands, pool, limits, network, fleet, diff, apply, snapshots, race, trees
    --json FILE             where the figures go (default: target/bench.json)
    --user                  when started by root: measure as an ordinary user

WHATIF_BIN=PATH makes backend, machine, fuzz, suites and bench use that binary instead of building one, WHATIF_BENCH_SNAPSHOTS=N take N snapshots of
one sandbox (default 10000).";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(problem)) => {
            eprintln!("xtask: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Failure::Failed(problem)) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), Failure> {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(Failure::Usage("no command was given".to_owned()));
    };
    match command.as_str() {
        "test" if rest.is_empty() => test::run(),
        "test" => Err(Failure::Usage("test takes no arguments".to_owned())),
        "backend" => backend::run(rest),
        "machine" => machine::run(rest),
        "fuzz" => fuzz::run(&fuzz::Options::parse(rest)?, rest),
        "order" if rest.is_empty() => order::run(),
        "order" => Err(Failure::Usage("order takes no arguments".to_owned())),
        "suites" => suites::run(&suites::Options::parse(rest)?),
        "dist" => dist::run(&dist::Options::parse(rest)?),
        "bench" => bench::run(&bench::Options::parse(rest)?),
        // Not for people: bench starts itself again, elsewhere.
        "net-outside" => bench::network::measure_outside(rest),
        "net-client" => bench::network::client::run(rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        unknown => Err(Failure::Usage(format!("'{unknown}' is not a command"))),
    }
}
