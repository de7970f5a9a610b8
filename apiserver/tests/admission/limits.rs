//! LimitRanges complete or refuse Pods and claims.

use operetta_apiserver::{
    admission::{
        limit_ranger,
        request::{AdmissionRequest, Endpoint, Operation},
    },
    apimachinery::status::Status,
    authn::user::User,
};
use serde_json::{Value, json};

use crate::{status, store::Store, table};

#[test]
fn resources_are_limited_as_by_kubernetes() {
    let mut lines = table(include_str!("limits.json"));
    let world = lines.remove(0);
    let mut store = Store::default();
    for object in world["objects"].as_array().expect("objects") {
        if object["kind"] == "LimitRange" {
            assert_eq!(limit_ranger::check_supported(object), Ok(()));
        }
        store.put(object.clone());
    }

    assert!(lines.len() >= 30);
    for line in lines {
        let mut object = line["object"].clone();
        default_requests(&mut object);

        let answer = admit(&store, &mut object);
        let expected = Some(&line["denied"])
            .filter(|denied| !denied.is_null())
            .map(status);
        assert_eq!(
            answer.err().map(|error| error.to_value()),
            expected,
            "{line}"
        );
        if let Some(resources) = line.get("resources") {
            assert_eq!(&completed(&object), resources, "{line}");
            let annotations = &object["metadata"]["annotations"];
            assert_eq!(
                annotations.is_null(),
                line["annotations"] == json!({}),
                "{line}"
            );
            if !annotations.is_null() {
                assert_eq!(annotations, &line["annotations"], "{line}");
            }
        }
    }
}

/// Defaults requests to limits, as the defaulting of Pods does before admission.
fn default_requests(object: &mut Value) {
    for list in ["containers", "initContainers"] {
        for container in object["spec"][list].as_array_mut().into_iter().flatten() {
            let limits = container["resources"]["limits"].clone();
            for (name, limit) in limits.as_object().into_iter().flatten() {
                if container["resources"]["requests"].get(name).is_none() {
                    container["resources"]["requests"][name] = limit.clone();
                }
            }
        }
    }
}

fn admit(store: &Store, object: &mut Value) -> Result<(), Status> {
    let user = User::new("admin", &["system:masters"]);
    let kind = object["kind"].as_str().expect("a kind").to_owned();
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .expect("a namespace")
        .to_owned();
    let name = object["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();

    let endpoint = Endpoint {
        group: String::new(),
        version: "v1".to_owned(),
        resource: format!("{}s", kind.to_lowercase()),
        kind,
    };

    let request = |object| AdmissionRequest {
        operation: Operation::Create,
        endpoint: &endpoint,
        equivalents: &[],
        subresource: "",
        namespace: &namespace,
        name: &name,
        user: &user,
        object,
        old: None,
        options: &Value::Null,
    };

    limit_ranger::complete(&request(None), object, store);
    limit_ranger::admit(&request(Some(object)), store)
}

fn completed(pod: &Value) -> Value {
    let lists = ["containers", "initContainers"];
    let containers = lists
        .iter()
        .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten());

    containers
        .map(|container| {
            let mut resources = container["resources"].clone();
            match resources.as_object_mut() {
                Some(fields) => fields.retain(|_, value| !value.is_null()),
                None => resources = json!({}),
            }
            resources
        })
        .collect()
}

#[test]
fn limit_of_what_is_not_limited_is_refused() {
    for limit in [
        json!({"type": "Pod", "max": {"cpu": "1"}}),
        json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
        json!({"type": "Container", "max": {"cpu": "much"}}),
    ] {
        let error = limit_ranger::check_supported(&json!({"spec": {"limits": [limit]}}))
            .expect_err("not supported");
        assert_eq!(error.code, 501, "{limit}");
    }
}
