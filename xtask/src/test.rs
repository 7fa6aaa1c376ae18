//! `cargo xtask test`: everything that must hold before a change is accepted, cheapest first.

mod beside;
mod end_to_end;

use std::process::Command;
use std::time::{Duration, Instant};

use self::beside::Beside;
use crate::failure::Failure;
use crate::workspace::Workspace;
use crate::{dist, machine, packages};

struct Step {
    name: &'static str,
    command: Command,
}

pub fn run() -> Result<(), Failure> {
    let workspace = Workspace::find()?;
    packages::provide()?;
    packages::provide_machine()?;
    let started = Instant::now();
    let release = Beside::start(release_build(&workspace), &workspace)?;
    let steps = steps(&workspace);
    let count = steps.len() + 3;
    let mut times = Vec::with_capacity(count + 1);
    for (number, step) in steps.into_iter().enumerate() {
        println!("\n=== {}/{count} {}: {}", number + 1, step.name, shown(&step.command));
        times.push((step.name, perform(step)?));
    }
    times.push((RELEASE, release.wait()?));
    println!("\n=== {}/{count} {ARCHIVE}", count - 2);
    let begun = Instant::now();
    dist::prove(&workspace)?;
    times.push((ARCHIVE, begun.elapsed()));
    println!("\n=== {}/{count} {MACHINE}, beside the next", count - 1);
    let machine = match machine::missing() {
        Some(why) if packages::is_ci() => return Err(Failure::new(format!("there is no virtual machine: {why}"))),
        Some(why) => {
            println!("skip: {why}");
            None
        }
        None => Some(Beside::start(machine_slice(&workspace), &workspace)?),
    };
    println!("\n=== {count}/{count} {END_TO_END}");
    let tested = end_to_end::run(&workspace);
    // Also after a failure: the next run should not be needed to hear of both.
    match (machine.map(Beside::wait).transpose(), tested) {
        (Err(Failure::Failed(problem) | Failure::Usage(problem)), Err(failed)) => {
            println!("{problem}");
            return Err(failed);
        }
        (machine, tested) => {
            times.push((END_TO_END, tested?));
            times.extend(machine?.map(|took| (MACHINE, took)));
        }
    }
    report(&times, started.elapsed());
    Ok(())
}

const RELEASE: &str = "release build, beside";
const ARCHIVE: &str = "licences and archive";
const END_TO_END: &str = "end to end";
const MACHINE: &str = "on Debian's kernel, beside";

/// A third of it keeps a single core busy, and so do parts of the other steps.
fn release_build(workspace: &Workspace) -> Step {
    Step { name: RELEASE, command: workspace.cargo(&["build", "--release", "--package", "whatif", "--package", "whatif-daemon"]) }
}

/// It is emulated, which needs processors, while the other end-to-end tests mostly wait.
fn machine_slice(workspace: &Workspace) -> Step {
    let mut command = workspace.cargo(&["xtask", "machine"]);
    command.env("WHATIF_BIN", workspace.release_binary());
    Step { name: MACHINE, command }
}

fn steps(workspace: &Workspace) -> Vec<Step> {
    let step = |name, arguments: &[&str]| Step { name, command: workspace.cargo(arguments) };
    vec![
        step("format", &["fmt", "--all", "--check"]),
        step("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        step("unit and integration", &["test", "--workspace", "--exclude", "whatif-e2e", "--lib", "--bins", "--tests"]),
        step("end to end, built", &["test", "--package", "whatif-e2e", "--no-run", "--quiet"]),
    ]
}

fn perform(step: Step) -> Result<Duration, Failure> {
    let started = Instant::now();
    let again = shown(&step.command);
    let Step { name, mut command } = step;
    let status = command.status().map_err(|e| Failure::new(format!("failed to start {again}: {e}")))?;
    let took = started.elapsed();
    if !status.success() {
        return Err(Failure::new(format!("step '{name}' failed ({status}) after {:.1} s; again: {again}", took.as_secs_f64())));
    }
    println!("--- {name} passed in {:.1} s", took.as_secs_f64());
    Ok(took)
}

fn report(times: &[(&str, Duration)], total: Duration) {
    println!();
    for (name, took) in times {
        println!("{name:<26}{:>8.1} s", took.as_secs_f64());
    }
    println!("{} steps passed in {:.1} s", times.len(), total.as_secs_f64());
}

/// As a person would type it.
fn shown(command: &Command) -> String {
    let variables =
        command.get_envs().filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), value?.to_string_lossy())));
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    variables.chain(["cargo".to_owned()]).chain(arguments).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_shown_as_it_can_be_repeated() {
        let workspace = Workspace { root: "/src".into(), target: "/build".into() };
        let steps = steps(&workspace);
        let shown: Vec<_> = steps.iter().map(|step| shown(&step.command)).collect();
        assert_eq!(shown[0], "cargo fmt --all --check");
        assert_eq!(shown[3], "cargo test --package whatif-e2e --no-run --quiet");
    }

    #[test]
    fn the_machine_is_shown_as_it_can_be_repeated() {
        let workspace = Workspace { root: "/src".into(), target: "/build".into() };
        assert_eq!(shown(&machine_slice(&workspace).command), "WHATIF_BIN=/build/release/whatif cargo xtask machine");
    }

    #[test]
    fn a_failing_step_is_a_failure_that_names_it() {
        let outcome = perform(Step { name: "nonsense", command: Command::new("false") });
        assert!(matches!(outcome, Err(Failure::Failed(problem)) if problem.contains("'nonsense' failed")));
    }
}
