#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tickwheel_fuzz::run("futures", data));
