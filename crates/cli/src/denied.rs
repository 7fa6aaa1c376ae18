//! Tells whom a command was not let through to, and how it would be.

use whatif_engine::network::Denied;

use crate::commands::net::place;
use crate::output::{Output, Style, counted};

/// So many hosts are named.
const MOST_NAMED: usize = 5;

pub fn tell(denied: &[Denied], name: &str, is_kept: bool, output: &Output) {
    let total: u64 = denied.iter().map(|d| d.count).sum();
    if total == 0 {
        return;
    }
    let are_names = denied.iter().all(|d| d.port.is_none());
    let named: Vec<String> = denied.iter().take(MOST_NAMED).map(|d| place(&d.host, d.port)).collect();
    let more = if denied.len() > MOST_NAMED { format!(" and {} more", denied.len() - MOST_NAMED) } else { String::new() };
    let what = if are_names { "name" } else { "connection" };
    let tag = output.paint_note(Style::Yellow, "whatif:");
    output.note(format!("{tag} {} denied: {}{more}", counted(total, what), named.join(", ")));
    let rules: Vec<String> = denied.iter().filter_map(Denied::rule).take(MOST_NAMED).map(|rule| rule.to_string()).collect();
    if rules.is_empty() {
        for denied in denied.iter().take(MOST_NAMED) {
            output.note(format!("  {}: {}", place(&denied.host, denied.port), crate::output::printable(&denied.because)));
        }
    } else {
        let living = if is_kept { format!("; in this one: whatif net allow {name} {}", rules.join(" ")) } else { String::new() };
        output.note(format!("  to allow: --net allow={}{living}", rules.join(",")));
    }
}
