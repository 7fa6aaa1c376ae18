//! A merge that needs a decision.

use crate::text::lines;

/// A merge in which both sides changed the same place in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicted {
    /// The places to decide, in order; never empty.
    pub regions: Vec<Region>,
    /// What is settled before each region, and after the last.
    pub(crate) settled: Vec<Vec<u8>>,
    /// For each region, whether the lines around it end in CRLF.
    pub(crate) crlf: Vec<bool>,
}

/// One place to decide, as whole lines of each version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    pub base: Vec<u8>,
    pub ours: Vec<u8>,
    pub theirs: Vec<u8>,
    /// The line of our version at which the region starts, counted from 1.
    pub ours_start: usize,
}

impl Conflicted {
    /// The merged text with both sides of each region between conflict markers. Lines that both sides start or end a region
    /// with are kept out of the markers.
    pub fn marked(&self, ours_label: &str, theirs_label: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for ((settled, region), crlf) in self.settled.iter().zip(&self.regions).zip(&self.crlf) {
            out.extend_from_slice(settled);
            region.mark(&mut out, if *crlf { b"\r\n" } else { b"\n" }, ours_label, theirs_label);
        }
        out.extend_from_slice(self.settled.last().map_or(&[], Vec::as_slice));
        out
    }
}

impl Region {
    fn mark(&self, out: &mut Vec<u8>, newline: &[u8], ours_label: &str, theirs_label: &str) {
        let (ours, theirs) = (lines(&self.ours), lines(&self.theirs));
        let head = ours.iter().zip(&theirs).take_while(|(ours, theirs)| ours == theirs).count();
        let (rest, their_rest) = (&ours[head..], &theirs[head..]);
        let tail = rest.iter().rev().zip(their_rest.iter().rev()).take_while(|(ours, theirs)| ours == theirs).count();

        out.extend(ours[..head].concat());
        marker(out, b'<', ours_label, newline);
        side(out, &rest[..rest.len() - tail], newline);
        marker(out, b'=', "", newline);
        side(out, &their_rest[..their_rest.len() - tail], newline);
        marker(out, b'>', theirs_label, newline);
        out.extend(rest[rest.len() - tail..].concat());
    }
}

fn marker(out: &mut Vec<u8>, sign: u8, label: &str, newline: &[u8]) {
    out.extend_from_slice(&[sign; 7]);
    if !label.is_empty() {
        out.push(b' ');
        out.extend_from_slice(label.as_bytes());
    }
    out.extend_from_slice(newline);
}

/// One side, ended by a newline: the marker that follows needs a line of its own.
fn side(out: &mut Vec<u8>, lines: &[&[u8]], newline: &[u8]) {
    out.extend(lines.concat());
    if lines.last().is_some_and(|line| !line.ends_with(b"\n")) {
        out.extend_from_slice(newline);
    }
}
