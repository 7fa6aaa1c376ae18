#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_race::file::File;
use whatif_types::Explain;
use whatif_types::text::Text;

fuzz_target!(|text: &str| {
    let lines = text.lines().count() + 1;
    match File::parse(text).and_then(|file| file.into_plan(&mut |path| Ok(Text::from(path)))) {
        Ok(plan) => assert!(plan.attempts.iter().all(|attempt| whatif_types::name::validate(&attempt.name).is_ok())),
        Err(error) => assert!(error.line.is_none_or(|line| line <= lines) && !error.code().is_empty()),
    }
});
