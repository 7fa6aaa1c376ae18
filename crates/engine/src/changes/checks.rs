//! Checks before an apply, on the merged result; and the policy that may approve one without a person.

use std::time::Duration;

use whatif_diff::pattern::{Patterns, Scope};
use whatif_types::Sandbox;
use whatif_types::config::Check;

use crate::EngineError;
use crate::changes::apply::{ApplyRequest, Prepared};
use crate::changes::{Changes, ChangesError};
use crate::ground::GroundError;
use crate::lifecycle::captured::{Heard, Pipes};
use crate::lifecycle::create::Created;
use crate::lifecycle::exec::{CommandSpec, Surroundings, hand_over};
use crate::network::secrets::is_secret;

/// So much of what a check said is kept, from the end.
const MOST_OUTPUT: usize = 64 << 10;

/// How a check ended.
#[derive(Clone, Debug)]
pub struct CheckResult {
    pub check: Check,
    pub exit_code: i32,
    pub timed_out: bool,
    /// The last of what it said.
    pub output: String,
}

impl CheckResult {
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.exit_code == 0 && !self.timed_out
    }
}

impl Changes {
    /// Whether checks are configured for the project of this apply.
    pub(crate) fn has_checks(&self, request: &ApplyRequest) -> Result<bool, EngineError> {
        let sandbox = self.ground.resolve(&request.sandbox)?;
        Ok(!self.ground.caller.config_for(&sandbox.project)?.apply.checks.is_empty())
    }

    /// Runs the configured checks in a sandbox of what reality would become. The first required one that fails is an error.
    pub(crate) fn run_checks(
        &self,
        prepared: &Prepared,
        tell: &mut dyn FnMut(&CheckResult),
    ) -> Result<Vec<CheckResult>, EngineError> {
        let config = self.ground.caller.config_for(&prepared.sandbox.project)?;
        if config.apply.checks.is_empty() || prepared.plan.operations.is_empty() {
            return Ok(Vec::new());
        }
        let mut created = self.lifecycle.trial(&prepared.sandbox, &prepared.plan)?;
        let mut results = Vec::new();
        let mut outcome = Ok(());
        for check in &config.apply.checks {
            let result = match self.run_check(&mut created, &prepared.sandbox, &config, check) {
                Ok(result) => result,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            tell(&result);
            if check.required && !result.has_passed() {
                let why = if result.timed_out {
                    format!("no end after {} s", check.timeout)
                } else {
                    format!("exit code {}", result.exit_code)
                };
                outcome = Err(ChangesError::CheckFailed { name: check.name.clone(), why }.into());
                break;
            }
            results.push(result);
        }
        // Not in the background: a child would hold on to the lock of the sandbox that is being applied.
        self.lifecycle.discard_here(&created.sandbox, &*created.instance)?;
        outcome.map(|()| results)
    }

    fn run_check(
        &self,
        created: &mut Created,
        judged: &Sandbox,
        config: &whatif_types::config::UserConfig,
        check: &Check,
    ) -> Result<CheckResult, EngineError> {
        let pipes = Pipes::new(None, Heard::Both)?;
        let spec = CommandSpec {
            arguments: vec!["/bin/sh".into(), "-c".into(), check.run.clone().into()],
            env: Vec::new(),
            cwd: None,
            stdio: pipes.stdio(),
            terminal: None,
            timeout: Some(Duration::from_secs(check.timeout)),
            called: None,
        };
        let sandbox = &created.sandbox;
        let mut request = self.lifecycle.request(config, Surroundings::of(sandbox, &sandbox.project), &spec, false);
        // A check runs what the sandbox made, and that was not given its secrets.
        request.environment.retain(|(name, _)| !is_secret(&judged.details.network, name.as_bytes()));
        hand_over(sandbox.details.identity, &pipes.descriptors());
        created.client.exec(request, &pipes.descriptors())?;
        let mut output = Vec::new();
        let exited = self.lifecycle.watch(sandbox, &mut created.client, pipes, None, &mut |piece| {
            output.extend_from_slice(piece);
            if output.len() > 4 * MOST_OUTPUT {
                output.drain(..output.len() - MOST_OUTPUT);
            }
        })?;
        // Nobody could have had enough of it.
        let Some(exited) = exited else { return Err(GroundError::Busy { name: sandbox.name.clone() }.into()) };
        let start = output.len().saturating_sub(MOST_OUTPUT);
        Ok(CheckResult {
            check: check.clone(),
            exit_code: exited.code,
            timed_out: exited.timed_out,
            output: String::from_utf8_lossy(&output[start..]).into_owned(),
        })
    }

    /// Whether the user's policy approves this apply without anybody's word.
    pub(crate) fn is_auto_approved(&self, prepared: &Prepared) -> Result<bool, EngineError> {
        // The user's own policy: a project cannot approve itself.
        let Some(rule) = &self.ground.caller.config.policy.auto_approve else { return Ok(false) };
        let paths = Patterns::new(&rule.paths, Scope::of_rules(&[&prepared.sandbox.project]))?;
        let files = prepared.steps.len() as u64;
        Ok(rule.max_files.is_none_or(|most| files <= most)
            && rule.max_lines.is_none_or(|most| prepared.lines.is_some_and(|lines| lines as u64 <= most))
            && (paths.is_empty() || prepared.steps.iter().all(|s| paths.matches(&s.path)))
            && prepared.steps.iter().all(|s| s.path.starts_with(&prepared.sandbox.project)))
    }
}
