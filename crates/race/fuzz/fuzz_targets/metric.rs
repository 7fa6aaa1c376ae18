#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_race::metric::{self, Extractor};

// The first line is the metric, the rest is the output.
fuzz_target!(|bytes: &[u8]| {
    let (first, output) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0));
    let Ok(text) = std::str::from_utf8(first) else { return };
    let Ok(plan) = metric::parse(text) else { return };
    let found = |chunks: &[&[u8]]| {
        let mut extractor = Extractor::new(&plan).expect("it was parsed");
        chunks.iter().for_each(|chunk| extractor.feed(chunk));
        extractor.finish()
    };
    let (front, back) = output.split_at(output.len() / 2);
    let whole = found(&[output]);
    assert!(whole.is_none_or(f64::is_finite));
    assert_eq!(found(&[front, back]), whole);
});
