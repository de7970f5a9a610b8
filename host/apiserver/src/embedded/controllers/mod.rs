//! Controllers, as kube-controller-manager, kube-scheduler and a kubelet have them.
//!
//! They are functions of what the store has, and are polled by [`EmbeddedServer::run`](super::EmbeddedServer::run): they
//! have no threads and no clocks of their own. Each writes through the API as its own user, so that rights, admission,
//! managed fields and watches are those of a cluster. Which ones run is an option ([`Controllers`]).
//!
//! A change of an object passes these files: `world` (the objects and the references between them), `control_loop` (the
//! queue), a controller, and `client` (its requests).

mod accounts;
mod client;
mod control_loop;
mod garbage;
mod namespaces;
mod object;
mod quotas;
mod roles;
mod selection;
mod world;

pub use self::selection::{ControllerName, Controllers};
use self::{
    client::Client,
    control_loop::{Controller, Member},
    world::World,
};
use super::shared::Shared;
use crate::{
    authz::user::{AUTHENTICATED, SERVICE_ACCOUNTS, User},
    http::ApiServer,
};

/// The manager of the fields that controllers write.
const MANAGER: &str = "kube-controller-manager";

/// Runs controllers. Never ends.
pub(super) async fn run(shared: &Shared, api: &ApiServer, controllers: &Controllers) {
    let members = controllers.enabled.iter().filter_map(|name| member(*name, shared, api, controllers));
    let members: Vec<Member> = members.collect();
    if members.is_empty() {
        return std::future::pending().await;
    }
    let world = World::new(shared.store.clone(), shared.resources.clone());
    control_loop::run(members, world, shared.environment.clone()).await;
}

/// Returns a controller with its user.
fn member(name: ControllerName, shared: &Shared, api: &ApiServer, controllers: &Controllers) -> Option<Member> {
    use ControllerName as Name;
    let objects = || std::sync::Arc::clone(&shared.objects);
    let (account, controller): (_, Box<dyn Controller>) = match name {
        Name::GarbageCollector => ("generic-garbage-collector", Box::new(garbage::GarbageCollector)),
        Name::Namespaces => ("namespace-controller", Box::new(namespaces::Namespaces)),
        Name::ServiceAccounts => ("service-account-controller", Box::new(accounts::ServiceAccounts)),
        Name::RootCertificate => {
            let certificate = controllers.root_certificate.clone()?;
            ("root-ca-cert-publisher", Box::new(accounts::RootCertificate(certificate)))
        }
        Name::RoleAggregation => ("clusterrole-aggregation-controller", Box::new(roles::RoleAggregation(objects()))),
        Name::ResourceQuotas => ("resourcequota-controller", Box::new(quotas::ResourceQuotas(objects()))),
        _ => return None,
    };
    let user = account_user(account);
    Some(Member { name: account, client: Client::new(api, user, MANAGER, account), controller })
}

/// Returns the user of a controller: a ServiceAccount, as with `--use-service-account-credentials`.
fn account_user(account: &str) -> User {
    let namespace_group = format!("{SERVICE_ACCOUNTS}:kube-system");
    let name = format!("system:serviceaccount:kube-system:{account}");
    User::new(&name, &[SERVICE_ACCOUNTS, &namespace_group, AUTHENTICATED])
}
