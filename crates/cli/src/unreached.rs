//! Tells whom a command did not get through to, and how it would.

use whatif_engine::Sandbox;
use whatif_engine::network::{Denied, Troubles};
use whatif_types::network::NetWish;

use crate::commands::net::place;
use crate::output::{Output, Style, counted, printable};

/// So many hosts are named.
const MOST_NAMED: usize = 5;

pub fn tell(troubles: &Troubles, sandbox: &Sandbox, is_kept: bool, output: &Output) {
    tell_denied(&troubles.denied, sandbox, is_kept, output);
    let total: u64 = troubles.failed.iter().map(|failed| failed.count).sum();
    if total > 0 {
        let why = |because: &str| printable(because);
        let named = troubles.failed.iter().take(MOST_NAMED);
        let named: Vec<String> = named.map(|f| format!("{} ({})", place(&f.host, f.port), why(&f.because))).collect();
        let tag = output.paint_note(Style::Yellow, "whatif:");
        output.note(format!("{tag} {} failed: {}{}", counted(total, "connection"), named.join(", "), more(troubles.failed.len())));
    }
}

fn tell_denied(denied: &[Denied], sandbox: &Sandbox, is_kept: bool, output: &Output) {
    let total: u64 = denied.iter().map(|d| d.count).sum();
    if total == 0 {
        return;
    }
    let are_names = denied.iter().all(|d| d.port.is_none());
    let named: Vec<String> = denied.iter().take(MOST_NAMED).map(|d| place(&d.host, d.port)).collect();
    let what = if are_names { "name" } else { "connection" };
    let tag = output.paint_note(Style::Yellow, "whatif:");
    output.note(format!("{tag} {} denied: {}{}", counted(total, what), named.join(", "), more(denied.len())));
    let rules: Vec<String> = denied.iter().filter_map(Denied::rule).take(MOST_NAMED).map(|rule| rule.to_string()).collect();
    if rules.is_empty() {
        for denied in denied.iter().take(MOST_NAMED) {
            output.note(format!("  {}: {}", place(&denied.host, denied.port), printable(&denied.because)));
        }
    } else {
        let name = &sandbox.name;
        let living = if is_kept { format!("; in this one: whatif net allow {name} {}", rules.join(" ")) } else { String::new() };
        output.note(format!("  to allow: {}--net allow={}{living}", usual(&sandbox.details.network), rules.join(",")));
    }
}

/// A `--net` replaces what a sandbox has by default, so that is to be said as well.
fn usual(wish: &NetWish) -> String {
    let choices = [(wish.registries, "--net registries "), (wish.local, "--net local ")];
    choices.iter().filter(|(is_usual, _)| wish.by_default && *is_usual).map(|(_, option)| *option).collect()
}

fn more(all: usize) -> String {
    if all > MOST_NAMED { format!(" and {} more", all - MOST_NAMED) } else { String::new() }
}
