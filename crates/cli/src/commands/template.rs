//! `whatif template`.

use crate::exit::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use whatif_engine::Engine;
use whatif_engine::history::template::SaveTemplate;
use whatif_engine::lifecycle::shift::Live;
use whatif_types::timestamp::age;

use super::snapshot::{live, tell_disturbed};
use super::{Outcome, meant};
use crate::output::{Output, Style, bytes, printable, visible_path};
use crate::table;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  whatif exec swift-otter -- npm ci\n  whatif template save swift-otter deps\n  whatif run --template deps -- npm test"
)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Save a sandbox's current state as a template
    #[command(override_usage = "whatif template save [OPTIONS] [NAME] <TEMPLATE>")]
    Save {
        /// The sandbox, then the name of the template; a single word is a template of the latest sandbox of this project
        #[arg(value_name = "TEMPLATE", num_args = 1..=2, required = true)]
        words: Vec<String>,
        /// Description
        #[arg(long, short)]
        message: Option<String>,
        /// Replace the template if it exists
        #[arg(long)]
        replace: bool,
        /// How to treat running processes: copy (they continue; the changes are copied), refuse, or stop (end them)
        #[arg(long, value_name = "copy|refuse|stop", value_parser = live, default_value = "copy")]
        live: Live,
    },
    /// List the templates, newest first
    Ls,
    /// Remove templates; sandboxes made from them stay
    Rm {
        #[arg(required = true, value_name = "TEMPLATE")]
        names: Vec<String>,
    },
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    match &args.action {
        Action::Save { words, message, replace, live } => {
            let (sandbox, name) = match words.as_slice() {
                [sandbox, name, ..] => (Some(sandbox.as_str()), name.as_str()),
                [name] => (None, name.as_str()),
                [] => (None, ""),
            };
            let asked =
                SaveTemplate { name: name.to_owned(), snapshot: None, message: message.clone(), replace: *replace, live: *live };
            let (template, disturbed) = engine.history.save_template(&meant(engine, sandbox)?, asked)?;
            let listed = engine.history.list_template(template)?;
            output.document(&listed);
            output.line(output.paint(Style::Bold, &listed.name));
            tell_disturbed(disturbed.as_ref(), output);
            output.note(format!("  use it: whatif new --template {}", listed.name));
        }
        Action::Ls => list(engine, output)?,
        Action::Rm { names } => {
            // All of them or none.
            for name in names {
                engine.ground.template(name)?;
            }
            for name in names {
                engine.history.remove_template(name)?;
                output.line(format!("{name} is gone"));
            }
            output.document(&json!({ "removed": names }));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(engine: &Engine, output: &Output) -> Result<(), whatif_engine::EngineError> {
    let templates = engine.history.templates()?;
    output.document(&templates);
    if templates.is_empty() {
        output.note("no templates; save one: whatif template save NAME TEMPLATE");
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    let mut rows = vec![["TEMPLATE", "AGE", "SIZE", "STATE", "PROJECT", "ABOUT"].map(|h| output.paint(Style::Dim, h)).to_vec()];
    for listed in &templates {
        let state = match listed.moved.as_slice() {
            [] => output.paint(Style::Green, "current"),
            [only] => output.paint(Style::Yellow, format!("{} moved on", visible_path(only))),
            all => output.paint(Style::Yellow, format!("{} lockfiles moved on", all.len())),
        };
        rows.push(vec![
            output.paint(Style::Bold, &listed.name),
            age(now.saturating_sub(listed.created_ms)),
            bytes(listed.bytes),
            state,
            printable(&listed.project.to_string_lossy()),
            printable(listed.message.as_deref().unwrap_or_default()),
        ]);
    }
    output.line(table::render(&rows));
    Ok(())
}

/// A template that reality has moved past is used all the same, but not without a word. Returns the lockfiles that tell.
pub fn tell_moved(engine: &Engine, sandbox: &whatif_engine::Sandbox, output: &Output) -> Vec<String> {
    let moved = engine.history.template_moved(sandbox);
    if let Some(first) = moved.first() {
        let more = if moved.len() > 1 { format!(" and {} more", moved.len() - 1) } else { String::new() };
        let name = sandbox.details.position.made_from.as_deref().unwrap_or_default();
        output.note(format!(
            "{} {}{more} changed in reality since template '{name}' was saved; what it installed may be outdated",
            output.paint_note(Style::Yellow, "whatif:"),
            visible_path(first)
        ));
    }
    moved.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}
