//! `cargo xtask test`: everything that must hold before a change is accepted, cheapest first.

mod beside;

use std::process::Command;
use std::time::{Duration, Instant};

use self::beside::Beside;
use crate::backend::with_device_for_all;
use crate::failure::Failure;
use crate::packages;
use crate::workspace::Workspace;

struct Step {
    name: &'static str,
    command: Command,
}

pub fn run() -> Result<(), Failure> {
    let workspace = Workspace::find()?;
    packages::provide()?;
    let started = Instant::now();
    let mut release = Some(Beside::start(release_build(&workspace), &workspace)?);
    let steps = steps(&workspace);
    let count = steps.len();
    let mut times = Vec::with_capacity(count + 1);
    for (number, step) in steps.into_iter().enumerate() {
        // What follows is the first to need it.
        if step.name == END_TO_END
            && let Some(release) = release.take()
        {
            times.push((RELEASE, release.wait()?));
        }
        println!("\n=== {}/{count} {}: {}", number + 1, step.name, shown(&step.command));
        times.push((step.name, perform(step)?));
    }
    report(&times, started.elapsed());
    Ok(())
}

const RELEASE: &str = "release build, beside";
const END_TO_END: &str = "end to end";

/// A third of it keeps a single core busy, and so do parts of the other steps.
fn release_build(workspace: &Workspace) -> Step {
    Step { name: RELEASE, command: workspace.cargo(&["build", "--release"]) }
}

fn steps(workspace: &Workspace) -> Vec<Step> {
    let step = |name, arguments: &[&str]| Step { name, command: workspace.cargo(arguments) };
    // All of it, also after a failure: it takes long, and the next run should not be needed to find the next failure.
    let mut end_to_end = step(END_TO_END, &["test", "--package", "whatif-e2e", "--no-fail-fast"]);
    // What people will run is what is tested: the release build, not the one cargo makes beside the tests.
    end_to_end.command.env("WHATIF_BIN", workspace.release_binary());
    vec![
        step("format", &["fmt", "--all", "--check"]),
        step("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        step("unit and integration", &["test", "--workspace", "--exclude", "whatif-e2e"]),
        step("end to end, built", &["test", "--package", "whatif-e2e", "--no-run", "--quiet"]),
        end_to_end,
    ]
}

fn perform(step: Step) -> Result<Duration, Failure> {
    let started = Instant::now();
    let again = shown(&step.command);
    // Attacks are tried over every backend, also by the ordinary user.
    let mut command = if step.name == END_TO_END { with_device_for_all(step.command) } else { step.command };
    let status = command.status().map_err(|e| Failure::new(format!("failed to start {again}: {e}")))?;
    let took = started.elapsed();
    if !status.success() {
        return Err(Failure::new(format!(
            "step '{}' failed ({status}) after {:.1} s; again: {again}",
            step.name,
            took.as_secs_f64()
        )));
    }
    println!("--- {} passed in {:.1} s", step.name, took.as_secs_f64());
    Ok(took)
}

fn report(times: &[(&str, Duration)], total: Duration) {
    println!();
    for (name, took) in times {
        println!("{name:<24}{:>8.1} s", took.as_secs_f64());
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
        assert_eq!(shown[4], "WHATIF_BIN=/build/release/whatif cargo test --package whatif-e2e --no-fail-fast");
    }

    #[test]
    fn a_failing_step_is_a_failure_that_names_it() {
        let outcome = perform(Step { name: "nonsense", command: Command::new("false") });
        assert!(matches!(outcome, Err(Failure::Failed(problem)) if problem.contains("'nonsense' failed")));
    }
}
