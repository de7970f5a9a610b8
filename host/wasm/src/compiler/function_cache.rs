//! Reuses compiled functions of earlier builds, for the builds of one author.
//!
//! A save changes few functions of a component; those of an interpreter or of a language's runtime
//! stay. The compiler looks up each function by its whole input and reuses the earlier code.
//! Nothing is evicted, so this is for development sessions only, never for the code of tenants.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use wasmtime::CacheStore;

/// Compiled functions by the compiler's key. The key covers everything their code depends on.
#[derive(Default)]
pub(crate) struct FunctionCache {
    functions: RwLock<HashMap<Vec<u8>, Arc<[u8]>>>,
}

impl CacheStore for FunctionCache {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.functions
            .read()
            .get(key)
            .map(|code| Cow::Owned(code.to_vec()))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        self.functions.write().insert(key.to_vec(), value.into());
        true
    }
}

impl std::fmt::Debug for FunctionCache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FunctionCache")
            .field("functions", &self.functions.read().len())
            .finish()
    }
}
