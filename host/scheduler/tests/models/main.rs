//! The scheduler against a naive model and under stress, on random histories. A failing run prints
//! its seed; `OPERETTA_SEED` repeats it.

mod state;
mod stress;
