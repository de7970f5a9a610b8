//! The results of a reconcile, and the finalizer.

use std::time::Duration;

use operetta_sdk::{Action, Error, Object};

use crate::Case;
use crate::reads::append_run;

const FINALIZER: &str = "conformance.operetta.dev/cleanup";

pub(crate) fn run(case: &Case<'_>) -> Result<Action, Error> {
    if case.argument("result").is_some() {
        return Ok(Action::done());
    }
    let runs = append_run(case)?;
    match case.map.name() {
        "result-done" => Ok(Action::done()),
        "result-requeue" if runs < 3 => Ok(Action::requeue()),
        "result-requeue-after" if runs < 2 => Ok(Action::requeue_after(Duration::from_millis(300))),
        "result-error" if runs < 3 => Err(Error::msg("no luck yet")),
        "result-terminal" => Err(Error::terminal("no use to retry")),
        "result-panic" if runs < 2 => sing(),
        _ => Ok(Action::done()),
    }
}

#[inline(never)]
fn sing() -> Result<Action, Error> {
    panic!("boom at the opera");
}

pub(crate) fn finalizer(case: &Case<'_>) -> Result<Action, Error> {
    let apply = |_| Ok(Action::done());
    let cleanup = |_: &_| match case.ctx.create(&case.config_map("finalizer-cleaned", &[])) {
        Err(error) if !error.is_already_exists() => Err(error.into()),
        _ => Ok(Action::done()),
    };
    operetta_sdk::finalizer(case.ctx, case.map.clone(), FINALIZER, apply, cleanup)
}
