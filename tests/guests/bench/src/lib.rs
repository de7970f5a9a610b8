//! The guest of the call benchmark: a reconcile that does nothing, and one that reads a Deployment,
//! changes its status and writes it back. The change has a file of its own because the native peer
//! compiles the same file.

mod change;

use operetta_sdk::k8s_openapi::api::apps::v1::Deployment;
use operetta_sdk::{Action, Context, Controller, Error, Plugin, Request};

operetta_sdk::plugin!(plugin);

/// Returns two controllers of Deployments: `noop` and `full`.
pub fn plugin() -> Plugin {
    let noop = Controller::new("noop", noop).for_::<Deployment>();
    let full = Controller::new("full", full);
    Plugin::new().controller(noop).controller(full)
}

fn noop(_: &Context, _: &Request) -> Result<Action, Error> {
    Ok(Action::done())
}

fn full(ctx: &Context, mut deployment: Deployment) -> Result<Action, Error> {
    change::change(&mut deployment);
    ctx.update_status(&deployment)?;
    Ok(Action::done())
}
