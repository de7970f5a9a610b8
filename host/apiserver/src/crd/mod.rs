//! CustomResourceDefinitions: structural schemas, pruning, defaulting, validation and CEL rules.
