//! Server-side apply: managed fields, merges and conflicts.
