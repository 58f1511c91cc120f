#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| carillon_fuzz::run(bytes));
