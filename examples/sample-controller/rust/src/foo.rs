//! The kind `Foo` of samplecontroller.k8s.io, as crd.yaml defines it.

use operetta_sdk::ObjectMeta;
use serde::{Deserialize, Serialize};

/// Wants a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Foo {
    /// Name, namespace, labels and so on.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: FooSpec,
    /// What there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FooStatus>,
}

/// The Deployment that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// The Deployment's name.
    #[serde(default)]
    pub deployment_name: String,
    /// How many replicas it is to have, 1 to 10; not ours to say if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// The Deployment that there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// The Deployment's available replicas.
    #[serde(default)]
    pub available_replicas: i32,
}

operetta_sdk::kind!(Foo, "samplecontroller.k8s.io/v1alpha1", "Foo");
