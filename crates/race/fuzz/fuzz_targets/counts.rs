#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_race::counts::Counter;

fuzz_target!(|bytes: &[u8]| {
    let mut whole = Counter::new();
    whole.feed(bytes);
    let (front, back) = bytes.split_at(bytes.len() / 2);
    let mut in_two = Counter::new();
    in_two.feed(front);
    in_two.feed(back);
    let counts = whole.finish();
    assert_eq!(in_two.finish(), counts);
    if let Some(counts) = counts {
        assert!(!counts.format.is_empty() && counts.failures.len() <= 10);
        assert!(counts.failures.iter().all(|name| name.chars().count() <= 200 && !name.contains(char::is_control)));
    }
});
