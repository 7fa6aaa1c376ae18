//! Asks somebody else about attempts that no rule sets apart.

use serde_json::json;
use whatif_diff::Depth;
use whatif_keeper::protocol::Exited;
use whatif_race::rank;
use whatif_types::experiment::{Event, Experiment, Judged};
use whatif_types::explain::whole_message;
use whatif_types::text::Text;

use super::command::Command;
use super::records::outcomes;
use super::run::{Racing, Tell};
use crate::EngineError;
use crate::changes::diff::Subject;
use crate::lifecycle::captured::Heard;
use crate::races::Races;

/// So much of what a judge says is heard.
const LONGEST_ANSWER: usize = 64 << 10;

impl Races {
    /// Its word is kept: a race that is resumed does not ask again.
    pub(super) fn ask_the_judge(
        &self,
        experiment: &mut Experiment,
        racing: &Racing,
        tell: &mut Tell<'_>,
    ) -> Result<(), EngineError> {
        let Some(script) = &racing.plan.judge else { return Ok(()) };
        while let Some(among) = rank::level_at_the_top(&experiment.details.plan, &outcomes(experiment), &experiment.details.judged)
        {
            tell(Some(&Event::JudgeBegan { among: among.clone() }));
            let asked = {
                let (experiment, among) = (&*experiment, among.clone());
                self.beside(racing, tell, move |races, _| {
                    let brief = races.brief(experiment, &among)?;
                    races.run_judge(racing, script, brief, among)
                })
            };
            // Whatever keeps us from asking, everything else is known.
            let unheard = |error: EngineError| Some(Judged { among, better: None, because: could_not_be_asked(&error) });
            let Some(judged) = asked.unwrap_or_else(unheard) else { return Ok(()) };
            experiment.details.judged.push(judged);
            self.ground.store.update_experiment(experiment)?;
        }
        Ok(())
    }

    /// In a sandbox of reality, like everybody else. `None` if it was stopped.
    fn run_judge(&self, racing: &Racing, script: &str, brief: String, among: Vec<String>) -> Result<Option<Judged>, EngineError> {
        let command = Command {
            sandbox: format!("{}.judge", racing.name),
            arguments: ["/bin/sh", "-c", script].map(Text::from).to_vec(),
            called: None,
            input: Some(Text::Plain(brief)),
            variables: vec![format!("WHATIF_RACE={}", racing.name)],
            heard: Heard::Output,
        };
        let mut said = Vec::new();
        let mut hear = |piece: &[u8]| said.extend_from_slice(&piece[..piece.len().min(LONGEST_ANSWER.saturating_sub(said.len()))]);
        let Some((run, exited)) = self.run_in_race(racing, &command, &mut |_| {}, &mut hear)? else { return Ok(None) };
        self.lifecycle.abandon(run)?;
        let said = String::from_utf8_lossy(&said);
        // A line that is a name and nothing else; one name.
        let mut names = said.lines().map(str::trim).filter(|line| among.iter().any(|name| name == line));
        let first = names.next();
        let named = first.filter(|first| names.all(|name| name == *first));
        Ok(Some(match named.filter(|_| exited.code == 0 && !exited.timed_out) {
            Some(name) => {
                let rest: Vec<&str> = said.lines().filter(|line| line.trim() != name).collect();
                Judged { among, better: Some(name.to_owned()), because: rest.join("\n").trim().to_owned() }
            }
            None => Judged { among, better: None, because: no_answer(&exited, &said) },
        }))
    }

    /// What a judge reads: everything about those it is asked about.
    fn brief(&self, experiment: &Experiment, among: &[String]) -> Result<String, EngineError> {
        let start = self.recorded_start(experiment)?;
        let start = start.map(|begin| format!("{}@{}", begin.sandbox.name, begin.snapshot.label));
        let mut attempts = Vec::new();
        for name in among {
            let number = self.find_attempt(experiment, name)?;
            let sandbox = self.sandbox_of(experiment, number)?;
            let subject = match &start {
                Some(start) => Subject::Between(Some(start.clone()), Some(sandbox.name)),
                None => Subject::Sandbox(sandbox.name.as_str().into()),
            };
            let diff = self.changes.diff(&subject, Depth::Review)?;
            attempts.push(json!({
                "name": name,
                "about": experiment.details.plan.attempts[number].about,
                "outcome": experiment.records[number].outcome,
                "diff": diff.document(|change| !change.ignored && !change.outside, true),
            }));
        }
        Ok(json!({ "race": experiment.name, "attempts": attempts }).to_string())
    }
}

fn could_not_be_asked(error: &EngineError) -> String {
    format!("the judge could not be asked: {}", whole_message(error))
}

fn no_answer(exited: &Exited, said: &str) -> String {
    if exited.timed_out {
        return "the judge took too long".to_owned();
    }
    if exited.code != 0 {
        return format!("the judge failed (exit code {})", exited.code);
    }
    let last: String = said.trim().lines().last().unwrap_or_default().chars().take(80).collect();
    format!("the judge named none of them (it said '{}')", last.escape_debug())
}
