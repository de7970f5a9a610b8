//! Whoever changes bindings all day has nobody else's permissions asked for again.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use operetta_core::{
    authz::access_review::{Access, AccessReviewer, Grants, ServiceAccount},
    object::kind::GroupVersionKind,
    status::ApiError,
};
use operetta_kube::{
    authz::{
        access_review::SubjectAccessReviews, filtered_view::FilteredView,
        permission_watch::PermissionWatch,
    },
    client::api_client::{ApiClient, Identity},
    discovery::Discovery,
    informer::{Scope, registry::InformerRegistry},
};
use operetta_testkit::{ControlPlane, Kind, TestNamespace, eventually, in_effect_after, kinds};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::IN_EFFECT;

const BINDING: Kind = Kind("rbac.authorization.k8s.io/v1", "RoleBinding");
/// Bindings that are created and deleted.
const CHURN: usize = 60;

/// Counts the questions about each subject.
struct Counting {
    reviews: SubjectAccessReviews,
    asked: Mutex<HashMap<String, usize>>,
}

impl Counting {
    fn of(&self, account: &str) -> usize {
        self.asked.lock().get(account).copied().unwrap_or_default()
    }
}

#[async_trait]
impl AccessReviewer for Counting {
    async fn review(&self, subject: &ServiceAccount, access: &Access) -> Result<bool, ApiError> {
        *self.asked.lock().entry(subject.name.clone()).or_default() += 1;
        self.reviews.review(subject, access).await
    }
}

/// A namespace with a ConfigMap, and a Role that reads it.
async fn location(prefix: &str) -> TestNamespace<'static> {
    let namespace = ControlPlane::shared().await.namespace(prefix).await;
    namespace
        .create_object(kinds::CONFIG_MAP, json!({"metadata": {"name": "one"}}))
        .await;
    namespace.kubectl(&[
        "create",
        "role",
        "reads",
        "--verb=list,watch",
        "--resource=configmaps",
    ]);
    namespace
}

/// Creates a binding to the Role.
async fn bind(namespace: &TestNamespace<'_>, name: &str, subject: Value) {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"});
    let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]});
    namespace.create_object(BINDING, binding).await;
}

/// Creates and deletes bindings of a subject. Returns how long that took.
async fn churn(namespace: &TestNamespace<'_>, subject: Value) -> Duration {
    let began = Instant::now();
    for at in 0..CHURN {
        bind(namespace, &format!("churn-{at}"), subject.clone()).await;
        namespace.delete(BINDING, &format!("churn-{at}")).await;
    }
    // What they lead to is asked soon.
    tokio::time::sleep(Duration::from_secs(1)).await;
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn role_binding_churn_asks_nothing_about_others() {
    let control_plane = ControlPlane::shared().await;
    let home = location("churn-home").await;
    let noisy = location("churn-noisy").await;
    let account =
        |name: &str| json!({"kind": "ServiceAccount", "namespace": home.name(), "name": name});
    bind(&home, "quiet", account("quiet")).await;

    let api_client =
        ApiClient::new(control_plane.client().await, &Identity::Host).expect("a client");
    let discovery = Discovery::new(api_client.clone());
    let registry = InformerRegistry::new(api_client.clone());
    let reviewer = Arc::new(Counting {
        reviews: SubjectAccessReviews::new(api_client),
        asked: Mutex::default(),
    });
    let grants = Grants::new(reviewer.clone());
    let _rights = PermissionWatch::start(&grants, &discovery, &registry)
        .await
        .expect("a watch");
    let resource = discovery
        .resolve(&GroupVersionKind::new("v1", "ConfigMap"))
        .await
        .expect("served");
    let informer = registry.informer(&resource, Scope::everything());
    informer.synced().await;
    let subject = ServiceAccount {
        namespace: home.name().to_owned(),
        name: "quiet".to_owned(),
    };
    let quiet = grants.of(subject);
    let view = FilteredView::open(&informer, quiet.clone(), None, Arc::new(|_| {}), None);
    let sees = async |namespace: &TestNamespace<'_>| {
        let state = view.state().borrow().clone();
        if state.visible.contains(namespace.name()) {
            Ok(())
        } else {
            Err(format!("{state:?}"))
        }
    };
    eventually("the account's namespace is visible", async || {
        sees(&home).await
    })
    .await;
    tokio::time::sleep((Grants::SETTLE + Grants::UNSETTLED * 2) * 2).await;

    let before = reviewer.of("quiet");
    let changes = quiet.changes();
    churn(
        &noisy,
        json!({"kind": "ServiceAccount", "namespace": noisy.name(), "name": "noisy"}),
    )
    .await;
    assert_eq!(
        reviewer.of("quiet") - before,
        0,
        "reviews for {} bindings of another",
        2 * CHURN
    );

    assert!(
        !changes.has_changed().expect("open"),
        "its watches were woken"
    );

    // Everybody is a subject of these.
    let before = reviewer.of("quiet");
    let group = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"});
    let took = churn(&noisy, group).await;
    let reviews = reviewer.of("quiet") - before;
    let looks = took.as_millis() / Grants::UNSETTLED.as_millis() + 10;
    println!("{reviews} reviews in {took:?}");
    // List and watch of the noisy namespace.
    assert!(
        reviews as u128 <= looks * 2,
        "{reviews} reviews in {took:?}"
    );

    bind(&noisy, "quiet", account("quiet")).await;
    in_effect_after(IN_EFFECT, "the other namespace is visible", async || {
        sees(&noisy).await
    })
    .await;
}
