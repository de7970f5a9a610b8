//! The permissions of one plugin: records those needed by its calls, adds the granting command to
//! denials, and asks the API server's authorizer which ones its ServiceAccount has.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use operetta_core::{
    authz::{
        access_review::remedy,
        recorded_permissions::{Names, Need},
    },
    status::{ApiError, ErrorKind},
};

use crate::{
    authz::{
        access_review::{Subject, SubjectAccessReviews},
        impersonation_refusal::grant_command,
        required_permissions::{Needed, Needs, RequiredPermission},
    },
    client::object_api::{PluginApi, Refusal},
};

/// How many reviews run at once.
const AT_ONCE: usize = 8;

impl PluginApi {
    /// Records the permission needed by a call.
    pub(crate) fn note(&self, (need, name): &RequiredPermission) {
        if let Some(recorded) = &self.recorded {
            recorded.note(need, name.as_deref());
        }
    }

    /// Records that an update or a patch was answered with 201: it created the object, and that
    /// needs `create`.
    pub(crate) fn note_created(&self, (need, _): &RequiredPermission) {
        if !need.resource.contains('/') {
            self.note(&(
                Need {
                    verb: "create".to_owned(),
                    ..need.clone()
                },
                None,
            ));
        }
    }

    /// Records a denial by RBAC, with the command to grant the permission. Admission also answers
    /// with Forbidden, but no permission helps there.
    pub(crate) fn note_refusal(&self, (need, name): &RequiredPermission, error: &ApiError) {
        let Some(grants) = self
            .grants
            .as_ref()
            .filter(|_| error.kind == ErrorKind::Forbidden)
        else {
            return;
        };

        let refused = |verb: &str| {
            error
                .status
                .message
                .contains(&format!("\" cannot {verb} resource \""))
        };

        let verb = if refused(&need.verb) {
            need.verb.as_str()
        } else if ["update", "patch"].contains(&need.verb.as_str()) && refused("create") {
            // The request would have created the object.
            self.note_created(&(need.clone(), None));
            "create"
        } else {
            return;
        };

        let name = name.as_deref().filter(|_| verb == need.verb);
        self.refused.add(
            &Need {
                verb: verb.to_owned(),
                ..need.clone()
            },
            name,
        );

        let group_resource = (need.group.as_str(), need.resource.as_str());
        let mut remedy = remedy(
            grants.subject(),
            verb,
            group_resource,
            need.namespace.as_deref(),
        );
        let grant = grant_command(grants.subject());
        let is_of_host = grant
            .as_ref()
            .is_some_and(|grant| error.status.message.ends_with(&grant.to_string()));

        if is_of_host {
            // The host can only use the permissions the ServiceAccount had when the host was given
            // access to it.
            remedy = remedy.and_then(|remedy| remedy.then(grant));
        }

        let refusal = Refusal {
            message: error.status.message.clone(),
            remedy,
        };
        *self.refusal.lock() = Some(refusal);
    }

    /// The permissions the plugin needs for its calls so far and for `watched`, each with its
    /// current decision by `reviews`. Returns None for the host itself.
    ///
    /// # Errors
    /// The API server's error, if it cannot be asked.
    pub async fn needs(
        &self,
        reviews: &SubjectAccessReviews,
        watched: Vec<RequiredPermission>,
    ) -> Result<Option<Needs>, ApiError> {
        let Some(grants) = &self.grants else {
            return Ok(None);
        };
        let Some(recorded) = &self.recorded else {
            return Ok(None);
        };

        let (kept, since) = recorded.kept();
        let called = !kept.needs.is_empty();
        let mut all = kept.needs;

        for (need, name) in watched {
            let names = name.map_or(Names::Any, |name| Names::Only(BTreeSet::from([name])));
            all.entry(need)
                .and_modify(|known| *known = Names::Any)
                .or_insert(names);
        }

        let asking = Asking {
            reviews,
            subject: &grants.subject().into(),
            api: self,
        };

        // Review a permission in all namespaces once instead of per namespace.
        let wide: BTreeSet<Need> = all.keys().map(everywhere).collect();
        let wide = stream::iter(wide).map(async |need| {
            let has = reviews.has(asking.subject, &need, None).await?;
            Ok::<_, ApiError>((need, has))
        });
        let wide: BTreeMap<Need, bool> = wide.buffer_unordered(AT_ONCE).try_collect().await?;

        let answers = stream::iter(all).map(async |(need, names)| {
            if wide.get(&everywhere(&need)) == Some(&true) {
                return Ok(vec![Needed {
                    need,
                    name: None,
                    allowed: true,
                    partial: false,
                }]);
            }
            asking.narrower(need, names).await
        });

        let needed: Vec<Vec<Needed>> = answers.buffered(AT_ONCE).try_collect().await?;
        Ok(Some(Needs {
            needed: needed.concat(),
            missed: kept.missed,
            called,
            since,
        }))
    }
}

fn everywhere(need: &Need) -> Need {
    Need {
        cached: false,
        ..need.within(None)
    }
}

struct Asking<'a> {
    reviews: &'a SubjectAccessReviews,
    subject: &'a Subject,
    api: &'a PluginApi,
}

impl Asking<'_> {
    async fn has(&self, need: &Need, name: Option<&str>) -> Result<bool, ApiError> {
        self.reviews.has(self.subject, need, name).await
    }

    /// Splits a permission not granted in full into separately reviewed parts: in its namespace,
    /// for its names, or in some namespaces.
    async fn narrower(&self, need: Need, names: Names) -> Result<Vec<Needed>, ApiError> {
        let in_full = |allowed: bool| Needed {
            need: need.clone(),
            name: None,
            allowed,
            partial: false,
        };

        if need.namespace.is_some() && self.has(&need, None).await? {
            return Ok(vec![in_full(true)]);
        }

        if let Names::Only(names) = names {
            let mut named = Vec::new();
            for name in names {
                let allowed = self.has(&need, Some(&name)).await?;
                named.push(Needed {
                    need: need.clone(),
                    name: Some(name),
                    allowed,
                    partial: false,
                });
            }

            if named.iter().any(|needed| needed.allowed) {
                return Ok(named);
            }
        }

        if need.cached {
            let mut parts = Vec::new();
            for namespace in self.namespaces(&need) {
                let need = everywhere(&need).within(Some(&namespace));
                if self.has(&need, None).await? {
                    parts.push(Needed {
                        need,
                        name: None,
                        allowed: true,
                        partial: true,
                    });
                }
            }

            if !parts.is_empty() {
                return Ok(parts);
            }
        }

        Ok(vec![in_full(false)])
    }

    /// The namespaces of cached objects.
    fn namespaces(&self, need: &Need) -> BTreeSet<String> {
        let informers = self.api.registry.running().into_iter();
        let of_need = informers.filter(|informer| {
            informer.resource.plural == need.resource
                && informer.resource.kind.group() == need.group
        });
        of_need
            .flat_map(|informer| informer.cache.namespaces())
            .collect()
    }
}
