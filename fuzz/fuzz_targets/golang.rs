#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| operetta_fuzz::golang(data));
