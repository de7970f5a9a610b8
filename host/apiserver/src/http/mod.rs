//! The HTTP API: paths, verbs, tables, watches, discovery and OpenAPI.
