//! Events: client-go's aggregation, and a recorder that writes them in the background.

pub mod correlator;
pub mod recorder;
