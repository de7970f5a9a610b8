//! A hash of everything compiled code depends on. It is part of the cache key, and makes a worker
//! of another version refuse to compile.
//!
//! Wasmtime has such a hash, `Engine::precompile_compatibility_hash`, but only together with its
//! compiler, and a host has none. This one is the same in a host and in its worker. It is not the
//! only check: when wasmtime maps code, it compares settings and processor features with its own.

use sha2::{Digest, Sha256};

use crate::hex;

/// Change this with each change to the input or the settings of the compiler (`compiler/bulk.rs`,
/// `engine.rs`), so that all code is compiled again.
const FORM: &str = "bulk memory in pieces of 64 KiB";

pub(crate) fn compatibility(optimize: bool) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update(part);
        hash.update("\n");
    };

    add(env!("CARGO_PKG_VERSION"));
    add(wasmtime_environ::VERSION);
    add(FORM);
    add(if optimize { "optimized" } else { "unoptimized" });
    add(std::env::consts::ARCH);
    for feature in processor_features() {
        add(feature);
    }

    hex(&hash.finalize())
}

/// The features of this processor used by wasmtime's compiler:
/// <https://github.com/bytecodealliance/wasmtime/blob/release-48.0.0/cranelift/native/src/lib.rs>.
#[cfg(target_arch = "x86_64")]
fn processor_features() -> impl Iterator<Item = &'static str> {
    use std::arch::is_x86_feature_detected as has;

    let features = [
        ("sse3", has!("sse3")),
        ("ssse3", has!("ssse3")),
        ("sse4.1", has!("sse4.1")),
        ("sse4.2", has!("sse4.2")),
        ("popcnt", has!("popcnt")),
        ("cmpxchg16b", has!("cmpxchg16b")),
        ("avx", has!("avx")),
        ("avx2", has!("avx2")),
        ("avxvnni", has!("avxvnni")),
        ("fma", has!("fma")),
        ("bmi1", has!("bmi1")),
        ("bmi2", has!("bmi2")),
        ("lzcnt", has!("lzcnt")),
        ("avx512bitalg", has!("avx512bitalg")),
        ("avx512dq", has!("avx512dq")),
        ("avx512f", has!("avx512f")),
        ("avx512vl", has!("avx512vl")),
        ("avx512vbmi", has!("avx512vbmi")),
        ("avx512vnni", has!("avx512vnni")),
    ];
    features
        .into_iter()
        .filter_map(|(name, present)| present.then_some(name))
}

#[cfg(target_arch = "aarch64")]
fn processor_features() -> impl Iterator<Item = &'static str> {
    use std::arch::is_aarch64_feature_detected as has;

    let features = [
        ("lse", has!("lse")),
        ("paca", has!("paca")),
        ("fp16", has!("fp16")),
        ("dotprod", has!("dotprod")),
        ("i8mm", has!("i8mm")),
    ];
    features
        .into_iter()
        .filter_map(|(name, present)| present.then_some(name))
}

/// Nothing is released for other architectures.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn processor_features() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

#[cfg(all(test, feature = "compiler"))]
mod tests {
    use std::hash::{DefaultHasher, Hash, Hasher};

    use super::*;
    use crate::{Allocation, Engine, EngineConfig};

    #[test]
    fn engines_of_equal_compatibility_are_equal_for_wasmtime_too() {
        let both = |allocation, optimize| {
            let config = EngineConfig {
                allocation,
                optimize,
                concurrent_calls: 4,
                ..EngineConfig::default()
            };
            let engine = Engine::new(&config).expect("an engine");
            let mut hasher = DefaultHasher::new();
            engine
                .wasmtime()
                .precompile_compatibility_hash()
                .hash(&mut hasher);
            (compatibility(optimize), hasher.finish())
        };

        let pooled = both(Allocation::Pooling, true);
        assert_eq!(pooled, both(Allocation::OnDemand, true));

        let unoptimized = both(Allocation::Pooling, false);
        assert_ne!(pooled.0, unoptimized.0);
        assert_ne!(pooled.1, unoptimized.1);
    }
}
