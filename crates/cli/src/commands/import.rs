//! `whatif import`.

use crate::exit::ExitCode;
use std::path::{Path, PathBuf};

use whatif_engine::history::export::Kind;
use whatif_engine::history::import::{self, Import, Imported, Inspected};
use whatif_engine::{Engine, EngineError};
use whatif_types::Backend;
use whatif_types::timestamp::rfc3339;

use super::Outcome;
use crate::output::{Output, Style, bytes, counted, printable, visible_path};
use crate::progress::Line;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The archive, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Import it as a sandbox of this name; by default as what it was, under its own name
    #[arg(long, conflicts_with = "template")]
    name: Option<String>,
    /// Import it as a template of this name
    #[arg(long, value_name = "TEMPLATE")]
    template: Option<String>,
    /// Directory of the project; by default the current one
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Implementation of copy-on-write; by default the best that works here
    #[arg(long, value_name = "overlay|fuse|copy")]
    backend: Option<Backend>,
    /// Hide this path too ('~/' is the home directory; other paths are relative to this directory)
    #[arg(long, value_name = "PATH", value_parser = super::path_rule::parse)]
    mask: Vec<String>,
    /// List the content and import nothing
    #[arg(long)]
    list: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    if args.list {
        return Ok(list(&args.file, output)?);
    }
    let wanted = match (&args.name, &args.template) {
        (_, Some(template)) => Imported::Template(template),
        (Some(name), None) => Imported::Sandbox(Some(name)),
        (None, None) => Imported::AsItWas,
    };
    let import = Import { wanted, project: args.project.as_deref(), backend: args.backend, mask: &args.mask };
    let mut line = Line::new("unpacking", output);
    let mut progress = |done: u64| line.show(&bytes(done));
    let arrived = if args.file == Path::new("-") {
        engine.history.import(std::io::stdin().lock(), &import, &mut progress)?
    } else {
        engine.history.import(import::open(&args.file)?, &import, &mut progress)?
    };
    line.clear();
    output.document(&arrived);
    let name = output.paint(Style::Bold, &arrived.name);
    output.line(name);
    output.note(format!("  sha256 {}", arrived.sha256));
    if !arrived.not_masked.is_empty() {
        let hidden = arrived.not_masked.iter().map(|path| printable(path)).collect::<Vec<_>>().join(", ");
        output.note(format!("  hidden where it comes from, and not here: {hidden}; import it with --mask to hide the same"));
    }
    output.note(match arrived.kind {
        Kind::Template => format!("  use it: whatif new --template {}", arrived.name),
        Kind::Sandbox => {
            format!("  use it: whatif exec {} -- COMMAND   see what it changed: whatif diff {}", arrived.name, arrived.name)
        }
    });
    Ok(ExitCode::SUCCESS)
}

fn list(file: &Path, output: &Output) -> Result<ExitCode, EngineError> {
    let inspected = if file == Path::new("-") { import::inspect_from(std::io::stdin().lock()) } else { import::inspect(file) };
    let Inspected { claims, manifest, digest } = inspected?;
    output.document(&serde_json::json!({
        "kind": claims.kind,
        "name": claims.name,
        "project": claims.project,
        "exported_at": rfc3339(claims.exported_at),
        "made_by_root": claims.made_by_root,
        "message": claims.message,
        "layers": manifest.layers,
        "sha256": digest,
    }));
    let kind = if claims.kind == Kind::Template { "template" } else { "sandbox" };
    let (files, size) = manifest.layers.iter().fold((0, 0), |(f, b), l| (f + l.files, b + l.bytes));
    let name = output.paint(Style::Bold, printable(&claims.name));
    output.line(format!("{kind} {name} of {}", printable(&claims.project.to_string_lossy())));
    output.line(format!("{}, {}, {}", counted(manifest.layers.len() as u64, "layer"), counted(files, "file"), bytes(size)));
    output.line(format!("sha256 {digest}"));
    if file != Path::new("-") {
        let other = if claims.kind == Kind::Template { "--template" } else { "--name" };
        output.note(format!("  import it: whatif import {}   under another name: {other} NAME", visible_path(file)));
    }
    Ok(ExitCode::SUCCESS)
}
