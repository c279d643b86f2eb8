//! The fuzzer of every target; the variable `FUZZ_TARGET` says which one.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use semel_fuzz::{Target, target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    #[expect(clippy::disallowed_methods, reason = "the fuzzer's own arguments leave no place")]
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    target(&name).expect("FUZZ_TARGET is the name of a target")
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
