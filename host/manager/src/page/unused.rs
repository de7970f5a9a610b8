//! Permissions that a plugin's ServiceAccount has and the plugin hasn't used, as in `operetta rbac
//! --diff`. Only for users who may list Roles and bindings, which are read with the user's token.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
};
use k8s_openapi::List;
use operetta_api::reasons;
use operetta_core::{
    authz::access_review::ServiceAccount,
    object::ObjectKey,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    authz::{
        difference::{Difference, unused},
        granted_roles::Bindings,
    },
    client::user_api::Read,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    failure::{Failure, no_plugin},
    session::Session,
    state::Page,
};
use crate::{
    admin::access::Required,
    authz::permissions::{self, PermissionsError},
};

/// The longest list of roles or bindings, in bytes.
const MAX_LIST: usize = 16 << 20;

/// The unused permissions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unused {
    /// When the recording of the plugin's calls started; RFC 3339.
    since: String,
    /// One line per permission, with the role and the binding that grant it.
    unused: Vec<String>,
}

/// Serves `/page/api/plugins/NAMESPACE/NAME/unused`.
pub(super) async fn api(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Unused>, Failure> {
    session
        .check(
            &page,
            Some(&Required::plugin_resource(
                "get", "plugins", &namespace, &name,
            )),
        )
        .await?;

    let plugin = ObjectKey::namespaced(namespace, name);
    let needed =
        permissions::list(&page.manager.context, &page.manager.hosted_plugins, &plugin).await;
    let needed = needed.map_err(|error| match error {
        PermissionsError::Unknown => no_plugin(&plugin),
        PermissionsError::NotRunning => {
            let message = format!(
                "Plugin {plugin} does not run, which clears its recorded calls: see its conditions"
            );
            Failure::new(StatusCode::CONFLICT, reasons::NOTHING_RECORDED, message)
        }
        PermissionsError::Unavailable(error) => error.into(),
    })?;
    let account = ServiceAccount {
        namespace: needed.namespace.clone(),
        name: needed.service_account.clone(),
    };
    let granted = bindings(&page, &session).await?.granted_to(&account);

    let unused = unused(&needed.needs, &granted)
        .into_iter()
        .filter_map(|difference| match difference {
            Difference::Unused(text) => Some(text),
            Difference::Lacks(_) => None,
        });

    Ok(Json(Unused {
        since: needed.since,
        unused: unused.collect(),
    }))
}

async fn bindings(page: &Page, session: &Session) -> Result<Bindings, Failure> {
    let _seat = page.lists.begin(&session.user).await;
    Ok(Bindings {
        roles: list(session, "roles").await?,
        cluster_roles: list(session, "clusterroles").await?,
        bindings: list(session, "rolebindings").await?,
        cluster_bindings: list(session, "clusterrolebindings").await?,
    })
}

async fn list<K: k8s_openapi::ListableResource + DeserializeOwned>(
    session: &Session,
    plural: &str,
) -> Result<Vec<K>, Failure> {
    let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
    let text = session
        .api
        .read(
            Read {
                path: &path,
                parameters: &[],
                accept: "application/json",
            },
            MAX_LIST,
        )
        .await?;
    let list: List<K> = serde_json::from_str(&text).map_err(|error| {
        ApiError::new(
            ErrorKind::Other,
            format!("failed to decode {path}: {error}"),
        )
    })?;
    Ok(list.items)
}
