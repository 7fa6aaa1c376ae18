//! `whatif export`.

use crate::exit::ExitCode;
use std::fs::{self, File};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde_json::json;
use whatif_engine::history::export::{Exported, Packed};
use whatif_engine::lifecycle::LifecycleError;
use whatif_engine::lifecycle::shift::Live;
use whatif_engine::{Engine, EngineError};

use super::Outcome;
use super::snapshot::{live, tell_disturbed};
use crate::failure::Failure;
use crate::output::{Output, Style, bytes, counted, visible_path};
use crate::progress::Line;
use crate::whole_file::WholeFile;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A sandbox, or a snapshot: LABEL or NAME@LABEL
    #[arg(value_name = "NAME|LABEL", required_unless_present = "template", conflicts_with = "template")]
    source: Option<String>,
    /// Export this template
    #[arg(long, value_name = "TEMPLATE")]
    template: Option<String>,
    /// The file to write, or - for standard output; NAME.whatif by default
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, short)]
    force: bool,
    /// How to treat running processes: copy (they continue; the changes are copied), refuse, or stop (end them)
    #[arg(long, value_name = "copy|refuse|stop", value_parser = live, default_value = "copy")]
    live: Live,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let what = match (&args.source, &args.template) {
        (_, Some(template)) => Exported::Template(template),
        (source, None) => Exported::Position(source.as_deref().unwrap_or_default()),
    };
    let mut line = Line::new("packing", output);
    let mut progress = |done: u64| line.show(&bytes(done));
    if args.output.as_deref() == Some(Path::new("-")) {
        if std::io::stdout().is_terminal() || output.json {
            return Err(Failure::usage("invalid_value", "an archive is nothing to look at", "give a file: --output FILE"));
        }
        let packed = engine.history.export(what, args.live, std::io::stdout().lock(), &mut progress)?;
        return Ok(tell_where_it_cannot_be_seen(&packed, output));
    }
    let name = args.template.as_deref().or(args.source.as_deref()).unwrap_or("sandbox");
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.whatif", name.replace('@', "-"))));
    // What a link leads to is meant, not the link.
    let path = fs::canonicalize(&path).unwrap_or(path);
    // What cannot be looked at cannot be written either, and that is an error.
    match fs::symlink_metadata(&path) {
        // A link that leads nowhere is still somebody's.
        Ok(there) if there.is_file() || there.is_symlink() => {
            if !args.force {
                return Err(EngineError::from(LifecycleError::WouldReplace { paths: vec![path] }).into());
            }
        }
        Ok(_) => {
            let packed = into_what_is_there(engine, what, args.live, &path, &mut progress)?;
            return Ok(tell_where_it_cannot_be_seen(&packed, output));
        }
        Err(_) => {}
    }
    let failed = |source| EngineError::io("write", &path, source);
    let file = WholeFile::create(&path).map_err(failed)?;
    let Packed { about, written, disturbed } = engine.history.export(what, args.live, file.writer(), &mut progress)?;
    file.publish().map_err(failed)?;
    let size = fs::metadata(&path).map_or(0, |m| m.len());
    line.clear();
    output.document(
        &json!({ "file": path, "name": about.name, "bytes": size, "sha256": written.digest, "left_out": written.left_out }),
    );
    let layers = counted(written.manifest.layers.len() as u64, "layer");
    output.line(format!("{}: {layers}, {}", output.paint(Style::Bold, visible_path(&path)), bytes(size)));
    tell_disturbed(disturbed.as_ref(), output);
    output.note(format!("  sha256 {}", written.digest));
    let left = &written.left_out;
    if left.sockets + left.devices + left.attributes > 0 {
        let parts = [(left.sockets, "socket"), (left.devices, "device"), (left.attributes, "attribute")];
        let told: Vec<String> = parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| counted(n, what)).collect();
        output.note(format!("  left out: {}", told.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}

/// A pipe or a device is written to. Putting a file in its place would be the end of it.
fn into_what_is_there(
    engine: &Engine,
    what: Exported<'_>,
    live: Live,
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Packed, Failure> {
    let failed = |source| EngineError::io("write", path, source);
    let opened = File::options().write(true).open(path).map_err(failed)?;
    Ok(engine.history.export(what, live, opened, progress)?)
}

/// Of an archive that went somewhere else, what can be compared later.
fn tell_where_it_cannot_be_seen(packed: &Packed, output: &Output) -> ExitCode {
    tell_disturbed(packed.disturbed.as_ref(), output);
    output.note(format!("  sha256 {}", packed.written.digest));
    ExitCode::SUCCESS
}
