//! `whatif net`.

use crate::exit::ExitCode;
use std::time::Duration;

use whatif_engine::ground::GroundError;
use whatif_engine::network::changes::{Change, changed_document};
use whatif_engine::network::decisions::Supervision;
use whatif_engine::network::{Decision, Decisions};
use whatif_engine::{Engine, EngineError};
use whatif_types::network::{EventKind, Rule};
use whatif_types::sandbox::Details;
use whatif_types::{NetMode, timestamp};

use super::{Outcome, meant};
use crate::failure::Failure;
use crate::output::{Output, Style, bytes, counted, printable};
use crate::table;

/// How often the record is looked at with --follow.
const INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// Show only denied connections
    #[arg(long)]
    denied: bool,
    /// Show the rules in force and where they come from (may run your package managers to find their registries)
    #[arg(long)]
    rules: bool,
    /// Go on showing what is decided; with --json one line each
    #[arg(long, short)]
    follow: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Allow a destination at once, also for running commands
    Allow(Rules),
    /// Deny a destination at once, and cut connections to it
    Deny(Rules),
    /// List what was allowed at a prompt, for projects or always
    Permits {
        /// Forget this rule
        #[arg(long, value_name = "RULE")]
        forget: Option<Rule>,
    },
}

#[derive(Debug, clap::Args)]
struct Rules {
    /// The sandbox, by name or the beginning of its id
    name: String,
    /// A domain, *.domain, an address or a network, each with an optional :port
    #[arg(required = true, value_name = "RULE")]
    rules: Vec<Rule>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    match &args.command {
        Some(Command::Allow(rules)) => change(engine, Change::Allow, rules, output),
        Some(Command::Deny(rules)) => change(engine, Change::Deny, rules, output),
        Some(Command::Permits { forget }) => permits(engine, forget.as_ref(), output),
        None if args.rules => rules(engine, args, output),
        None if args.follow => follow(engine, args, output),
        None => show(engine, args, output),
    }
}

fn change(engine: &Engine, change: Change, rules: &Rules, output: &Output) -> Outcome {
    let sandbox = engine.network.change_rules(&rules.name.as_str().into(), change, &rules.rules)?;
    output.document(&changed_document(&sandbox));
    output.line(format!("{}: {}", output.paint(Style::Bold, &sandbox.name), describe(&sandbox.details)));
    if change == Change::Allow {
        for rule in engine.network.overruled(&sandbox, &rules.rules) {
            output
                .note(format!("{} {rule} stays denied: the configuration denies it", output.paint_note(Style::Yellow, "whatif:")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn permits(engine: &Engine, forget: Option<&Rule>, output: &Output) -> Outcome {
    if let Some(rule) = forget
        && engine.network.forget_permit(rule)? == 0
    {
        return Err(Failure::usage(
            "no_match",
            format!("'{rule}' was not permitted anywhere"),
            "'whatif net permits' lists what was",
        ));
    }
    let permits = engine.network.permits()?;
    output.document(&permits);
    let mut rows: Vec<Vec<String>> = permits.always.iter().map(|rule| vec![rule.to_string(), "always".to_owned()]).collect();
    for (project, rules) in &permits.projects {
        rows.extend(rules.iter().map(|rule| vec![rule.to_string(), format!("in {}", printable(&project.to_string_lossy()))]));
    }
    if rows.is_empty() {
        output.note("nothing was permitted at a prompt");
    } else {
        output.line(table::render(&rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let mut decisions = engine.network.decisions(&meant(engine, args.name.as_deref())?)?;
    if args.denied {
        decisions.all.retain(|d| !d.allowed);
    }
    output.document(&decisions.document());
    let Decisions { sandbox, all, omitted, supervisor } = &decisions;
    output.line(format!("{}: {}", output.paint(Style::Bold, &sandbox.name), describe(&sandbox.details)));
    match supervisor {
        Supervision::Gone => output.note(format!(
            "{} its supervisor is gone, so nothing gets out; the next command in it starts another: whatif start {}",
            output.paint_note(Style::Red, "whatif:"),
            sandbox.name
        )),
        Supervision::NotYet => output.line("nothing has used the network so far"),
        Supervision::NotNeeded | Supervision::Running if all.is_empty() => output.line("nothing was recorded"),
        Supervision::NotNeeded | Supervision::Running => {}
    }
    if !all.is_empty() {
        let headings = ["WHEN", "WHO", "HOST", "", "SENT", "RECEIVED", "WHY"];
        let mut rows = vec![headings.map(|h| output.paint(Style::Dim, h)).to_vec()];
        rows.extend(all.iter().map(|decision| row(decision, output)));
        output.line(table::render(&rows));
    }
    if *omitted > 0 {
        output.line(format!("… and {} that were not recorded", counted(*omitted, "decision")));
    }
    Ok(ExitCode::SUCCESS)
}

fn rules(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let sandbox = engine.network.decisions(&meant(engine, args.name.as_deref())?)?.sandbox;
    let rules = engine.network.rules_in_force(&sandbox)?;
    output.document(&rules);
    output.line(format!("{}: {}", output.paint(Style::Bold, &sandbox.name), describe(&sandbox.details)));
    let origin = |rule: &Rule| {
        let place = rule.to_string();
        let found = rules.registries.iter().find(|registry| registry.place == place);
        found.map_or_else(String::new, |registry| format!("{}: {}", printable(&registry.tool), printable(&registry.said)))
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    rows.extend(rules.deny.iter().map(|rule| vec![output.paint(Style::Red, "deny"), rule.to_string(), String::new()]));
    rows.extend(rules.allow.iter().map(|rule| vec![output.paint(Style::Green, "allow"), rule.to_string(), origin(rule)]));
    if !rows.is_empty() {
        output.line(table::render(&rows));
    }
    for trouble in &rules.troubles {
        output.note(format!("{} {}", output.paint_note(Style::Yellow, "whatif:"), printable(trouble)));
    }
    Ok(ExitCode::SUCCESS)
}

fn follow(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    // What each was when it was last shown: a connection is shown when it opens and when it ends.
    let mut was_open: Vec<bool> = Vec::new();
    let mut has_shown = false;
    let which = meant(engine, args.name.as_deref())?;
    loop {
        let decisions = match engine.network.decisions(&which) {
            // It was there before, and is gone.
            Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })) if has_shown => return Ok(ExitCode::SUCCESS),
            other => other?,
        };
        has_shown = true;
        for (index, decision) in decisions.all.iter().enumerate() {
            let is_news = was_open.get(index).is_none_or(|was_open| *was_open != decision.is_open);
            if is_news && (!args.denied || !decision.allowed) {
                output.document(decision);
                output.line(row(decision, output).join("  "));
            }
        }
        was_open = decisions.all.iter().map(|d| d.is_open).collect();
        std::thread::sleep(INTERVAL);
    }
}

fn row(decision: &Decision, output: &Output) -> Vec<String> {
    let who = decision.who.as_ref().map_or_else(|| "-".to_owned(), |who| format!("{} ({})", printable(&who.program), who.pid));
    let verdict = match (decision.allowed, decision.kind) {
        (false, _) => output.paint(Style::Red, "denied"),
        (true, EventKind::Resolve) => output.paint(Style::Green, "resolved"),
        (true, EventKind::Failed) => output.paint(Style::Yellow, "failed"),
        (true, _) if decision.is_open => output.paint(Style::Green, "allowed, open"),
        (true, _) => output.paint(Style::Green, "allowed"),
    };
    let verdict = if decision.repeats > 1 { format!("{verdict} x{}", decision.repeats) } else { verdict };
    let counts = |count: u64| if decision.kind == EventKind::Connect && decision.allowed { bytes(count) } else { "-".to_owned() };
    let mut why = printable(&decision.because);
    if let Some(failed) = decision.failed.as_ref().filter(|failed| **failed != decision.because) {
        why = format!("{why}; ended: {}", printable(failed));
    }
    vec![
        timestamp::rfc3339(decision.at_ms),
        who,
        place(&decision.host, decision.port),
        verdict,
        counts(decision.sent),
        counts(decision.received),
        why,
    ]
}

/// A host and its port, for people.
pub fn place(host: &str, port: Option<u16>) -> String {
    let host = printable(host);
    match port {
        Some(port) if host.contains(':') => format!("[{host}]:{port}"),
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

/// What the network of a sandbox is, in one line.
pub fn describe(details: &Details) -> String {
    let (net, wish) = (details.net, &details.network);
    let list = |rules: &[Rule]| rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(", ");
    let mut parts = Vec::new();
    match net {
        NetMode::None if wish.by_default && wish.registries => {
            parts.push("none (rules cannot be had here; see whatif doctor)".to_owned())
        }
        NetMode::None => parts.push("none".to_owned()),
        NetMode::Host => parts.push("the host's".to_owned()),
        NetMode::Filtered => {
            let mut allowed = Vec::new();
            allowed.extend(wish.registries.then(|| "registries".to_owned()));
            allowed.extend(wish.local.then(|| "local".to_owned()));
            allowed.extend((!wish.allow.is_empty()).then(|| list(&wish.allow)));
            parts.push(if allowed.is_empty() { "nothing is allowed".to_owned() } else { format!("allows {}", allowed.join(", ")) });
        }
    }
    if !wish.deny.is_empty() {
        parts.push(format!("denies {}", list(&wish.deny)));
    }
    if !wish.reach.is_empty() {
        parts.push(format!("reaches {}", wish.reach.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")));
    }
    for publish in &wish.publish {
        parts.push(format!("port {} at 127.0.0.1:{}", publish.inside, publish.host));
    }
    for secret in &wish.secrets {
        parts.push(format!("{} for {}", printable(&secret.name), printable(&secret.host)));
    }
    parts.join("; ")
}
