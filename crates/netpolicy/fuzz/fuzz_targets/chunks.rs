#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_netpolicy::chunks::{ChunkSkimmer, Skimmed};

fuzz_target!(|bytes: &[u8]| {
    let whole = ChunkSkimmer::new().push(bytes);
    let (front, back) = bytes.split_at(bytes.len() / 2);
    let mut skimmer = ChunkSkimmer::new();
    let in_two = match skimmer.push(front) {
        Ok(Skimmed::All) => skimmer.push(back).map(|skimmed| match skimmed {
            Skimmed::All => Skimmed::All,
            Skimmed::End { consumed } => Skimmed::End { consumed: front.len() + consumed },
        }),
        decided => decided,
    };
    assert_eq!(in_two, whole);
});
