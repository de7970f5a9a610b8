//! The hosts of a trust class: the objects of `deploy/base` that a replica set has for itself, under
//! other names. What all hosts share, such as the CustomResourceDefinition, the roles and the
//! policies, belongs to the installation without a class.

use anyhow::{Result, bail};
use operetta_api::{Class, labels};
use serde_json::Value;

use super::manifests::{self, Choices};
use crate::args::Component;

/// The label that selects the Pods of a host.
const NAME: &str = "app.kubernetes.io/name";

/// The name in `deploy/`, of the objects and in the labels of Pods.
const HOST: &str = "operetta";

/// The condition of `deploy/components/unrestricted/epochs.yaml` that selects the epochs of hosts
/// without a class.
const WITHOUT_CLASS: &str = r#".filter(epoch, !epoch.contains("/"))"#;

/// The ClusterRole of all hosts without grants.
const UNRESTRICTED: &str = "operetta-unrestricted";

/// The objects that install the hosts of a class, in an order in which they can be created.
///
/// # Errors
/// Returns an error if a component is for all hosts, or a file of `deploy/` has an unknown form.
pub fn objects(class: &Class, choices: &Choices<'_>) -> Result<Vec<Value>> {
    if choices.components.contains(&Component::Monitoring) {
        bail!(
            "--with monitoring is for the installation without --class, whose ServiceMonitor selects the Services of all classes"
        );
    }

    let mut objects = Vec::new();
    for object in manifests::objects(choices)? {
        if let Some(own) = of_class(&object, class)? {
            objects.push(own);
        } else if object["kind"] == "ClusterRole" && object["metadata"]["name"] == UNRESTRICTED {
            // The hosts without a class may have grants, and so no such role.
            objects.push(object);
        }
    }
    objects.sort_by_key(manifests::rank);
    Ok(objects)
}

/// The objects that only the hosts of a class have, with all optional parts.
///
/// # Errors
/// Returns an error if a file of `deploy/` has an unknown form.
pub fn own_objects(class: &Class) -> Result<Vec<Value>> {
    let mut objects = objects(
        class,
        &Choices {
            components: &[Component::Unrestricted],
            ..Choices::default()
        },
    )?;
    objects.retain(|object| object["metadata"]["labels"][labels::CLASS] == class.as_str());
    Ok(objects)
}

/// Returns an object of an installation as the hosts of a class have it; None for one that they
/// share with all hosts.
fn of_class(object: &Value, class: &Class) -> Result<Option<Value>> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let renamed = format!("{HOST}-{class}");
    let mut object = object.clone();

    let new_name = match (kind, name) {
        (
            "ServiceAccount"
            | "RoleBinding"
            | "ClusterRoleBinding"
            | "ConfigMap"
            | "Service"
            | "Deployment"
            | "NetworkPolicy"
            | "PodDisruptionBudget",
            HOST,
        ) => renamed.clone(),
        ("ClusterRoleBinding", "operetta-endpoints") => format!("{renamed}-endpoints"),
        ("ClusterRoleBinding", "operetta-teardown") => format!("{renamed}-teardown"),
        ("ClusterRoleBinding", UNRESTRICTED) => format!("{renamed}-unrestricted"),
        ("NetworkPolicy", "operetta-egress") => format!("{renamed}-egress"),
        ("Role", "operetta-proxy") => {
            object["rules"][0]["resourceNames"] = vec![format!("https:{renamed}:https")].into();
            format!("{renamed}-proxy")
        }
        ("ValidatingAdmissionPolicy", "epochs.operetta.dev") => {
            of_epochs(&mut object, class)?;
            format!("{class}.{name}")
        }
        ("ValidatingAdmissionPolicyBinding", "epochs.operetta.dev") => {
            object["spec"]["policyName"] = format!("{class}.{name}").into();
            object["spec"]["paramRef"]["name"] = format!("{HOST}.{class}").into();
            format!("{class}.{name}")
        }
        _ => return Ok(None),
    };

    object["metadata"]["name"] = new_name.into();
    object["metadata"]["labels"][labels::CLASS] = class.as_str().into();
    if let Some(spec) = object.get_mut("spec") {
        select(spec, &renamed);
    }

    let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        if subject["name"] == HOST {
            subject["name"] = renamed.as_str().into();
        }
    }
    if let Some(text) = object["data"]["config.yaml"].as_str() {
        // In quotes, because a class may be called 7 or true.
        object["data"]["config.yaml"] = format!("class: \"{class}\"\n{text}").into();
    }
    if kind == "Deployment" {
        let template = &mut object["spec"]["template"];
        template["metadata"]["labels"][labels::CLASS] = class.as_str().into();
        template["spec"]["serviceAccountName"] = renamed.as_str().into();
        for volume in template["spec"]["volumes"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            if volume["configMap"]["name"] == HOST {
                volume["configMap"]["name"] = renamed.as_str().into();
            }
        }
    }
    Ok(Some(object))
}

/// Gives the labels and selectors of Pods below a value another name, so that no selector of the
/// hosts without a class matches a Pod of the class.
fn select(value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) => {
            if fields.get(NAME).is_some_and(|label| label == HOST) {
                fields.insert(NAME.to_owned(), name.into());
            }
            fields.values_mut().for_each(|value| select(value, name));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| select(value, name)),
        _ => {}
    }
}

/// Makes a policy for the epochs of hosts without a class one for `CLASS/EPOCH`.
///
/// # Errors
/// Returns an error if the policy has another form.
fn of_epochs(policy: &mut Value, class: &Class) -> Result<()> {
    let prefix = format!("{class}/");
    let with_class = format!(
        r#".filter(epoch, epoch.startsWith("{prefix}")).map(epoch, epoch.substring({}))"#,
        prefix.len()
    );

    let condition = &mut policy["spec"]["matchConditions"][0]["expression"];
    match condition.as_str() {
        Some(text) if text.contains(WITHOUT_CLASS) => {
            *condition = text.replace(WITHOUT_CLASS, &with_class).into();
            Ok(())
        }
        _ => bail!("deploy/components/unrestricted/epochs.yaml has no {WITHOUT_CLASS}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn class() -> Class {
        "untrusted".parse().expect("a class")
    }

    fn all(components: &[Component]) -> Vec<Value> {
        let choices = Choices {
            components,
            ..Choices::default()
        };
        objects(&class(), &choices).expect("objects")
    }

    fn names(objects: &[Value]) -> BTreeSet<String> {
        let name = |object: &Value| {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            format!(
                "{} {}",
                text(&object["kind"]),
                text(&object["metadata"]["name"])
            )
        };
        objects.iter().map(name).collect()
    }

    fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
        let found = objects
            .iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    #[test]
    fn hosts_of_a_class_share_no_name_with_others() {
        let components = [Component::Unrestricted];
        let others = manifests::objects(&Choices {
            components: &components,
            ..Choices::default()
        });
        let others = names(&others.expect("objects"));

        let own = names(&own_objects(&class()).expect("objects"));
        assert!(own.is_disjoint(&others), "{own:?}");
        assert_eq!(own.len(), 15, "{own:?}");

        let is_sound = |object: &Value| {
            !object["metadata"].is_null() && object.get("spec") != Some(&Value::Null)
        };
        assert!(all(&components).iter().all(is_sound));

        let installed = names(&all(&components));
        let shared: Vec<_> = installed.difference(&own).collect();
        assert_eq!(shared, ["ClusterRole operetta-unrestricted"]);
    }

    /// Reports whether an object binds the ServiceAccount of the hosts, or selects their Pods.
    fn is_about_hosts(object: &Value) -> bool {
        fn selects(value: &Value) -> bool {
            match value {
                Value::Object(fields) => {
                    fields.get(NAME).is_some_and(|label| label == HOST)
                        || fields.values().any(selects)
                }
                Value::Array(values) => values.iter().any(selects),
                _ => false,
            }
        }

        let subjects = object["subjects"].as_array().into_iter().flatten();
        let binds = subjects.into_iter().any(|subject| subject["name"] == HOST);
        binds || object.get("spec").is_some_and(selects)
    }

    #[test]
    fn hosts_of_a_class_lack_nothing_that_is_about_hosts() {
        let choices = Choices {
            components: &[Component::Unrestricted],
            ..Choices::default()
        };
        let objects = manifests::objects(&choices).expect("objects");
        let about_hosts: Vec<_> = objects.iter().filter(|one| is_about_hosts(one)).collect();
        assert_eq!(about_hosts.len(), 10, "{about_hosts:?}");

        for object in about_hosts {
            let own = of_class(object, &class()).expect("a known form");
            assert!(own.is_some(), "{} {}", object["kind"], object["metadata"]);
        }
    }

    #[test]
    fn no_selector_matches_pods_of_another_class() {
        let objects = all(&[]);
        let deployment = find(&objects, "Deployment", "operetta-untrusted");
        let pod = &deployment["spec"]["template"];
        assert_eq!(pod["metadata"]["labels"][NAME], "operetta-untrusted");
        assert_eq!(pod["metadata"]["labels"]["operetta.dev/class"], "untrusted");
        assert_eq!(pod["spec"]["serviceAccountName"], "operetta-untrusted");

        for selector in [
            &deployment["spec"]["selector"]["matchLabels"],
            &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
            &find(&objects, "Service", "operetta-untrusted")["spec"]["selector"],
            &find(&objects, "NetworkPolicy", "operetta-untrusted")["spec"]["podSelector"]["matchLabels"],
            &find(&objects, "NetworkPolicy", "operetta-untrusted-egress")["spec"]["podSelector"]["matchLabels"],
            &find(&objects, "PodDisruptionBudget", "operetta-untrusted")["spec"]["selector"]["matchLabels"],
        ] {
            assert_eq!(selector[NAME], "operetta-untrusted");
        }

        let volumes = pod["spec"]["volumes"].to_string();
        assert!(volumes.contains("operetta-untrusted"), "{volumes}");
        let config = find(&objects, "ConfigMap", "operetta-untrusted");
        let text = config["data"]["config.yaml"].as_str().expect("a text");
        let config: Value = serde_yaml_ng::from_str(text).expect("YAML");
        assert_eq!(config["class"], "untrusted");
        assert_eq!(config["cacheDir"], "/var/cache/operetta/compiled");
    }

    #[test]
    fn name_of_a_class_stays_a_text_in_the_configuration() {
        for name in ["7", "1e3", "true", "null", "0x1f"] {
            let class = name.parse().expect("a class");
            let objects = objects(&class, &Choices::default()).expect("objects");
            let config = find(&objects, "ConfigMap", &format!("operetta-{name}"));
            let text = config["data"]["config.yaml"].as_str().expect("a text");
            let config: Value = serde_yaml_ng::from_str(text).expect("YAML");
            assert_eq!(config["class"], name);
        }
    }

    #[test]
    fn hosts_of_a_class_have_a_service_account_of_their_own_and_the_same_roles() {
        let objects = all(&[Component::Unrestricted]);
        for (kind, name, role) in [
            ("ClusterRoleBinding", "operetta-untrusted", "operetta"),
            (
                "ClusterRoleBinding",
                "operetta-untrusted-endpoints",
                "operetta-endpoints",
            ),
            (
                "ClusterRoleBinding",
                "operetta-untrusted-unrestricted",
                UNRESTRICTED,
            ),
            (
                "ClusterRoleBinding",
                "operetta-untrusted-teardown",
                "operetta-teardown",
            ),
            ("RoleBinding", "operetta-untrusted", "operetta"),
        ] {
            let binding = find(&objects, kind, name);
            assert_eq!(binding["roleRef"]["name"], role, "{name}");
            assert_eq!(
                binding["subjects"][0]["name"], "operetta-untrusted",
                "{name}"
            );
        }

        let proxy = find(&objects, "Role", "operetta-untrusted-proxy");
        assert_eq!(
            proxy["rules"][0]["resourceNames"][0],
            "https:operetta-untrusted:https"
        );
    }

    #[test]
    fn epochs_of_a_class_are_compared_with_its_own_lease() {
        let objects = all(&[Component::Unrestricted]);
        let policy = find(
            &objects,
            "ValidatingAdmissionPolicy",
            "untrusted.epochs.operetta.dev",
        );
        let condition = policy["spec"]["matchConditions"][0]["expression"].to_string();
        assert!(
            condition.contains(r#"startsWith(\"untrusted/\")).map(epoch, epoch.substring(10))"#)
                && !condition.contains("!epoch.contains"),
            "{condition}"
        );

        let binding = find(
            &objects,
            "ValidatingAdmissionPolicyBinding",
            "untrusted.epochs.operetta.dev",
        );
        assert_eq!(
            binding["spec"]["policyName"],
            "untrusted.epochs.operetta.dev"
        );
        assert_eq!(binding["spec"]["paramRef"]["name"], "operetta.untrusted");
    }

    #[test]
    fn monitoring_is_for_all_classes() {
        let choices = Choices {
            components: &[Component::Monitoring],
            ..Choices::default()
        };
        let error = objects(&class(), &choices)
            .expect_err("refused")
            .to_string();
        assert!(error.contains("without --class"), "{error}");
    }
}
