#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_race::counts::junit;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(counts) = junit::count(bytes) {
        // Nothing is counted that is not written.
        let all = counts.passed + counts.failed + counts.skipped;
        assert!(all as usize <= bytes.len() && counts.failures.len() <= 10);
    }
});
