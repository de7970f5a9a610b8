//! Events: client-go's aggregation, and the recorder that writes them in the background.

pub mod correlator;
pub mod recorder;
