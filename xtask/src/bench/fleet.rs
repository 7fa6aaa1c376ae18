//! Many sandboxes alive at once.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::figure::{Bar, Figure, Ratio, Unit};
use super::keeper::{Keeper, kib_of};
use super::measure::{Times, WARM_UP, attempt, demand, percentile, timed};
use super::peers::{KEEPER_BAR, remove_all};
use super::report::Report;
use super::scratch::Scratch;
use crate::failure::{Failure, on};

/// What a run may cost beside so many, of what it costs alone.
fn bar_of_run(size: usize) -> Bar {
    Bar::RatioAtMost(if size > 200 { 1.2 } else { 1.1 })
}

pub fn measure(scratch: &Scratch, size: usize, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let (mut figures, mut skipped) = (Vec::new(), Vec::new());
    match alone(scratch)? {
        Ok((at_work, at_rest)) => {
            figures.push(Figure::new("keeper PSS, alone, just started", at_work, Unit::Kibibytes));
            figures.push(Figure { bar: Some(KEEPER_BAR), ..Figure::new("keeper PSS, alone, at rest", at_rest, Unit::Kibibytes) });
        }
        Err(reason) => skipped.push(("keeper PSS".to_owned(), reason)),
    }

    let alone = runs(scratch, rounds)?;
    let kernel_before = kernel_memory_kib()?;
    let started = Instant::now();
    for number in 0..size {
        // One after the other, each from a cold command line: what a script would get.
        let status = scratch.whatif(&["new", &name(number)]).status();
        if !status.is_ok_and(|status| status.success()) {
            let reason = attempt(scratch.whatif(&["new", &name(number)])).err().unwrap_or_default();
            return Err(Failure::new(format!("sandbox {number} of {size} could not be made: {reason}")));
        }
    }
    let rate = size as f64 / started.elapsed().as_secs_f64();
    let kernel_each = (kernel_memory_kib()? - kernel_before) / size as f64;
    figures.push(Figure { bar: Some(Bar::ValueAtLeast(100.0)), ..Figure::new("created, one by one", rate, Unit::PerSecond) });

    let keepers = (0..size).map(|number| Keeper::of(scratch, &name(number))).collect::<Result<Vec<_>, _>>()?;
    let alive = keepers.iter().filter(|keeper| keeper.is_alive()).count();
    if alive < size {
        return Err(Failure::new(format!("only {alive} of {size} keepers are alive")));
    }
    if let (true, Some(last)) = (skipped.is_empty(), keepers.last()) {
        // When the one that worked last is at rest, all are.
        last.resting_pss_kib()?;
        let pss = keepers.iter().map(Keeper::pss_kib).collect::<Result<Vec<_>, _>>()?;
        for (label, percent) in [("keeper PSS, median", 50), ("keeper PSS, largest", 100)] {
            figures.push(Figure { bar: Some(KEEPER_BAR), ..Figure::new(label, percentile(&pss, percent), Unit::Kibibytes) });
        }
    }
    let among = runs(scratch, rounds)?;
    let ratio = Ratio { to: "run, alone".to_owned(), value: among.median_ms() / alone.median_ms() };
    let run = |label: String, times: &Times| Figure {
        p90: Some(times.p90_ms()),
        ..Figure::new(label, times.median_ms(), Unit::Milliseconds)
    };
    figures.push(run("run, alone".to_owned(), &alone));
    figures.push(Figure { ratio: Some(ratio), bar: Some(bar_of_run(size)), ..run(format!("run, {size} others alive"), &among) });
    // Of the whole machine, so others disturb it.
    figures.push(Figure::new("kernel memory each, estimate", kernel_each, Unit::Kibibytes));

    let started = Instant::now();
    demand("whatif rm --all", scratch.whatif(&["rm", "--all", "--yes"]))?;
    let returned = started.elapsed();
    scratch.settle()?;
    let settled = started.elapsed();
    figures.push(Figure::new("rm --all, each", each_ms(returned, size), Unit::Milliseconds));
    figures.push(Figure::new("rm --all until all is deleted, each", each_ms(settled, size), Unit::Milliseconds));
    if let Some(survivor) = keepers.iter().find(|keeper| keeper.is_alive()) {
        return Err(Failure::new(format!("keeper {} outlived its sandbox", survivor.pid)));
    }
    report.group(format!("{size} alive at once"), figures, skipped);
    Ok(())
}

fn runs(scratch: &Scratch, rounds: usize) -> Result<Times, Failure> {
    let mut times = Times::default();
    for round in 0..WARM_UP + rounds {
        let (returned, _) = timed(scratch, "whatif run", scratch.whatif(&["run", "--", "true"]))?;
        if round >= WARM_UP {
            times.add(returned);
        }
    }
    Ok(times)
}

/// The memory of a keeper that shares its pages with no other: the worst it can be. The inner failure is the machine
/// not letting us look.
fn alone(scratch: &Scratch) -> Result<Result<(f64, f64), String>, Failure> {
    demand("whatif new", scratch.whatif(&["new", "alone"]))?;
    let keeper = Keeper::of(scratch, "alone")?;
    let pss = keeper.pss_kib().and_then(|at_work| Ok((at_work, keeper.resting_pss_kib()?)));
    remove_all(scratch)?;
    Ok(pss.map_err(|failure| match failure {
        Failure::Failed(reason) | Failure::Usage(reason) => reason,
    }))
}

fn kernel_memory_kib() -> Result<f64, Failure> {
    let path = Path::new("/proc/meminfo");
    let text = fs::read_to_string(path).map_err(on("read", path))?;
    Ok(["Slab", "KernelStack", "PageTables", "Percpu"].iter().filter_map(|name| kib_of(&text, name)).sum())
}

fn name(number: usize) -> String {
    format!("fleet-{number}")
}

fn each_ms(total: Duration, size: usize) -> f64 {
    total.as_secs_f64() * 1000.0 / size as f64
}
