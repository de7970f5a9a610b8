//! Compares the embedded server with a real kube-apiserver 1.36, request by request.
//!
//! `make test-differential` starts a real control plane, sends the requests of all sources to both
//! servers, and prints how many answers are equal, how many differ in ways that
//! `docs/embedded-api-server.md` allows, and every other difference. `RECORD=1` writes the real
//! answers to `recorded.zst`, which this program's test replays on the embedded server.

mod differences;
mod exchange;
mod live;
mod normalize;
mod own;
mod proxy;
mod recording;
mod replay;
mod report;
mod rules;
mod runner;
mod sources;
mod values;
