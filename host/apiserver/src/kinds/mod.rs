//! The built-in kinds: their schemas, defaults, validation and strategic merge patches.
