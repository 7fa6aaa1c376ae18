#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_netpolicy::Rule;

fuzz_target!(|text: &str| {
    if let Ok(rule) = text.parse::<Rule>() {
        assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
    }
});
