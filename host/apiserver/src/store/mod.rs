//! The store: objects under one global revision, with earlier versions and a watch.
