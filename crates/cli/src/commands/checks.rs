//! The checks that run before an apply, as people see them.

use whatif_engine::apply::Prepared;
use whatif_engine::{Engine, EngineError};

use crate::output::{Output, Style, printable};

/// The last lines of a failed check say why.
const MOST_LINES: usize = 15;

pub fn run(engine: &Engine, prepared: &Prepared, output: &Output) -> Result<(), EngineError> {
    engine.run_checks(prepared, &mut |result| {
        if result.has_passed() {
            output.note(format!("{} check '{}' passed", output.paint_note(Style::Green, "✓"), printable(&result.check.name)));
            return;
        }
        output.note(format!("{} check '{}' failed", output.paint_note(Style::Red, "✗"), printable(&result.check.name)));
        let lines: Vec<&str> = result.output.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(MOST_LINES)) {
            output.note(format!("  {}", printable(line)));
        }
    })?;
    Ok(())
}
