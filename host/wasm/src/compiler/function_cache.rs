//! Reuses compiled functions of earlier builds, for the builds of one author.
//!
//! A save changes few functions of a component; those of an interpreter or of a language's runtime
//! stay. The compiler looks up each function by its whole input and reuses the earlier code.
//!
//! Beyond a limit, the least recently used functions are forgotten. The functions of all components
//! are in one cache, so this is for development sessions only, never for the code of tenants.

use std::{borrow::Cow, sync::Arc};

use lru::LruCache;
use parking_lot::Mutex;
use wasmtime::CacheStore;

/// The bytes that functions take at most. Those of a component take about as many as its code, and
/// a large controller-runtime program has 140 MB of it.
const MAX_BYTES: usize = 256 << 20;
/// Roughly the bytes that an entry takes besides its key and its code.
const OVERHEAD: usize = 128;

/// Compiled functions by the compiler's key. The key covers everything their code depends on.
pub(crate) struct FunctionCache {
    functions: Mutex<Functions>,
    max_bytes: usize,
}

struct Functions {
    by_key: LruCache<Box<[u8]>, Arc<[u8]>>,
    bytes: usize,
}

impl Default for FunctionCache {
    fn default() -> Self {
        Self::with_limit(MAX_BYTES)
    }
}

impl FunctionCache {
    fn with_limit(max_bytes: usize) -> Self {
        let functions = Functions {
            by_key: LruCache::unbounded(),
            bytes: 0,
        };

        Self {
            functions: Mutex::new(functions),
            max_bytes,
        }
    }
}

impl Functions {
    fn put(&mut self, key: &[u8], code: Vec<u8>) {
        self.bytes += footprint(key, &code);
        if let Some((key, replaced)) = self.by_key.push(key.into(), code.into()) {
            self.bytes -= footprint(&key, &replaced);
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((key, code)) = self.by_key.pop_lru() {
            self.bytes -= footprint(&key, &code);
        }
    }
}

fn footprint(key: &[u8], code: &[u8]) -> usize {
    key.len() + code.len() + OVERHEAD
}

impl CacheStore for FunctionCache {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let found = self.functions.lock().by_key.get(key).cloned();
        // Copied without the lock, because several threads compile.
        found.map(|code| Cow::Owned(code.to_vec()))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let mut functions = self.functions.lock();
        functions.put(key, value);
        while functions.bytes > self.max_bytes {
            functions.forget_oldest();
        }

        true
    }
}

impl std::fmt::Debug for FunctionCache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let functions = self.functions.lock();
        formatter
            .debug_struct("FunctionCache")
            .field("functions", &functions.by_key.len())
            .field("bytes", &functions.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(cache: &FunctionCache) -> usize {
        cache.functions.lock().bytes
    }

    #[test]
    fn least_recently_used_functions_are_forgotten_over_the_limit() {
        const LIMIT: usize = 100_000;
        let cache = FunctionCache::with_limit(LIMIT);
        let key = |number: u64| number.to_le_bytes();
        for number in 0..1_000 {
            cache.insert(&key(number), vec![1; 1_000]);
            // The first one is used in each build.
            assert!(cache.get(&key(0)).is_some(), "{number}");
            assert!(bytes(&cache) <= LIMIT);
        }

        assert_eq!(cache.get(&key(1)), None);
        assert_eq!(cache.get(&key(999)).as_deref(), Some(&[1; 1_000][..]));
        assert!(bytes(&cache) > LIMIT / 2);
    }

    #[test]
    fn function_that_is_compiled_again_is_counted_once() {
        let cache = FunctionCache::default();
        cache.insert(b"key", vec![1; 1_000]);
        let once = bytes(&cache);
        cache.insert(b"key", vec![2; 1_000]);
        assert_eq!(bytes(&cache), once);
        assert_eq!(cache.get(b"key").as_deref(), Some(&[2; 1_000][..]));
    }
}
