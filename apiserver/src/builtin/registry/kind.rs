//! The behaviour of a built-in kind: its schema, defaults, validation and tables.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    admission::{limit_ranger, pod_security, resource_quota, validation},
    apimachinery::status::Status,
    authz::objects::Objects,
    builtin::{self, Instant, ServiceAllocator},
    server::{
        Admitted, Column, Decoded, Part, RequestBody, Strategy, TableConvertor,
        objects::StoredObjects,
    },
};

/// The seconds between the deletion of a scheduled Pod and its end, unless the Pod or the client
/// says otherwise.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// The kinds whose objects would have no effect here: writes of them are refused.
const WITHOUT_EFFECT: [&str; 20] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "CertificateSigningRequest",
    "DeviceClass",
    "FlowSchema",
    "IPAddress",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "PriorityLevelConfiguration",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
    "RuntimeClass",
    "ServiceCIDR",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

/// A built-in kind.
pub(crate) struct BuiltInKind {
    resource: &'static builtin::Resource,
    api_version: String,
    objects: Arc<StoredObjects>,
}

impl BuiltInKind {
    pub fn new(resource: &'static builtin::Resource, objects: Arc<StoredObjects>) -> Self {
        Self {
            resource,
            api_version: resource.api_version(),
            objects,
        }
    }

    fn kind(&self) -> (&str, &str) {
        (&self.api_version, &self.resource.kind)
    }

    /// Gives a Service the addresses and ports that it lacks.
    fn allocate(&self, object: &mut Value) {
        if self.resource.kind == "Service" {
            builtin::allocate(object, &mut Allocator::over(&*self.objects));
        }
    }

    /// Refuses what only other parts of the server can judge.
    fn check_effect(&self, object: &Value) -> Result<(), Status> {
        match self.resource.kind.as_str() {
            "ValidatingAdmissionPolicy" => validation::validate_policy(object),
            "ValidatingAdmissionPolicyBinding" => validation::validate_binding(object),
            "ResourceQuota" => resource_quota::check_supported(object),
            "LimitRange" => limit_ranger::check_supported(object),
            "Namespace" => pod_security::check_namespace(object),
            kind if WITHOUT_EFFECT.contains(&kind) => {
                let what = format!(
                    "writes of {}, which would have no effect",
                    self.resource.plural
                );
                Err(Status::not_implemented(&what))
            }
            _ => Ok(()),
        }
    }

    fn admitted(
        &self,
        mut object: Value,
        old: Option<&Value>,
        is_main: bool,
    ) -> Result<Admitted, Status> {
        if object["rules"].as_array().is_some_and(Vec::is_empty)
            && self.resource.group == "rbac.authorization.k8s.io"
        {
            object["rules"] = Value::Null;
        }

        self.check_effect(&object)?;
        let (api_version, kind) = self.kind();
        let warnings = if is_main {
            builtin::object_warnings(api_version, kind, &object, old)
        } else {
            Vec::new()
        };

        Ok(Admitted { object, warnings })
    }

    /// Returns the version in which objects are stored, when it is another.
    fn stored_version(&self) -> Option<&'static str> {
        match self.kind() {
            ("events.k8s.io/v1", _) => Some("v1"),
            ("autoscaling/v1", "HorizontalPodAutoscaler") => Some("autoscaling/v2"),
            _ => None,
        }
    }

    fn convert(&self, object: &mut Value, from: &str, to: &str) -> Result<(), Status> {
        object["kind"] = self.resource.kind.as_str().into();
        object["apiVersion"] = from.into();
        *object = builtin::convert(object, to)?;
        Ok(())
    }
}

fn instant(now: Timestamp) -> Instant {
    Instant {
        seconds: now.as_second(),
        nanos: u32::try_from(now.subsec_nanosecond()).unwrap_or_default(),
    }
}

fn decoded(decoded: builtin::DecodedObject) -> Decoded {
    Decoded {
        object: decoded.object,
        problems: decoded.warnings,
    }
}

impl TableConvertor for BuiltInKind {
    fn columns(&self) -> Vec<Column> {
        let columns = builtin::table_columns(self.resource);
        columns
            .as_array()
            .into_iter()
            .flatten()
            .map(Column::from_value)
            .collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let (api_version, kind) = self.kind();
        builtin::table_row(api_version, kind, object, instant(now)).cells
    }

    fn row_conditions(&self, object: &Value) -> Vec<Value> {
        let (api_version, kind) = self.kind();
        builtin::table_row(
            api_version,
            kind,
            object,
            Instant {
                seconds: 0,
                nanos: 0,
            },
        )
        .conditions
    }
}

impl Strategy for BuiltInKind {
    fn read(&self, body: &RequestBody<'_>) -> Result<Decoded, Status> {
        builtin::decode_body(self.resource, body.text, body.validation).map(decoded)
    }

    fn decode(&self, text: &[u8]) -> Result<Decoded, String> {
        builtin::decode_patched(self.resource, text).map(decoded)
    }

    fn reserve(&self, object: &Value) -> Result<(), Status> {
        if self.resource.kind != "Service" {
            return Ok(());
        }
        builtin::reserve_address(object, &mut Allocator::over(&*self.objects))
    }

    fn admit_create(&self, object: &Value, now: Timestamp) -> Result<Admitted, Status> {
        let (api_version, kind) = self.kind();
        let mut object = object.clone();
        self.allocate(&mut object);
        let prepared = builtin::prepare_create(api_version, kind, object, instant(now))?;

        self.admitted(prepared, None, true)
    }

    fn admit_update(
        &self,
        old: &Value,
        object: &Value,
        part: Part,
        now: Timestamp,
    ) -> Result<Admitted, Status> {
        let subresource = match part {
            Part::Main => None,
            Part::Status => Some("status"),
            Part::Finalize => Some("finalize"),
        };
        let prepare =
            |new| builtin::prepare_update(self.kind(), subresource, old, new, instant(now));

        let mut prepared = prepare(object.clone())?;
        if part == Part::Main && self.resource.kind == "Service" {
            // What the old Service had is kept before something new is allocated.
            self.allocate(&mut prepared);
            prepared = prepare(prepared)?;
        }

        self.admitted(prepared, Some(old), part == Part::Main)
    }

    fn fields(&self, object: &Value) -> BTreeMap<String, String> {
        let (api_version, kind) = self.kind();
        let mut fields = builtin::field_values(api_version, kind, object);
        if kind == "Event" {
            // The same object is selected by the fields of both of its versions.
            let other = if api_version == "v1" {
                "events.k8s.io/v1"
            } else {
                "v1"
            };

            let mut converted = object.clone();
            if self.convert(&mut converted, api_version, other).is_ok() {
                fields.extend(builtin::field_values(other, kind, &converted));
            }
        }

        fields
    }

    fn field_names(&self) -> Vec<&str> {
        let (api_version, kind) = self.kind();
        builtin::selectable_fields(api_version, kind).to_vec()
    }

    fn unsupported_field(&self, field: &str) -> String {
        match self.kind() {
            (_, "Job") => format!("field label \"{field}\" not supported for Job"),
            (version, "ResourceSlice") => {
                format!("field label not supported for {version}, Kind=ResourceSlice: {field}")
            }
            _ => format!("field label not supported: {field}"),
        }
    }

    fn convert_from_stored(&self, object: &mut Value) -> Result<(), Status> {
        match self.stored_version() {
            Some(stored) => self.convert(object, stored, &self.api_version),
            None => Ok(()),
        }
    }

    fn convert_to_stored(&self, object: &mut Value) -> Result<(), Status> {
        match self.stored_version() {
            Some(stored) => self.convert(object, &self.api_version, stored),
            None => Ok(()),
        }
    }

    fn is_stored_version(&self) -> bool {
        self.stored_version().is_none()
    }

    fn deprecation(&self) -> Option<String> {
        let (api_version, kind) = self.kind();
        builtin::deprecation_warning(api_version, kind).map(str::to_owned)
    }

    fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        if self.resource.kind != "Pod" {
            return None;
        }

        let is_unscheduled = object["spec"]["nodeName"]
            .as_str()
            .unwrap_or_default()
            .is_empty();
        let is_over = matches!(
            object["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        );
        if is_unscheduled || is_over {
            return Some(0);
        }

        let own = object["spec"]["terminationGracePeriodSeconds"].as_i64();
        Some(requested.or(own).unwrap_or(DEFAULT_GRACE_SECONDS))
    }
}

/// Hands out the addresses and ports that no Service has.
struct Allocator {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

impl Allocator {
    /// The first addresses of the range are for the server itself and for DNS.
    const FIRST_ADDRESS: u8 = 11;
    const FIRST_PORT: i64 = 30_000;
    const LAST_PORT: i64 = 32_767;

    fn over(objects: &dyn Objects) -> Self {
        let mut found = Self {
            addresses: BTreeSet::new(),
            ports: BTreeSet::new(),
        };

        for service in objects.list("", "services", "") {
            let spec = &service["spec"];
            found
                .addresses
                .extend(spec["clusterIP"].as_str().map(str::to_owned));

            let ports = spec["ports"].as_array().into_iter().flatten();
            found
                .ports
                .extend(ports.filter_map(|port| port["nodePort"].as_i64()));
        }

        found
    }
}

impl ServiceAllocator for Allocator {
    fn cluster_ip(&mut self) -> Option<String> {
        let candidates = (Self::FIRST_ADDRESS..=254).map(|last| format!("10.0.0.{last}"));
        let free = candidates
            .into_iter()
            .find(|address| !self.addresses.contains(address))?;
        self.addresses.insert(free.clone());

        Some(free)
    }

    fn node_port(&mut self) -> Option<i64> {
        let free = (Self::FIRST_PORT..=Self::LAST_PORT).find(|port| !self.ports.contains(port))?;
        self.ports.insert(free);
        Some(free)
    }
}
