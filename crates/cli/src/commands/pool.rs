//! `whatif pool`.

use std::process::ExitCode;

use serde_json::json;
use whatif_engine::{Engine, EngineError};

use super::Outcome;
use crate::output::{Output, Style, counted, printable};
use crate::table;

/// Sandboxes kept ready, so that making one is claiming one
///
/// With 'size = 3' under '[pool]' in the configuration, each project that sandboxes are made in keeps three ready. They are
/// filled up in the background.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Fill up the pool of this project now
    Fill,
    /// Throw away everything that is kept ready
    Drain,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    match &args.action {
        None => show(engine, output),
        Some(Action::Fill) => {
            if engine.context.config.pool.size == 0 {
                return Err(EngineError::Usage {
                    message: "the pool is switched off".to_owned(),
                    hint: "set 'size' under '[pool]' in the configuration".to_owned(),
                });
            }
            let ready = engine.fill_pool()?;
            output.document(&json!({ "ready": ready }));
            output.line(format!("{} ready", counted(ready as u64, "sandbox")));
        }
        Some(Action::Drain) => {
            let drained = engine.drain_pool()?;
            output.document(&json!({ "drained": drained }));
            output.line(format!("{} thrown away", counted(drained as u64, "sandbox")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(engine: &Engine, output: &Output) {
    let kept = engine.pool();
    output.document(&kept);
    if kept.is_empty() {
        output.note(match engine.context.config.pool.size {
            0 => "nothing is kept ready; set 'size' under '[pool]' in the configuration",
            _ => "nothing is kept ready yet; fill it: whatif pool fill",
        });
        return;
    }
    let mut rows = vec![["READY", "NETWORK", "PROJECT"].map(|h| output.paint(Style::Dim, h)).to_vec()];
    for shelf in &kept {
        rows.push(vec![
            shelf.ready.to_string(),
            format!("{:?}", shelf.net).to_lowercase(),
            printable(&shelf.project.to_string_lossy()),
        ]);
    }
    output.line(table::render(&rows));
}
