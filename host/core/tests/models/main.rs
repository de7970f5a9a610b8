//! The queue and the replicas against naive models, on random histories. A failing run prints its
//! seed; `OPERETTA_SEED` repeats it.

mod queue;
mod queue_state;
mod replicas;
