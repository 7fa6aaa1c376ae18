//! `whatif attach`.

use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::lifecycle::attach::Attached;
use whatif_engine::{Engine, Exited};
use whatif_types::Chosen;

use super::{Outcome, meant_and_told};
use crate::foreground::attached::{self, Left, Seen};
use crate::output::{Output, Style};
use crate::{chosen, ending, exit};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// The command, by its id (c1) or process number; by default the latest that runs, or the latest
    #[arg(value_name = "ID|PID", value_parser = chosen::parse)]
    command: Option<Chosen>,
    /// Start at this byte of the output, instead of the first that is kept
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,
    /// Close the command's input at the end of standard input
    #[arg(long)]
    eof: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let mut attached = engine.lifecycle.attach(&meant_and_told(engine, args.name.as_deref(), output)?, args.command, args.from)?;
    let seen = attached::attend(&mut attached, args.eof, output)?;
    match seen.left {
        None => {
            let exited = attached.exited()?;
            tell_end(&attached, &seen, exited, output);
            Ok(super::run::exit_code(exited))
        }
        Some(left) => {
            tell_left(&attached, &seen, output);
            match left {
                Left::ByKey => Ok(ExitCode::SUCCESS),
                Left::BySignal(signal) => Ok(ExitCode::from(exit::of_signal(signal))),
            }
        }
    }
}

fn tell_end(attached: &Attached, seen: &Seen, exited: &Exited, output: &Output) {
    if output.json {
        output.document(&document(attached, seen, ending::document(exited)));
    } else if ending::was_limited(exited) {
        for line in ending::lines(exited, &attached.sandbox().details.limits, None) {
            output.note(format!("{} {line}", output.paint_note(Style::Dim, "whatif:")));
        }
        ending::tell_remedy(exited, output);
    }
}

fn tell_left(attached: &Attached, seen: &Seen, output: &Output) {
    let (name, id, offset) = (&attached.sandbox().name, attached.id, seen.to);
    output.document(&document(attached, seen, json!({ "exit_code": null })));
    let how = format!("whatif attach {name} {id} --from {offset}");
    output.note(format!("\n{} {id} goes on in {name}; to return to it: {how}", output.paint_note(Style::Dim, "whatif:")));
}

fn document(attached: &Attached, seen: &Seen, mut document: serde_json::Value) -> serde_json::Value {
    document["sandbox"] = json!(attached.sandbox().name);
    document["id"] = json!(attached.id);
    document["pid"] = json!(attached.pid());
    document["left"] = json!(seen.left.is_some());
    document["from"] = json!(seen.from);
    document["to"] = json!(seen.to);
    let gaps: Vec<_> = seen.gaps.iter().map(|gap| json!({ "from": gap.start, "to": gap.end })).collect();
    document["dropped"] = json!(gaps);
    document["output"] = json!(String::from_utf8_lossy(&seen.kept));
    document["truncated"] = json!(seen.is_truncated);
    document
}
